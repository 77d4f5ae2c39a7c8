"""Questions of web processes to workers, through Redis: vectors of queries, and hits of an index in memory."""
