"""Runs the handler of a route: failures become answers, and answers are counted."""

from time import perf_counter

from node.common import counters
from node.web.errors import code_of, response_to
from node.web.http import Disconnected, Request, Response
from node.web.route import Route


async def counted(route: Route, request: Request) -> Response | None:
    """Like `handle`; also counts how the request ended and how long it took."""
    began = perf_counter()
    response = await handle(route, request)
    route.calls.add(counters.CLIENT_GONE if response is None else response.status, perf_counter() - began)
    return response


async def handle(route: Route, request: Request) -> Response | None:
    """The answer of a route's handler; any exception becomes an answer. None if the client has gone away."""
    try:
        return await route.handler(request)
    except Disconnected:
        return None
    except Exception as failure:  # noqa: BLE001 - the one place where any failure becomes a logged 500
        response = (route.fault or response_to)(request, failure)
        counters.REFUSALS[code_of(failure, response.status)] += 1
        return response
