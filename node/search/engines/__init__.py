"""Engines, which find candidates: the query engine of Redis, and an index in a worker's memory."""
