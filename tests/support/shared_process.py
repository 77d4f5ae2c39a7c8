"""A process that a test's client shares with another one (`node.web.turn`)."""

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
    """A client of a process that others use, too."""
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
    """Others are answered once for each of these requests, none of which is answered meanwhile."""
    for _ in waiting:
        await asyncio.sleep(0)  # a turn of the loop for all that could go on: the client of a test takes none itself
        assert (await others.request(method, url)).status_code == status
    assert not any(task.done() for task in waiting)


async def cancelled(waiting: Sequence[asyncio.Task[Any]]) -> None:
    """Cancel these requests, whose clients are gone."""
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def answer(_request: Request) -> Response:
    """200 with an empty object."""
    return Response(200, b"{}")


HOME = Route(method="GET", path="/", handler=answer, summary="", tag="")


def route(handler: Any, path: str = "/work") -> Route:
    """A POST."""
    return Route(method="POST", path=path, handler=handler, summary="", tag="")
