"""A request as handlers get it, without a server and with no other beside it."""

from node.web.deadline import Deadlines
from node.web.http import ASGIMessage, Receive, Request, Scope
from node.web.throughput import Throughput
from node.web.turn import ClientTurns, RequestTurn


async def no_message() -> ASGIMessage:
    """What is received if a test expects that nothing is."""
    raise AssertionError("nobody reads the body")


def lone_request(scope: Scope, receive: Receive = no_message, client: str = "") -> Request:
    """The request of a client that has a process to itself."""
    return Request(scope, receive, client, "1", Deadlines(), RequestTurn(ClientTurns(Throughput(0)), client, scope))
