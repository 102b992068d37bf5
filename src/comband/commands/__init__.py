"""The commands, one per file; `comband.cli` lists them."""
