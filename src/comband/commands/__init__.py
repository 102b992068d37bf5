"""The commands, one a file; `comband.cli` puts them together."""
