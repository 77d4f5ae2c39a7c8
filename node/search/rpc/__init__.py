"""Requests of web processes to workers through Redis, for vectors of queries and for matches in an index in memory."""
