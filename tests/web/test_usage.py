"""What a client may have kept in a day, over all operations: the node counts it, so that others have room."""

import itertools
import json
from collections.abc import AsyncGenerator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from httpx2 import AsyncClient, Response

from node.common.refusal import Refused
from node.config import Limit, Limits
from node.share.capacity import Capacity
from node.share.cost import COSTS
from node.share.site import SITE_SHARE, site_of
from node.store import ids, keys
from node.store.limits import LimitStore
from node.web.usage import FINISHING_FACTOR, MAX_UNREPORTED_BYTES, MAX_UNREPORTED_SHARE, Usage
from tests.a2a.inbox_calls import begun as message_sent
from tests.agents.calls import card_of
from tests.inbox.calls import opened
from tests.support.fake_store import FakeStore
from tests.support.limits import every_limit
from tests.support.node_under_test import NodeUnderTest, running, settings_for
from tests.support.servers import RedisServer
from tests.tasks.calls import TASKS, act, offered
from tests.web.paths import OTHER, THREAD, begun

FREE = every_limit(100_000, 1)
TOTAL = 200_000
CLIENT = "203.0.113.7"
REPLY = {"body": "I can do that for you. Send me the artifact."}
MESSAGE = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "Hello there"}]}}
OFFER = {"publisher_id": "p", "title": "Read a report"}

WRITES: list[tuple[str, dict[str, Any]]] = [
    ("/api/v1/relay", {"message": "Who can read a long report about solar panels?"}),
    ("/api/v1/relay", {"message": "Who can read a long report about solar panels?", "public": False}),
    ("/api/v1/wire/stream", {"message": "Who can read a long report about solar panels?"}),
    ("/api/v1/board", THREAD),
    ("/api/v1/board/<thread>/replies", REPLY),
    ("/api/v1/sessions", {}),
    ("/api/v1/sessions/<session>/messages", {"body": "a line " * 20}),
    ("/api/v1/tasks", OFFER),
    ("/api/v1/a2a/tasks", MESSAGE),
    ("/api/v1/message:send", MESSAGE),
    ("/api/v1/feedback", {"feedback_text": "The search finds my threads quickly."}),
]


# Quotas of things are off: while a process has not reported all bytes, it lets more through than the total says.
pytestmark = pytest.mark.settings(limits=FREE, client_bytes=TOTAL, client_sessions=0, client_threads=0, client_tasks=0)


async def until_refused(client: AsyncClient, path: str, body: dict[str, Any]) -> tuple[int, Response]:
    """Repeat a request until it is refused. Returns how often it succeeded, and the answer with 429."""
    for number in itertools.count():
        # Each message is different, because the third equal one would be silenced as a loop.
        changed = body | {"number": number} if path == "/api/v1/relay" or "wire" in path else body
        response = await client.post(path, json=changed)
        if response.status_code == 429:
            return number, response
        assert response.status_code < 300, response.text
    raise AssertionError


@pytest.mark.parametrize(("path", "body"), WRITES)
async def test_every_write_counts_until_nothing_is_left_for_that_client(
    node: NodeUnderTest, path: str, body: dict[str, Any]
) -> None:
    path = await begun(node, path)
    kept, refused = await until_refused(node.client, path, body)
    assert kept > 1
    assert "bytes for this address per 24 hours" in refused.text
    assert 0 < int(refused.headers["retry-after"]) <= 86_400
    assert (await node.client_at(OTHER).post(path, json=body)).status_code < 300


async def test_who_has_nothing_left_can_still_finish_what_is_begun(node: NodeUnderTest) -> None:
    task = await offered(node)
    session = (await node.client.post("/api/v1/sessions", json={})).json()
    await until_refused(node.client, "/api/v1/message:send", MESSAGE)
    claim = await act(node, task, "claim", assignee_id="ann")
    assert claim.status_code == 200
    assert (await act(node, task, "transition", actor_id="ann")).status_code == 200
    large = {"claim_token": claim.json()["claim_token"], "result_payload": "x" * round(TOTAL * FINISHING_FACTOR)}
    assert (await act(node, task, "complete", **large)).headers["x-error-code"] == "quota.bytes"
    assert (await act(node, task, "complete", claim_token=claim.json()["claim_token"])).status_code == 200
    destroyed = {"destroy_token": session["destroy_token"]}
    url = f"/api/v1/sessions/{session['session_id']}/destroy"
    assert (await node.client.post(url, json=destroyed)).status_code == 200


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/v1/board/<thread>/report", {"reason": "It is spam."}),
        ("/api/v1/tasks/<task>/claim", {"assignee_id": "ann"}),
        ("/api/v1/tasks/claim-next", {"assignee_id": "ann"}),
        ("/api/v1/inboxes/<inbox>/a2a/tasks/<message>/pushNotificationConfigs", {"url": "https://agent.example/push"}),
    ],
)
async def test_who_has_nothing_left_is_refused_what_is_kept(
    node: NodeUnderTest, path: str, body: dict[str, Any]
) -> None:
    inbox = await opened(node)
    path = path.replace("<task>", (await offered(node))["id"]).replace("<inbox>", inbox["address"])
    path = await begun(node, path.replace("<message>", (await message_sent(node, inbox))["id"]))
    body |= {"padding": "x" * (TOTAL // MAX_UNREPORTED_SHARE)}  # large enough that Redis is asked
    await has_left(node, 0, round(TOTAL * FINISHING_FACTOR) if "claim" in path else TOTAL)
    refused = await node.client.post(path, json=body)
    assert (refused.status_code, refused.headers["x-error-code"]) == (429, "quota.bytes")


@pytest.mark.parametrize(("path", "body"), WRITES)
async def test_who_has_nothing_left_is_told_again_what_is_kept_already(
    node: NodeUnderTest, path: str, body: dict[str, Any]
) -> None:
    path, key = await begun(node, path), {"idempotency-key": "a key that is a secret"}
    body = body | {"padding": "x" * (TOTAL // MAX_UNREPORTED_SHARE)}
    first = await node.client.post(path, json=body, headers=key)
    await has_left(node, 0)
    again = await node.client.post(path, json=body, headers=key)
    assert (again.status_code, again.headers["idempotency-replayed"]) == (first.status_code, "true")


async def test_an_inbox_that_lists_its_card_is_charged_for_that_too(node: NodeUnderTest) -> None:
    wanted = {"label": "desk", "padding": "x" * (TOTAL // MAX_UNREPORTED_SHARE)}
    await has_left(node, 2 * COSTS["inbox"].of(len(json.dumps(wanted | {"card": card_of()}))))
    assert (await node.client.post("/api/v1/inboxes", json=wanted)).status_code == 201
    refused = await node.client.post("/api/v1/inboxes", json=wanted | {"card": card_of()})
    assert (refused.status_code, refused.headers["x-error-code"]) == (429, "quota.bytes")


async def has_left(node: NodeUnderTest, left: int, total: int = TOTAL) -> None:
    """Make the client use up its bytes of the day, except for this many."""
    await node.store.command("SET", keys.byte_count(ids.home_of(CLIENT), CLIENT), total - left, "PX", 60_000)


async def test_a_step_with_ever_new_keys_counts_until_nothing_is_left(node: NodeUnderTest) -> None:
    """Each key is remembered, even that of a retry that changes nothing."""
    task = await offered(node)
    path, proof = f"{TASKS}/{task['id']}/retry", {"publisher_token": task["publisher_token"]}
    for number in itertools.count():
        response = await node.client.post(path, json=proof, headers={"idempotency-key": f"a secret key {number}"})
        if response.status_code != 200:
            assert (number > 1, response.headers["x-error-code"]) == (True, "quota.bytes")
            return


async def test_a_large_body_that_does_not_fit_leaves_room_for_small_ones(node: NodeUnderTest) -> None:
    large = {"message": "Please read this long report about solar panels. " * 3900, "public": False}
    for number, status in ((1, 200), (2, 429)):
        assert (await node.client.post("/api/v1/relay", json=large | {"n": number})).status_code == status
    assert (await node.client.post("/api/v1/relay", json=large | {"message": "Hello there"})).status_code == 200


async def test_clients_of_one_site_share_a_total_of_their_own(node: NodeUnderTest) -> None:
    kept, size = 0, 0
    for number in range(2 * SITE_SHARE):
        done, refused = await until_refused(node.client_at(f"2001:db8:1:{number:x}::1"), "/api/v1/board", THREAD)
        kept += done
        size = COSTS["thread"].of(len(refused.request.content))
    assert kept * size <= TOTAL * SITE_SHARE < (kept + 1) * size + SITE_SHARE * size
    elsewhere = await node.client_at("2001:db8:2::1").post("/api/v1/board", json=THREAD)
    assert elsewhere.status_code == 201


@pytest.mark.settings(limits=FREE, client_sessions=2)
async def test_clients_of_one_site_share_what_they_may_hold(node: NodeUnderTest) -> None:
    opened = 0
    for number in range(2 * SITE_SHARE):
        client = node.client_at(f"2001:db8:1:{number:x}::1")
        opened += sum([(await client.post("/api/v1/sessions", json={})).status_code == 201 for _ in range(3)])
    assert opened == 2 * SITE_SHARE
    assert (await node.client_at("2001:db8:2::1").post("/api/v1/sessions", json={})).status_code == 201


@pytest.mark.settings(limits=Limits(search=Limit(2, 600)))
async def test_clients_of_one_site_share_a_limit_of_searches(node: NodeUnderTest) -> None:
    found = 0
    for number in range(2 * SITE_SHARE):
        client = node.client_at(f"2001:db8:1:{number:x}::1")
        answers = [await client.post("/api/v1/board/search", json={"query": "a parser"}) for _ in range(3)]
        found += sum(answer.status_code == 200 for answer in answers)
        assert answers[-1].headers["x-error-code"] == "limit.exceeded"
        assert 0 < int(answers[-1].headers["retry-after"]) <= 600
    assert found == 2 * SITE_SHARE
    elsewhere = node.client_at("2001:db8:2::1")
    assert (await elsewhere.post("/api/v1/board/search", json={"query": "a parser"})).status_code == 200


@pytest.fixture
def cramped(tmp_path: Path) -> Any:
    """A separate server with little memory."""
    with RedisServer(tmp_path / "redis", "--maxmemory", "50mb", "--maxmemory-policy", "noeviction") as server:
        yield server


async def test_one_address_does_not_fill_a_small_redis_with_replies(cramped: RedisServer) -> None:
    async with running(settings_for(cramped.url, limits=FREE)) as node:
        threads = [(await node.client_at(OTHER).post("/api/v1/board", json=THREAD)).json()["id"] for _ in range(20)]
        body = {"body": "This is a reply that says nothing new. " * 100}
        for thread in itertools.cycle(threads):
            response = await node.client.post(f"/api/v1/board/{thread}/replies", json=body)
            if response.status_code != 201:
                assert response.headers["x-error-code"] == "quota.bytes"
                break
        facts: Any = cramped.info("memory")
        assert int(facts["used_memory"]) < 0.8 * int(facts["maxmemory"])
        assert (await node.client_at(OTHER).post("/api/v1/relay", json={"message": "Hello there"})).status_code == 200


class Counts:
    """Two processes that count for the same clients."""

    def __init__(self, store: FakeStore, most: int = TOTAL) -> None:
        self.capacity = Capacity(most)
        self.processes = [Usage(LimitStore(store), self.capacity) for _ in "12"]
        self._store = store

    async def told(self, client: str = CLIENT) -> int:
        """Return how many bytes have been reported to Redis."""
        count: Any = await self._store.command("GET", keys.byte_count(ids.home_of(client), client))
        return int(count or 0)


@pytest.fixture
async def counts() -> AsyncGenerator[Counts]:
    store = FakeStore()
    yield Counts(store)
    await store.close()


async def test_small_writes_are_told_to_redis_together(counts: Counts) -> None:
    one, two = counts.processes
    counts.capacity.allowance = 100 * MAX_UNREPORTED_BYTES
    for writes in range(0, 45, 3):  # more than a site may have unreported
        for usage in (one, two, one):
            await usage.add(CLIENT, "line", MAX_UNREPORTED_BYTES // 3)
        assert await counts.told() == writes * COSTS["line"].of(MAX_UNREPORTED_BYTES // 3)
        for usage in (one, two):
            await usage.report()
    assert one.noted == {CLIENT: 30 * COSTS["line"].of(MAX_UNREPORTED_BYTES // 3)}


@pytest.mark.parametrize("client", [CLIENT, "2001:db8:1:2::/64"])
@pytest.mark.parametrize("is_reported", [False, True])
async def test_what_is_given_back_is_counted_no_longer(counts: Counts, client: str, is_reported: bool) -> None:
    one, _ = counts.processes
    used = [await one.add(client, "line", size) for size in (100, TOTAL - 1000)]
    if is_reported:
        await one.report()
    one.give_back(client, used[1])
    assert await one.add(client, "line", TOTAL - 1000) == used[1]
    await one.report()
    for name in (client, site_of(client)):
        assert await counts.told(name) == sum(used)
    assert one.noted == {client: sum(used)}


async def test_who_was_only_refused_is_not_reported(counts: Counts) -> None:
    one, _ = counts.processes
    for _ in range(200):
        one.give_back(CLIENT, await one.add(CLIENT, "line", 100))
    await one.report()
    assert one.noted == {}


async def test_without_a_total_nothing_is_counted(counts: Counts) -> None:
    one, _ = counts.processes
    counts.capacity.allowance = 0
    assert await one.add(CLIENT, "line", 100 * MAX_UNREPORTED_BYTES) == 0
    await one.report()
    assert (one.noted, await counts.told()) == ({}, 0)


async def test_a_process_keeps_no_more_than_a_block_to_itself(counts: Counts) -> None:
    counts.capacity.allowance = 100 * MAX_UNREPORTED_BYTES
    one, _ = counts.processes
    for _ in range(1000):
        await one.add(CLIENT, "line", 900)
    assert 1000 * 1000 - MAX_UNREPORTED_BYTES <= await counts.told() < 1000 * 1000  # up to the end


async def test_what_two_processes_let_through_together_is_over_the_total_by_a_block_each_at_most(
    counts: Counts,
) -> None:
    counts.capacity.allowance = 100 * MAX_UNREPORTED_BYTES
    kept = 0
    for usage in counts.processes:
        with pytest.raises(Refused) as refused:
            while True:
                await usage.add(CLIENT, "line", 900)
                kept += 1000
        assert refused.value.code == "quota.bytes"
        await usage.report()
    assert 100 * MAX_UNREPORTED_BYTES - 2000 <= kept <= 102 * MAX_UNREPORTED_BYTES


async def test_the_operator_is_told_of_what_was_kept_and_not_of_what_was_refused(counts: Counts) -> None:
    one, _ = counts.processes
    await one.add(CLIENT, "line", 0)
    for size in (TOTAL // 2, TOTAL, TOTAL):
        with suppress(Refused):
            await one.add(CLIENT, "line", size)
    await one.report()
    assert one.noted == {CLIENT: await counts.told()}
    assert await counts.told() == 2 * COSTS["line"].keeps + TOTAL // 2


@pytest.mark.parametrize(("client", "other"), [(CLIENT, OTHER), ("2001:db8:1:2::/64", "2001:db8:1:3::/64")])
async def test_who_was_found_to_have_nothing_left_is_refused_without_asking(
    counts: Counts, client: str, other: str
) -> None:
    one, _ = counts.processes
    counts.capacity.allowance = 64 * MAX_UNREPORTED_BYTES
    await one.add(client, "line", 64 * MAX_UNREPORTED_BYTES - 200)
    await one.add(client, "line", 900)
    await one.report()
    before = await counts.told(client)
    counts.capacity.allowance *= 2  # Redis would accept it by now
    for _ in range(3):
        with pytest.raises(Refused) as refused:
            await one.add(client, "line", 100)
        assert 1 < (refused.value.retry_after or 0) <= 86_400
    await one.add(client, "step", 100)  # requests that finish something still succeed
    await one.add(other, "line", 100)
    assert await counts.told(client) == before + COSTS["step"].of(100)


async def test_who_may_have_more_by_now_is_asked_about_again(counts: Counts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("node.web.usage.MAX_REFUSAL_SECONDS", 0.0)
    one, client = counts.processes[0], "2001:db8:1:2::/64"
    await one.add(client, "line", TOTAL - 200)
    await one.add(client, "line", 900)
    await one.report()
    counts.capacity.allowance = 2 * TOTAL
    for _ in "12":
        await one.add(client, "line", 100)
    assert await counts.told(client) == TOTAL + 1100  # the second one is reported later


async def test_who_still_has_nothing_is_not_asked_about_again(counts: Counts, monkeypatch: pytest.MonkeyPatch) -> None:
    one, _ = counts.processes
    with monkeypatch.context() as patch:
        patch.setattr("node.web.usage.MAX_REFUSAL_SECONDS", 0.0)
        await one.add(CLIENT, "line", TOTAL - 200)
        await one.add(CLIENT, "line", 900)
        await one.report()
    for allowance in (TOTAL, 2 * TOTAL):
        counts.capacity.allowance = allowance
        with pytest.raises(Refused):
            await one.add(CLIENT, "line", 100)


async def test_small_requests_of_many_clients_are_bounded_by_their_site(counts: Counts) -> None:
    one, _ = counts.processes
    share = TOTAL // MAX_UNREPORTED_SHARE
    kept, left = 0, 0
    for number in range(16 * SITE_SHARE * MAX_UNREPORTED_SHARE):  # each far below a client's share
        if number % 100 == 0:
            await one.report()
        try:
            await one.add(f"2001:db8:1:{number:x}::/64", "line", share // 4)
        except Refused:
            left = left or number
        else:
            kept += COSTS["line"].of(share // 4)
    assert left
    assert TOTAL * SITE_SHARE * 0.9 < kept <= (TOTAL + share) * SITE_SHARE
    told = await counts.told("2001:db8:1::/48")
    await one.add("2001:db8:1:a::/64", "step", 100)  # finishing still succeeds, and does not let others begin again
    with pytest.raises(Refused):
        await one.add("2001:db8:1:b::/64", "line", 100)
    await one.report()
    assert await counts.told("2001:db8:1::/48") == told + COSTS["step"].of(100)
    await one.add("2001:db8:2::/64", "line", 100)


async def test_only_so_many_clients_are_remembered(counts: Counts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("node.web.usage.MAX_CLIENTS", 3)
    one, clients = counts.processes[0], [f"203.0.113.{number}" for number in range(5)]
    for client in clients:
        await one.add(client, "line", TOTAL - 200)
        await one.add(client, "line", 0)
        await one.report()
    assert one.noted == dict.fromkeys(clients[:3], TOTAL)
    counts.capacity.allowance *= 2
    await one.add(clients[0], "line", 100)  # Redis is asked about this client
    for client in clients[3:]:
        with pytest.raises(Refused):
            await one.add(client, "line", 0)
