"""Engines find candidates: the query engine of Redis, or an index in a worker's memory."""
