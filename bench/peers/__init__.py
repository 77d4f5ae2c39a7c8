"""Other servers that do something comparable, started on the same machine in the same run.

Each file says what its server does for one request, with which settings, and why the comparison is worthwhile.
Peers that need Python packages of their own run in a separate environment, `.venv-bench`, so that these never mix
with the node's.
"""
