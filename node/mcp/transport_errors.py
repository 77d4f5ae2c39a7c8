"""Failures of the transport as JSON-RPC clients read them: an error response with the HTTP status."""

from node.mcp.json_rpc import INTERNAL_ERROR, INVALID_REQUEST, RpcError, error_reply
from node.mcp.tool_result import sentence
from node.web.errors import response_to
from node.web.http import JSON_TYPE, Header, Request, Response


class Rejected(Exception):
    """A request that never gets to the dispatcher."""

    def __init__(self, status: int, message: str, *headers: Header) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers


def only_json(content_type: str | None) -> None:
    """Raise Rejected if a body is said to be anything else."""
    if (content_type or "").partition(";")[0].strip().lower() != "application/json":
        raise Rejected(415, "Send the body as application/json.")


def fault(request: Request, failure: Exception) -> Response:
    """The answer to a POST that failed as a whole."""
    if isinstance(failure, Rejected):
        return Response(failure.status, _error(failure.status, str(failure)), (JSON_TYPE, *failure.headers))
    plain = response_to(request, failure)  # logs what is a bug
    return Response(plain.status, _error(plain.status, sentence(plain.body)), plain.headers)


def _error(status: int, message: str) -> bytes:
    return error_reply(None, RpcError(INTERNAL_ERROR if status >= 500 else INVALID_REQUEST, message))
