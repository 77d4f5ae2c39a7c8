"""A process that a test's client shares with another client (`node.web.turn`)."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from node.web.http import Request, Response
from node.web.route import Route
from tests.support.one_route import client_of

EAGER, MODEST = "203.0.113.7", "203.0.113.8"


@asynccontextmanager
async def shared_with_others(app: Any, address: str = EAGER) -> AsyncGenerator[httpx2.AsyncClient]:
    """A client of a process that another client uses, too."""
    async with client_of(app, MODEST) as other, client_of(app, address) as client:
        assert (await other.get("/")).status_code == 200
        assert (await client.get("/")).status_code == 200
        yield client


async def served_meanwhile(
    others: httpx2.AsyncClient,
    waiting: Sequence[asyncio.Task[Any]],
    method: str = "GET",
    url: str = "/",
    status: int = 200,
) -> None:
    """Check that others are answered once for each of these requests, and that none of these is answered meanwhile."""
    for _ in waiting:
        # One turn of the loop for every task that is ready: the test's client does not yield by itself.
        await asyncio.sleep(0)
        assert (await others.request(method, url)).status_code == status
    assert not any(task.done() for task in waiting)


async def cancelled(waiting: Sequence[asyncio.Task[Any]]) -> None:
    """Cancel these requests, as if their clients had gone."""
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def answer(_request: Request) -> Response:
    """Answer 200 with an empty object."""
    return Response(200, b"{}")


HOME = Route(method="GET", path="/", handler=answer, summary="", tag="")


def route(handler: Any, path: str = "/work") -> Route:
    """Return a POST route."""
    return Route(method="POST", path=path, handler=handler, summary="", tag="")
