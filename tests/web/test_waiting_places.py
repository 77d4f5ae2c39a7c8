"""How many requests of one client may wait in a process, and how much of slow bodies it holds: a bounded part
of all.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from contextlib import ExitStack

import pytest
from httpx2 import Response

from node.common.refusal import Refused
from node.web import waiting_places
from tests.support.node_under_test import NodeUnderTest
from tests.support.servers import eventually
from tests.web.paths import OTHER, THREAD

CLIENT = "203.0.113.7"
REPLY = {"body": "I can do that for you. Send me the artifact."}


async def test_bodies_of_a_client_that_still_come_count_by_what_is_there_of_them(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Otherwise 600 bodies of 1 MiB from one address, continued a byte at a time, would hold 600 MB of a process.
    monkeypatch.setattr(waiting_places, "MAX_WAITING_PER_CLIENT", 10)
    goes_on = asyncio.Event()

    async def slow() -> AsyncGenerator[bytes]:
        yield b'{"ignored": "' + b"x" * (10 * waiting_places.WAITING_BYTES)
        await goes_on.wait()
        yield b'"}'

    def open_session() -> Awaitable[Response]:
        return node.client.post("/api/v1/sessions", content=slow(), headers={"content-type": "application/json"})

    first = asyncio.ensure_future(open_session())

    await eventually(lambda: waiting_places.WAITING_BY_CLIENT.total() == 10)
    refused = await open_session()
    assert (refused.status_code, refused.headers["x-error-code"]) == (429, "limit.waiting")
    assert refused.headers["connection"] == "close"
    goes_on.set()
    assert (await first).status_code == 201
    assert (await open_session()).status_code == 201
    assert not waiting_places.WAITING_BY_CLIENT


async def test_one_client_may_have_so_many_requests_waiting_and_others_wait_all_the_same(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting_places, "MAX_WAITING_PER_CLIENT", 2)
    thread = (await node.client.post("/api/v1/board", json=THREAD)).json()
    url = f"/api/v1/board/{thread['id']}"
    waiting = [asyncio.create_task(node.client.get(url, params={"wait": 30})) for _ in range(2)]

    await eventually(lambda: waiting_places.WAITING_BY_CLIENT[CLIENT] == 2)
    refused = await node.client.get(url, params={"wait": 30})
    assert (refused.status_code, refused.headers["x-error-code"]) == (429, "limit.waiting")
    other = asyncio.create_task(node.client_at(OTHER).get(url, params={"wait": 30}))
    assert (await node.client.get(url)).status_code == 200
    await node.client_at(OTHER).post(f"{url}/replies", json=REPLY)
    answers = await asyncio.gather(*waiting, other)
    assert [len(answer.json()["replies"]) for answer in answers] == [1, 1, 1]
    again = asyncio.create_task(node.client.get(url, params={"wait": 30, "since_seq": 1}))
    await node.client.post(f"{url}/replies", json=REPLY)
    assert (await again).status_code == 200


async def test_clients_of_one_site_may_have_so_many_requests_waiting_together(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting_places, "MAX_WAITING_PER_SITE", 2)
    thread = (await node.client.post("/api/v1/board", json=THREAD)).json()
    url = f"/api/v1/board/{thread['id']}"
    clients = [node.client_at(f"2001:db8:1:{number:x}::1") for number in range(3)]
    waiting = [asyncio.create_task(each.get(url, params={"wait": 30})) for each in clients[:2]]

    await eventually(lambda: waiting_places.WAITING_BY_SITE["2001:db8:1::/48"] == 2)
    refused = await clients[2].get(url, params={"wait": 30})
    assert (refused.status_code, refused.headers["x-error-code"]) == (429, "limit.waiting")
    other = asyncio.create_task(node.client_at("2001:db8:2::1").get(url, params={"wait": 30}))
    assert (await clients[2].get(url)).status_code == 200
    await node.client.post(f"{url}/replies", json=REPLY)
    assert {answer.status_code for answer in await asyncio.gather(*waiting, other)} == {200}
    assert not waiting_places.WAITING_BY_SITE


def test_many_clients_leave_places_to_others() -> None:
    """Otherwise forty clients, each within its share, could hold 1.3 GB of unfinished bodies."""
    largest = 64 * waiting_places.WAITING_BYTES

    def has_place(client: str, size: int) -> bool:
        another = stack.enter_context(waiting_places.WaitingPlaces(client))
        try:
            another.take(size)
        except Refused as refused:
            assert (refused.code, refused.retry_after) == ("limit.waiting", 1.0)
            return False
        return True

    with ExitStack() as stack:
        assert sum(has_place("198.51.100.1", largest) for _ in range(64)) == 32
        for number in range(2, 42):
            assert sum(has_place(f"198.51.100.{number}", largest) for _ in range(64))
        assert waiting_places.WaitingPlaces.in_all < waiting_places.MAX_WAITING_IN_ALL
        for number in range(1, 10):
            assert [has_place(f"2001:db8:{number}::/64", largest) for _ in range(2)] == [True, False]
        assert has_place("198.51.100.1", 100)  # the client has more than its share by now, but this body takes no place
    assert waiting_places.WaitingPlaces.in_all == 0


@pytest.mark.parametrize("over", ["http", "mcp"])
async def test_a_waiting_request_counts_by_the_size_of_its_body(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch, over: str
) -> None:
    monkeypatch.setattr(waiting_places, "MAX_WAITING_PER_CLIENT", 10)
    sought = {"assignee_id": "a", "skills": ["nothing-of-the-kind"], "wait": 30}
    call = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "claim_next_task", "arguments": sought},
    }

    async def claim(padding: int) -> Response:
        if over == "http":
            return await node.client.post("/api/v1/tasks/claim-next", json={**sought, "ignored": "x" * padding})
        return await node.client.post("/api/v1/mcp", json={**call, "ignored": "x" * padding})

    waiting = asyncio.create_task(claim(9 * waiting_places.WAITING_BYTES))

    await eventually(lambda: waiting_places.WAITING_BY_CLIENT.total() == 10)
    assert "limit.waiting" in str((await claim(0)).headers) + (await claim(0)).text
    waiting.cancel()

    await eventually(lambda: not waiting_places.WAITING_BY_CLIENT)
