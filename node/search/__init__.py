"""Search by meaning and by text over threads, contracts and agents: the parts of web processes and of workers
(SPEC 4.4, DESIGN 9)."""
