"""After its answer, everything that a request refers to is freed without the garbage collector, which runs rarely."""

import asyncio
import gc
import re
import weakref
from typing import Any

import orjson
import pytest
from jinja2.runtime import Context

from node.common.refusal import Refused
from node.web.http import ASGIApp, ASGIMessage, Header, Request, Response
from node.web.route import Route
from tests.support.http_scope import HOST, http_scope
from tests.support.node_under_test import NodeUnderTest
from tests.support.one_route import front_of

JSON: Header = (b"content-type", b"application/json")
TOO_LARGE: Header = (b"content-length", b"5000000")
SIGNED: tuple[Header, ...] = ((b"signature-input", b"sig1=()"), (b"signature", b"sig1=:AAAA:"))
HEADERS = ((TOO_LARGE,), SIGNED, ((b"authorization", b"Bearer none"),), ((b"idempotency-key", b""),))
BODIES = (b"", b"{", b'"', b"\xff", b"[]", b"{}", b'{"message":"Hola, necesito ayuda"}')


pytestmark = pytest.mark.usefixtures("without_collector")


class Body:
    """The `receive` of a request, to which an answer that stayed in memory would refer. After the body, the client is
    gone.
    """

    def __init__(self, body: bytes) -> None:
        self._messages: list[ASGIMessage] = [{"type": "http.request", "body": body, "more_body": False}]

    async def __call__(self) -> ASGIMessage:
        return self._messages.pop() if self._messages else {"type": "http.disconnect"}


async def is_freed(app: ASGIApp, method: str, path: str, body: bytes = b"", *headers: Header, query: str = "") -> bool:
    """Return whether a request leaves nothing behind when the application has answered it."""
    received = Body(body)
    freed = weakref.ref(received)
    scope = http_scope(method, path, HOST, JSON, *(headers or ((b"content-length", b"%d" % len(body)),)))

    async def send(message: ASGIMessage) -> None: ...

    await app(scope | {"query_string": query.encode()}, received, send)
    del received
    await asyncio.sleep(0)  # a wait whose client has gone ends one turn of the event loop later
    return freed() is None


def example_of(operation: dict[str, Any]) -> bytes:
    content = operation.get("requestBody", {}).get("content", {})
    return orjson.dumps(content["application/json"]["example"]) if "application/json" in content else b""


async def test_nothing_of_a_request_is_left_however_it_is_answered(node: NodeUnderTest) -> None:
    """Otherwise a body of 1 MB that is no JSON keeps 3 MB for thousands of requests: 400 of them would take 1.3 GB."""
    document = (await node.client.get("/openapi.json")).json()
    left: list[tuple[str, str, bytes]] = []
    for template, operations in document["paths"].items():
        path = re.sub(r"\{\w+\}", "01a1fc17-8a45-770d-b8c6-049500583aa8", template)
        for method, operation in operations.items():
            for body in (*BODIES, example_of(operation)):
                if not await is_freed(node.app, method.upper(), path, body):
                    left.append((method, path, body))
            for headers in HEADERS:
                if not await is_freed(node.app, method.upper(), path, b"{}", *headers):
                    left.append((method, path, headers[0][0]))
            if not await is_freed(node.app, method.upper(), path, query="limit=few&wait=x&%zz"):
                left.append((method, path, b"query"))
    assert left == []


@pytest.mark.parametrize("path", ["/nowhere", "/api/v1/relay/", "/api/v1/%2e", "/static/none", "/blobs/none"])
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS", "PATCH"])
async def test_nothing_is_left_of_a_request_for_what_is_not_there(node: NodeUnderTest, method: str, path: str) -> None:
    assert await is_freed(node.app, method, path, b"", TOO_LARGE)


@pytest.mark.parametrize("message", [b"1", b"[1,{}]", b"{}", b'{"jsonrpc":"2.0","id":1,"method":"none"}'])
async def test_nothing_is_left_of_messages_that_are_answered_with_errors(node: NodeUnderTest, message: bytes) -> None:
    assert await is_freed(node.app, "POST", "/api/v1/mcp", message)


async def test_a_failure_that_its_own_frames_refer_to_keeps_no_request() -> None:
    async def fail(request: Request) -> Response:
        failure = Refused("thread.unknown") if request.path == "/refused" else KeyError("nobody expected it")
        raise failure

    paths = ("/refused", "/bug")
    app = await front_of(
        *(Route(method="GET", path=path, handler=fail, summary="Fails", tag="pages") for path in paths)
    )
    assert [await is_freed(app, "GET", path) for path in paths] == [True, True]


PAGES = ("/", "/board", "/board?q=solar", "/tasks", "/agents", "/recipes", "/reference", "/board.atom", "/sitemap.xml")


async def test_nothing_is_left_of_what_a_page_shows(node: NodeUnderTest) -> None:
    """The home page has six whole threads, which would stay for hundreds of its readers."""

    async def contexts_after(path: str) -> int:
        await node.client.get(path)
        return sum(type(each) is Context for each in gc.get_objects())

    thread = {"title": "Looking for a CSV parser", "body": "Who can parse 40 MB of CSV in a sandbox?"}
    task = {"publisher_id": "agent-1", "title": "Translate a memo into plain words"}
    made = [
        f"/board/{(await node.client.post('/api/v1/board', json=thread)).json()['id']}",
        f"/tasks/{(await node.client.post('/api/v1/tasks', json=task)).json()['id']}",
        f"/inbox/{(await node.client.post('/api/v1/inboxes', json={})).json()['address']}",
    ]
    # The first request loads templates that stay.
    left = [path for path in (*PAGES, *made) if await contexts_after(path) < await contexts_after(path)]
    assert left == []
