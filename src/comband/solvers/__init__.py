"""Optimisation over arrays: nothing here knows rounds, policies or environments."""
