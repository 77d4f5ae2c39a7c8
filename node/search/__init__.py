"""Search by meaning and by text, of threads, contracts and agents alike: the request's side and the worker's (SPEC 4.4,
DESIGN 9)."""
