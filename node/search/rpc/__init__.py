"""Requests of web processes to workers, through Redis: for vectors of queries, for matches in an index in memory."""
