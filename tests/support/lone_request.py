"""A request as handlers get it, without a server and with no other request beside it."""

from node.web.deadline import Deadlines
from node.web.http import ASGIMessage, Receive, Request, Scope
from node.web.throughput import Throughput
from node.web.turn import ClientTurns, RequestTurn


async def no_message() -> ASGIMessage:
    """Fail: for requests of which nothing must be received."""
    raise AssertionError("nobody reads the body")


def lone_request(scope: Scope, receive: Receive = no_message, client: str = "") -> Request:
    """Return the request of a client that has a process to itself."""
    return Request(scope, receive, client, "1", Deadlines(), RequestTurn(ClientTurns(Throughput(0)), client, scope))
