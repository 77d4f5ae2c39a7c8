"""The receivers of the recipe `verify-a-callback`, in Python and JavaScript, accept a real callback and nothing
else.
"""

import asyncio
import json
import os
import re
import sys
import time
from collections.abc import AsyncIterator, Iterator

import httpx2
import pytest
import pytest_asyncio

from node.recipes.markdown import recipes
from node.sign.node_key import NodeKey
from tests.conformance.javascript import node_binary
from tests.support.node_under_test import SIGNING_KEY
from tests.support.nodes import NodeProcess
from tests.support.servers import PATIENCE, free_port, listening

KEY = NodeKey.parse(SIGNING_KEY)
HOST = "127.0.0.1"
MESSAGE = json.dumps({"type": "task.claimed", "data": {"url": "http://node.example/t", "callback_host": HOST}}).encode()
PUSH = json.dumps({"task": {"id": "t", "metadata": {"callbackHost": HOST}}}).encode()
RUNNERS = {"python": (sys.executable, "-uc"), "js": (node_binary(), "--input-type=module", "-e")}
"""How to run the recipe's code, by the language of its block."""


class Example:
    """A running receiver."""

    def __init__(self, process: asyncio.subprocess.Process, port: int) -> None:
        self.port = port
        self.url = f"http://{HOST}:{port}/hook"
        self._process = process

    async def line(self) -> str:
        """Return the next line that the receiver printed."""
        assert self._process.stdout
        return (await asyncio.wait_for(self._process.stdout.readline(), PATIENCE)).decode().strip()

    async def post(self, headers: dict[str, str], body: bytes) -> int:
        """Return the status with which the receiver answers."""
        async with httpx2.AsyncClient(timeout=PATIENCE) as client:
            return (await client.post(self.url, content=body, headers=headers)).status_code


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """A node that may call receivers on this machine, and signs with KEY."""
    settings = {"RELAY_SIGNING_KEY": SIGNING_KEY, "RELAY_CALLBACK_ALLOW_PRIVATE": "1", "RELAY_WORKERS": "1"}
    with NodeProcess(tmp_path_factory.mktemp("node")) as node:
        yield node.start(RELAY_EMBEDDING_MODEL="none", **settings).ready()


@pytest_asyncio.fixture(params=RUNNERS)
async def example(served: NodeProcess, request: pytest.FixtureRequest) -> AsyncIterator[Example]:
    (recipe,) = (each.body for each in recipes(served.url) if each.name == "verify-a-callback")
    (code,) = re.findall(rf"```{request.param}\n(.*?)```", recipe, re.DOTALL)
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        *RUNNERS[request.param],
        code,
        env=os.environ | {"CALLBACK_HOST": HOST, "CALLBACK_PORT": str(port)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,  # Python's server logs each request to stderr
    )
    await listening(port)
    yield Example(process, port)
    process.kill()
    await process.communicate()


def signed(body: bytes = MESSAGE, message_id: str = "msg_1", at: float | None = None) -> dict[str, str]:
    """Return the headers of a message that the node signs at `at`, by default now."""
    seconds = int(at or time.time())
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(seconds),
        "webhook-signature": KEY.sign_webhook(message_id, seconds, body),
    }


async def test_an_example_takes_a_callback_of_the_node(served: NodeProcess, example: Example) -> None:
    async with httpx2.AsyncClient(base_url=served.url, timeout=PATIENCE) as client:
        offer = {"publisher_id": "p", "title": "Translate a memo", "callback_url": example.url}
        task = (await client.post("/api/v1/tasks", json=offer)).json()
        await client.post(f"/api/v1/tasks/{task['id']}/claim", json={"assignee_id": "w"})
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
    """Return headers and body of a message that the node did not send, or not recently."""
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


async def test_an_example_takes_no_push_of_a_task_and_stays(example: Example) -> None:
    """Anybody who knows the receiver's URL can have the node send it a push. It must not crash the receiver."""
    assert await example.post(signed(PUSH), PUSH) == 401
    assert await example.post(signed(), MESSAGE) == 204


async def test_an_example_waits_for_nobody_who_says_nothing_or_leaves(example: Example) -> None:
    """A silent connection must not block the receiver, and an aborted one must not end it."""
    _, silent = await asyncio.open_connection(HOST, example.port)
    _, leaving = await asyncio.open_connection(HOST, example.port)
    leaving.write(b"POST /hook HTTP/1.1\r\nhost: h\r\ncontent-length: 9\r\n\r\n{")
    await leaving.drain()
    leaving.transport.abort()
    assert await example.post(signed(), MESSAGE) == 204
    silent.close()
