"""A web process loads only what it needs. Frequent operations are answered without the router, which takes longer than
the rest of the web application.
"""

import asyncio
import subprocess
import sys

import pytest

from node.config import Proxies
from node.run import web
from node.run.web import WebNode
from node.web.address import ClientAddress
from node.web.dispatch import Dispatcher
from node.web.http import Request, Response
from node.web.route import Route
from node.web.router import Router
from tests.support.node_under_test import running, settings_for
from tests.support.one_route import Routes
from tests.support.servers import RedisServer, eventually

HOT = (
    ("POST", "/api/v1/inboxes/x/messages/x/settle"),
    ("POST", "/api/v1/relay"),
    ("POST", "/api/v1/sessions/0193/messages"),
    ("GET", "/api/v1/sessions/0193/messages"),
    ("GET", "/api/v1/board"),
    ("GET", "/api/v1/board/threads/0193"),
    ("POST", "/api/v1/board/threads/0193/replies"),
    ("GET", "/api/v1/tasks"),
    ("POST", "/api/v1/tasks"),
    ("POST", "/api/v1/tasks/claim-next"),
    ("POST", "/api/v1/tasks/0193/claim"),
    ("POST", "/api/v1/tasks/0193/complete"),
    ("POST", "/api/v1/message:send"),
    ("POST", "/api/v1/mcp"),
    ("OPTIONS", "/api/v1/mcp"),
    ("POST", "/mcp/messages"),
)
COLD = ("GET", "/health")


def test_a_web_process_loads_no_model_and_nothing_that_calls_others() -> None:
    program = "import sys, node.run.web; print([*{'httpcore2', 'numpy', 'onnxruntime', 'torch'} & sys.modules.keys()])"
    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "[]\n"


async def test_what_agents_call_all_the_time_goes_past_the_router(
    empty_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    routed: list[tuple[str, str]] = []
    find = Router.find

    async def recorded(router: Router, request: Request) -> Route | Response:
        routed.append((request.method, request.path))
        return await find(router, request)

    monkeypatch.setattr(Router, "find", recorded)
    async with running(settings_for(empty_redis.url)) as node:
        for method, path in (*HOT, COLD):
            await node.client.request(method, path)
    assert routed == [COLD]


async def test_a_node_that_cannot_be_put_together_leaves_nothing_running(
    empty_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> dict[str, Response]:
        raise ValueError("two routes with one path")

    monkeypatch.setattr(web, "refusals_of", fail)
    with pytest.raises(ValueError, match="two routes"):
        await WebNode.start(settings_for(empty_redis.url))
    await eventually(lambda: empty_redis.do("CLIENT", "LIST").count(b"\n") == 1)
    await eventually(lambda: asyncio.all_tasks() == {asyncio.current_task()})


@pytest.mark.parametrize("path", ["/tasks/{id}/claim", "/{path}"])
def test_a_hot_route_that_could_not_be_found_is_refused_at_start(path: str) -> None:
    """Otherwise the router would answer it, more slowly, and nobody would notice."""

    async def handler(request: Request) -> Response:
        return Response(200, b"")

    route = Route(method="GET", path=path, handler=handler, summary="Hot", tag="tasks", hot=True)
    with pytest.raises(ValueError, match="cannot be hot"):
        Dispatcher(Routes([route], []), ClientAddress(Proxies(), "x-forwarded-for"))
