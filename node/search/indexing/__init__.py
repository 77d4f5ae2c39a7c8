"""Turns entities into the documents in which engines search: the worker's side of search."""
