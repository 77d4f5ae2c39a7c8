"""The signals that the processes of a node send each other."""

import signal

# Sent to each web process when the node is going to stop: GET /ready says 503 from then on, so that load
# balancers turn away before nobody listens.
DRAIN = signal.SIGUSR2
# Sent to each web process just before it is told to stop, so that it answers the requests it
# holds for news: `wait=30` must not keep a node from stopping.
RELEASE_WAITERS = signal.SIGUSR1
