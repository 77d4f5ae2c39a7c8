"""The id of the request that is being handled, for log lines."""

from contextvars import ContextVar

REQUEST_ID: ContextVar[str] = ContextVar("request_id", default="")
"""Set for each request; cheaper than structlog's context variables."""
