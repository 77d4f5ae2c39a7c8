"""Which request is being handled: whoever handles one sets its id, and log lines then have it."""

from contextvars import ContextVar

REQUEST: ContextVar[str] = ContextVar("request_id", default="")
"""The id of the request that is handled in this context; set for each, so it costs less than structlog's own."""
