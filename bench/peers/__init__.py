"""Other servers that do a comparable thing, started on the same machine in the same run.

Each file says what its server does for one request, with which settings, and why it is worth the
comparison. Those written in Python run in an environment of their own, `.venv-bench`, so that what
they need never mixes with the node.
"""
