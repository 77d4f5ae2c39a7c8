"""The signals that the processes of a node send each other."""

import signal

DRAIN = signal.SIGUSR2
"""Sent to each web process when the node is going to stop. GET /ready then answers 503, so that load balancers stop
sending requests before the node stops listening."""

RELEASE_WAITERS = signal.SIGUSR1
"""Sent to each web process just before it is told to stop: it answers the requests that wait for a change, so that
`wait=30` does not delay the stop."""
