"""What agents call all the time is answered without the router, which takes longer than the rest of the front."""

import pytest

from node.run.web import WebNode
from node.web.http import Receive, Scope, Send
from tests.support.node_under_test import running, settings_for
from tests.support.servers import RedisServer

HOT = (
    ("POST", "/api/v1/relay"),
    ("POST", "/api/v1/sessions/0193/messages"),
    ("GET", "/api/v1/sessions/0193/messages"),
    ("GET", "/api/v1/board"),
    ("GET", "/api/v1/tasks"),
    ("POST", "/api/v1/tasks/0193/claim"),
    ("POST", "/api/v1/message:send"),
    ("POST", "/api/v1/mcp"),
    ("OPTIONS", "/api/v1/mcp"),
    ("POST", "/mcp/messages"),
)
COLD = ("GET", "/health")


async def test_what_agents_call_all_the_time_goes_past_the_router(
    empty_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    routed: list[tuple[str, str]] = []
    router = WebNode.router

    async def recorded(self: WebNode, scope: Scope, receive: Receive, send: Send) -> None:
        routed.append((scope["method"], scope["path"]))
        await router(self, scope, receive, send)

    monkeypatch.setattr(WebNode, "router", recorded)
    async with running(settings_for(empty_redis.url)) as node:
        for method, path in (*HOT, COLD):
            await node.client.request(method, path)
    assert routed == [COLD]
