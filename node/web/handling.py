"""Runs the handler of a route, turns failures into answers, and counts the answers."""

from time import perf_counter

from node.common import counters
from node.common.cohort import next_stage
from node.web.errors import code_of, forget_frames, response_to
from node.web.http import Disconnected, Request, Response
from node.web.json import name_parameters
from node.web.route import Route

MAX_NAMED_QUERY_BYTES = 2048
"""Longest query, in bytes, whose parameters are named as ignored if the operation takes none. A longer query is not
parsed: /health, for instance, answers every client, even a blocked one, so its cost must not depend on the query."""

ESCAPE_COST = 10
"""Cost of one %-escape in a query, in bytes of an answer (0.5 µs). In the longest query that Granian accepts, 10,000
escapes take 3 ms to decode. 30,000 percent signs that escape nothing take 15 ms, since each is a decoding error."""


async def handle_in_turn(route: Route, request: Request) -> Response | None:
    """Do what `handle` does within the client's turn; count the outcome of the request and its duration.

    It does not call `handle`, which would cost one more coroutine for each request.
    """
    began = perf_counter()
    try:
        if not request.turn.begin_now():
            await request.turn.begin()
        if request.scope["query_string"]:
            _look_at_query(route, request)
        await next_stage()
        response = await route.handler(request)
    except Exception as failure:  # noqa: BLE001 - any failure becomes an answer
        response = _answer_to(failure, route, request)
    finally:
        request.turn.end()
    seconds = None if request.has_waited else perf_counter() - began
    route.counts.add(counters.CLIENT_GONE if response is None else response.status, seconds)
    return response


async def handle(route: Route, request: Request) -> Response | None:
    """Return the answer of a route's handler; any exception becomes an answer. None if the client has gone away."""
    try:
        if request.scope["query_string"]:
            _look_at_query(route, request)
        return await route.handler(request)
    except Exception as failure:  # noqa: BLE001 - any failure becomes an answer
        return _answer_to(failure, route, request)


def _look_at_query(route: Route, request: Request) -> None:
    """Charge the client for the escapes in its query. Name the parameters as ignored if the operation takes none."""
    query: bytes = request.scope["query_string"]
    request.cost += ESCAPE_COST * query.count(b"%")
    if route.query is None and len(query) <= MAX_NAMED_QUERY_BYTES:
        name_parameters(request)


def _answer_to(failure: Exception, route: Route, request: Request) -> Response | None:
    if isinstance(failure, Disconnected):
        return None
    response = (route.fault or response_to)(request, failure)
    forget_frames(failure)
    counters.REFUSALS[code_of(failure, response.status)] += 1
    counters.count_refused(request.client)
    return response
