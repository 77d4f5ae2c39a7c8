"""Runs the handler of a route: failures become answers, and answers are counted."""

from time import perf_counter

from node.common import counters
from node.web.errors import code_of, response_to
from node.web.http import Disconnected, Request, Response
from node.web.json import name_parameters
from node.web.route import Route


async def counted(route: Route, request: Request) -> Response | None:
    """Like `handle`, in its client's turn; also counts how the request ended and how long it took."""
    began = perf_counter()
    if route.query is None and request.scope["query_string"]:
        name_parameters(request)
    try:
        if not request.turn.begin_now():
            await request.begin()
        response = await route.handler(request)
    except Exception as failure:  # noqa: BLE001 - any failure becomes an answer
        response = _answer_to(failure, route, request)
    finally:
        request.turn.end()
    route.calls.add(counters.CLIENT_GONE if response is None else response.status, perf_counter() - began)
    return response


async def handle(route: Route, request: Request) -> Response | None:
    """The answer of a route's handler; any exception becomes an answer. None if the client has gone away."""
    if route.query is None and request.scope["query_string"]:
        name_parameters(request)
    try:
        return await route.handler(request)
    except Exception as failure:  # noqa: BLE001 - any failure becomes an answer
        return _answer_to(failure, route, request)


def _answer_to(failure: Exception, route: Route, request: Request) -> Response | None:
    if isinstance(failure, Disconnected):
        return None
    response = (route.fault or response_to)(request, failure)
    counters.REFUSALS[code_of(failure, response.status)] += 1
    counters.count_refused(request.client)
    return response
