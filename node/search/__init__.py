"""Search on the board, by meaning and by text: the request's side and the worker's (SPEC 4.4, DESIGN 9)."""
