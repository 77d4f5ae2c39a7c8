"""Search by meaning and by text, for threads, contracts and agents alike, in web processes and workers (SPEC 4.4,
DESIGN 9)."""
