"""A process works on large bodies in steps, between which it serves the requests of others (DESIGN 13.3)."""

import asyncio
import json
import math
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import httpx2
import pytest

from node.web import large_bodies, turn
from node.web.large_bodies import LARGE_BODY, LargeBodySteps
from tests.support.node_under_test import NodeUnderTest
from tests.support.servers import eventually

SENDER, OTHER = "203.0.113.7", "203.0.113.8"
TEXT = "The large report about solar panels is attached to this message."
NUMBERS = {"numbers": list(range(LARGE_BODY // 4))}
TOOL_CALL = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {"name": "relay_message", "arguments": {"message": TEXT, "public": False, **NUMBERS}},
}
MESSAGE = {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": TEXT}]}


pytestmark = pytest.mark.settings(embedding_model="none")


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list of the sizes in bytes of the bodies for which a step was requested."""
    asked: list[int] = []
    wait = LargeBodySteps.wait

    async def noted(self: LargeBodySteps, size: int) -> None:
        asked.append(size)
        await wait(self, size)

    monkeypatch.setattr(LargeBodySteps, "wait", noted)
    return asked


@asynccontextmanager
async def shared(node: NodeUnderTest) -> AsyncGenerator[tuple[httpx2.AsyncClient, httpx2.AsyncClient]]:
    """Two clients that use a process."""
    async with node.client_at(SENDER) as sender, node.client_at(OTHER) as other:
        for client in (sender, other):
            assert (await client.get("/health")).status_code == 200
        yield sender, other


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        ("/api/v1/relay", {"message": TEXT, "public": False, **NUMBERS}, 3),
        ("/api/v1/message:send", {"message": MESSAGE | {"metadata": NUMBERS}}, 5),
        ("/api/v1/board", {"title": "A large report", "body": TEXT, "unknown": NUMBERS}, 3),
        ("/api/v1/mcp", TOOL_CALL, 4),
    ],
)
async def test_the_steps_of_a_large_body_are_far_apart_while_others_use_the_process(
    node: NodeUnderTest, steps: list[int], monkeypatch: pytest.MonkeyPatch, path: str, body: object, expected: int
) -> None:
    content = json.dumps(body, separators=(",", ":"))
    headers = {"content-type": "application/json"}
    async with shared(node) as (sender, other):
        accepted = await sender.post(path, content=content, headers=headers)
        assert accepted.status_code in (200, 201), accepted.text
        assert len(steps) == expected
        assert min(steps) >= LARGE_BODY
        steps.clear()
        monkeypatch.setattr(turn, "SHARED_SECONDS", math.inf)
        monkeypatch.setattr(large_bodies, "LARGE_BYTES_A_SECOND", 1)  # the step after the next one is due only in a day
        monkeypatch.setattr(large_bodies, "MAX_STEP_WAIT_SECONDS", math.inf)
        slow = asyncio.create_task(sender.post(path, content=content, headers=headers))

        await eventually(lambda: len(steps) == 2)
        assert (await other.post("/api/v1/relay", json={"message": TEXT})).status_code == 200
        assert len(steps) == 2
        assert not slow.done()
        slow.cancel()


@pytest.mark.usefixtures("other_clients")
async def test_large_bodies_that_would_wait_for_long_are_refused_and_small_ones_are_not(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large_bodies, "LARGE_BYTES_A_SECOND", 1)
    large = {"message": TEXT, "public": False, **NUMBERS}
    async with shared(node) as (sender, other):
        refused = [await client.post("/api/v1/relay", json=large) for client in (sender, other)]
        assert [response.status_code for response in refused] == [503, 503]
        assert refused[1].headers["x-error-code"] == "store.busy"
        assert 1 <= int(refused[1].headers["retry-after"]) <= len(refused[1].request.content)
        small = await other.post("/api/v1/relay", json={"message": TEXT})
        assert small.status_code == 200
        assert ";r=9;" in small.headers["ratelimit"], "what was refused for lack of room is not counted"


@pytest.mark.usefixtures("other_clients")
async def test_a_tool_call_that_would_wait_for_long_gets_a_result_that_says_so(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large_bodies, "LARGE_BYTES_A_SECOND", 1)
    async with shared(node) as (sender, _):
        response = await sender.post("/api/v1/mcp", json=TOOL_CALL)
    assert response.status_code == 200
    said = response.json()["result"]
    assert said["isError"] is True
    assert json.loads(said["content"][0]["text"])["code"] == "store.busy"


async def test_the_large_params_of_any_call_of_an_inbox_are_read_in_steps(
    node: NodeUnderTest, steps: list[int]
) -> None:
    async with shared(node) as (sender, _):
        inbox = (await sender.post("/api/v1/inboxes", json={})).json()
        for method, code in (("GetTask", -32001), ("CreateTaskPushNotificationConfig", -32602), ("ListTasks", None)):
            params = {"id": "none", "taskId": "none", **NUMBERS}
            call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            answer = (await sender.post(f"/api/v1/inboxes/{inbox['address']}/a2a", json=call)).json()
            assert answer.get("error", {}).get("code") == code, answer
            assert len(steps) == 5, "one before the body is read, two of the call, two of its params"
            steps.clear()


async def test_a_client_that_has_the_process_to_itself_waits_for_no_step(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large_bodies, "LARGE_BYTES_A_SECOND", 1)
    async with node.client_at(SENDER) as sender:
        for number in range(2):
            message = {"message": f"{TEXT} It is number {number}.", "public": False, **NUMBERS}
            assert (await sender.post("/api/v1/relay", json=message)).status_code == 200
