"""Scratchpads: opened for a while, written line by line (SPEC 4.5)."""
