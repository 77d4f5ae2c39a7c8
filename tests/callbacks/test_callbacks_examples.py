"""An example receiver in JavaScript takes a real callback of the node, and nothing else.

The one in Python is the recipe `verify-a-callback`.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
import pytest_asyncio

from node.sign.node_key import NodeKey
from tests.conformance.javascript import node_binary
from tests.support.node_under_test import SIGNING_KEY, NodeUnderTest
from tests.support.servers import PATIENCE, free_port, listening

KEY = NodeKey.parse(SIGNING_KEY)
RECEIVER = Path(__file__).parent / "js" / "receiver.mjs"
HOST = "127.0.0.1"
MESSAGE = json.dumps({"type": "task.claimed", "data": {"url": "http://node.example/t", "callback_host": HOST}}).encode()


class Example:
    """The receiver, running."""

    def __init__(self, process: asyncio.subprocess.Process, url: str) -> None:
        self.url = url
        self._process = process

    async def line(self) -> str:
        """The next thing that it was told."""
        assert self._process.stdout
        return (await asyncio.wait_for(self._process.stdout.readline(), PATIENCE)).decode().strip()

    async def post(self, headers: dict[str, str], body: bytes) -> int:
        """The status with which it answers."""
        async with httpx2.AsyncClient(timeout=PATIENCE) as client:
            return (await client.post(self.url, content=body, headers=headers)).status_code


pytestmark = pytest.mark.settings(callback_allow_private=True, embedding_model="none")


@pytest_asyncio.fixture
async def example() -> AsyncIterator[Example]:
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        *(node_binary(), str(RECEIVER), KEY.public.whpk, str(port), HOST), stdout=asyncio.subprocess.PIPE
    )
    await listening(port)
    yield Example(process, f"http://{HOST}:{port}/hook")
    process.kill()
    await process.communicate()


def signed(body: bytes = MESSAGE, message_id: str = "msg_1", at: float | None = None) -> dict[str, str]:
    """Headers of a message that the node signs at `at`, by default now."""
    seconds = int(at or time.time())
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(seconds),
        "webhook-signature": KEY.sign_webhook(message_id, seconds, body),
    }


async def test_an_example_takes_a_callback_of_the_node(node: NodeUnderTest, example: Example) -> None:
    async with node.worker():
        offer = {"publisher_id": "p", "title": "Translate a memo", "callback_url": example.url}
        task = (await node.client.post("/api/v1/tasks", json=offer)).json()
        await node.client.post(f"/api/v1/tasks/{task['id']}/claim", json={"assignee_id": "w"})
        assert await example.line() == f"task.claimed {task['url']}"


async def test_an_example_takes_a_repeat_and_tells_it_once(example: Example) -> None:
    assert await example.post(signed(), MESSAGE) == 204
    assert await example.post(signed(), MESSAGE) == 204
    assert await example.post(signed(message_id="msg_2"), MESSAGE) == 204
    assert [await example.line(), await example.line()] == ["task.claimed http://node.example/t"] * 2


async def test_an_example_finds_the_signature_among_others(example: Example) -> None:
    headers = signed()
    headers["webhook-signature"] = f"v1,bm90IGZvciB5b3U= v1a,AAAA {headers['webhook-signature']}"
    assert await example.post(headers, MESSAGE) == 204


def forged(how: str) -> tuple[dict[str, str], bytes]:
    """Headers and body of a message that the node did not send, or not just now."""
    now = time.time()
    good = signed(at=now)
    forger = NodeKey.generate().sign_webhook("msg_1", int(now), MESSAGE)
    return {
        "another body": (good, MESSAGE.replace(b"claimed", b"expired")),
        "another id": (good | {"webhook-id": "msg_2"}, MESSAGE),
        "another time": (good | {"webhook-timestamp": str(int(now) + 1)}, MESSAGE),
        "too old": (signed(at=now - 600), MESSAGE),
        "from the future": (signed(at=now + 600), MESSAGE),
        "no time": (good | {"webhook-timestamp": "now"}, MESSAGE),
        "another key": (good | {"webhook-signature": forger}, MESSAGE),
        "another version": (good | {"webhook-signature": good["webhook-signature"].replace("v1a", "v1")}, MESSAGE),
        "not base64": (good | {"webhook-signature": "v1a,?"}, MESSAGE),
        "no signature": ({"webhook-id": "msg_1", "webhook-timestamp": str(int(now))}, MESSAGE),
        "nothing": (dict[str, str](), b""),
    }[how]


@pytest.mark.parametrize(
    "how",
    [
        *("another body", "another id", "another time", "too old", "from the future", "no time"),
        *("another key", "another version", "not base64", "no signature", "nothing"),
    ],
)
async def test_an_example_refuses_what_the_node_did_not_sign(example: Example, how: str) -> None:
    headers, body = forged(how)
    assert await example.post(headers, body) == 401


async def test_an_example_refuses_what_was_signed_for_another_host(example: Example) -> None:
    other = MESSAGE.replace(HOST.encode(), b"other.example")
    assert await example.post(signed(other), other) == 401
