"""Many publishers share a node, a resolver, a host and a network: one publisher's callbacks never hold up another's.

The whole pipeline with a worker, a DNS server that a test may silence, and receivers on loopback. Each client has an
address of its own, and the limits are those of production.
"""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest
import pytest_asyncio

from node.callbacks.breaker import MAX_OPEN_MS
from node.callbacks.call import AttemptTimeouts
from node.callbacks.concurrency import PLACES_EACH_SITE_AND_DOMAIN
from node.callbacks.queue import HIDDEN_MS, CallbackQueue, DeadLetter
from node.config import Limit, Limits, Schedule
from node.sign.node_key import NodeKey
from node.store import ids, keys
from node.tasks.compaction import unpack
from node.tasks.store import TaskStore
from tests.callbacks.dns_server import SILENT, DnsServer
from tests.callbacks.receiver import Receiver
from tests.support.answers import json_of
from tests.support.node_under_test import SIGNING_KEY, NodeUnderTest, until
from tests.support.servers import PATIENCE, eventually

PUBLIC = NodeKey.parse(SIGNING_KEY).public.raw
HERE = ["60 A 127.0.0.1"]
EVIL = "198.51.100.66"
ANOTHER = "198.51.100.9"
STEPS = ("claim", "transition", "complete")
LIMIT = 60  # callbacks a minute to one host, and to one network


@pytest_asyncio.fixture
async def dns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[DnsServer]:
    """The DNS server that web processes and workers use for all names."""
    async with DnsServer({"*.silent.example": SILENT, "*.here.example": HERE}) as server:
        monkeypatch.setattr("node.callbacks.resolve.Lookup", lambda: server.lookup(tmp_path))
        yield server


@pytest.fixture
def overrides(dns: DnsServer) -> dict[str, Any]:
    return {"callback_allow_private": True, "embedding_model": "none"}


class Contracts:
    """Contracts of one publisher, who wants a callback for every step."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self._client = client
        self.ids: list[str] = []

    @classmethod
    async def offered(cls, node: NodeUnderTest, address: str, *urls: str) -> "Contracts":
        """Offer one contract for each URL."""
        contracts = cls(node.client_at(address))
        contracts.ids = await asyncio.gather(*map(contracts.offer, urls))
        return contracts

    async def offer(self, url: str) -> str:
        offer = {"publisher_id": "p", "title": "Translate a memo", "callback_url": url}
        return json_of(await self._client.post("/api/v1/tasks", json=offer), 201)["id"]

    async def go_through(self, *steps: str) -> None:
        """Take all contracts through these steps, each of which causes a callback."""
        await asyncio.gather(*(self._go_through(task_id, steps) for task_id in self.ids))

    async def _go_through(self, task_id: str, steps: tuple[str, ...]) -> None:
        body: dict[str, Any] = {"assignee_id": "w", "actor_id": "w"}
        for step in steps:
            response = await self._client.post(f"/api/v1/tasks/{task_id}/{step}", json=body)
            assert response.status_code == 200, response.text
            body |= {"claim_token": body.get("claim_token") or response.json().get("claim_token")}


async def settled(node: NodeUnderTest, receiver: Receiver, count: int) -> None:
    """Wait until `count` callbacks have arrived or have been put off. A callback counts as put off if it is due later
    than it would be if a worker died during its attempt.
    """

    async def put_off() -> int:
        seconds, _ = cast("list[bytes]", await node.store.command("TIME", key="any"))
        later = int(seconds) * 1000 + HIDDEN_MS + 1000
        counts = [("ZCOUNT", keys.callbacks_due(partition), later, "+inf") for partition in range(ids.PARTITIONS)]
        return sum(cast("list[int]", await node.store.run_all(counts)))

    async def all_of_them() -> bool:
        return await put_off() + receiver.requests >= count

    await until(all_of_them)


@pytest.fixture
def endless_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make look-ups, and attempts without an answer, last longer than a test waits. Offers look up nothing, since their
    look-ups would go on as long."""

    async def accept(*_: object, **_named: object) -> None:
        """Accept any name, as after a look-up that takes too long."""

    monkeypatch.setattr("node.callbacks.target_check.check_name", accept)
    monkeypatch.setattr("node.callbacks.lookup.LOOKUP_SECONDS", 2 * PATIENCE)
    monkeypatch.setattr("node.callbacks.call.AttemptTimeouts", partial(AttemptTimeouts, total=2 * PATIENCE))


@pytest.mark.usefixtures("endless_attempts")
async def test_names_that_nobody_answers_for_hold_up_nobody_else(node: NodeUnderTest, dns: DnsServer) -> None:
    """Otherwise such names take all places for look-ups, and other publishers' callbacks wait for minutes."""
    async with Receiver(PUBLIC) as receiver, node.worker():
        evil = await Contracts.offered(
            node, EVIL, *(receiver.url_at("/evil", f"n{n}.silent.example") for n in range(30))
        )
        innocent = [
            await Contracts.offered(node, f"203.0.113.{n}", receiver.url_at("/innocent", f"n{n}.here.example"))
            for n in range(20)
        ]
        await evil.go_through("claim")
        await eventually(lambda: len(dns.asked) == PLACES_EACH_SITE_AND_DOMAIN)
        await asyncio.gather(*(each.go_through("claim") for each in innocent))
        await receiver.until(20, path="/innocent")
        assert receiver.paths["/evil"] == 0


@pytest.fixture
def opens_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make an open breaker stay open for longer than a test waits, so that a callback that arrives was not held up by
    one.
    """
    monkeypatch.setattr("node.callbacks.breaker.FIRST_OPEN_MS", MAX_OPEN_MS)


@pytest.mark.usefixtures("opens_for_long")
async def test_a_url_that_fails_stops_no_other_url_of_its_host(node: NodeUnderTest) -> None:
    """Otherwise a few contracts whose URL answers 503 open the breaker of the whole host, and its other tenants get
    nothing.
    """
    async with Receiver(PUBLIC) as receiver, node.worker():
        receiver.answers["/broken"] = b"503 Busy"
        evil = await Contracts.offered(node, EVIL, *[receiver.url_at("/broken")] * 6)
        honest = await Contracts.offered(node, ANOTHER, *[receiver.url_at("/honest")] * 3)
        await evil.go_through("claim")
        await receiver.until(5, path="/broken")
        await honest.go_through("claim")
        await receiver.until(3, path="/honest")


@pytest.mark.usefixtures("opens_for_long")
async def test_who_has_the_url_of_another_fail_stops_no_callback_of_the_other(node: NodeUnderTest) -> None:
    """Otherwise a receiver that answers 500 to callbacks it never asked for would get nobody's callbacks for half an
    hour.
    """

    async def breaker_is_open() -> bool:
        return bool(await node.names("rate:*:callback-open:*"))

    async with Receiver(PUBLIC) as receiver, node.worker():
        receiver.answers["/hook"] = b"500 Unknown contract"
        evil = await Contracts.offered(node, EVIL, *[receiver.url_at("/hook")] * 5)
        await evil.go_through("claim")
        await until(breaker_is_open)
        receiver.answers["/hook"] = b"204 Thanks"
        honest = await Contracts.offered(node, ANOTHER, receiver.url_at("/hook"))
        await honest.go_through("claim")
        await receiver.until(6, path="/hook")
        assert [body["data"]["task_id"] for _, body in receiver.messages] == honest.ids


async def test_many_callbacks_to_one_url_leave_another_s_to_that_host_their_share(node: NodeUnderTest) -> None:
    """Otherwise 90 callbacks at once take the host's whole minute, and the next publisher's callback comes after 57
    seconds.
    """
    async with Receiver(PUBLIC) as receiver, node.worker():
        evil = await Contracts.offered(node, EVIL, *[receiver.url_at("/evil")] * 30)
        honest = await Contracts.offered(node, ANOTHER, receiver.url_at("/honest"))
        await evil.go_through(*STEPS)
        await settled(node, receiver, 90)
        await honest.go_through("claim")
        await receiver.until(1, path="/honest")
        assert LIMIT / 2 < receiver.paths["/evil"] <= LIMIT * 2 / 3 + 1


@pytest.mark.usefixtures("endless_attempts")
async def test_a_receiver_that_never_answers_leaves_another_s_on_that_host_a_place(node: NodeUnderTest) -> None:
    dialled = asyncio.Queue[bytes]()

    async def tarpit(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await dialled.put(await reader.readline())
        await reader.read(-1)
        writer.close()

    server = await asyncio.start_server(tarpit, "127.0.0.1", 0)
    base = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, node.worker():
        evil = await Contracts.offered(node, EVIL, *[f"{base}/evil{n}" for n in range(20)])
        honest = await Contracts.offered(node, ANOTHER, f"{base}/honest")
        await evil.go_through("claim")
        first = [await asyncio.wait_for(dialled.get(), PATIENCE) for _ in range(PLACES_EACH_SITE_AND_DOMAIN)]
        assert all(b"/evil" in line for line in first)
        await honest.go_through("claim")
        assert b"/honest" in await asyncio.wait_for(dialled.get(), PATIENCE)


async def test_many_names_of_one_machine_are_called_no_more_often_than_one(node: NodeUnderTest) -> None:
    """Otherwise 30 names get 90 calls in a second, although a host gets 60 a minute."""
    async with Receiver(PUBLIC) as receiver, node.worker():
        clients = [EVIL, ANOTHER, "2001:db8::1"]
        offers = [
            await Contracts.offered(
                node, client, *(receiver.url_at("/aimed", f"c{at}-n{n}.here.example") for n in range(10))
            )
            for at, client in enumerate(clients)
        ]
        for offer in offers:
            await offer.go_through(*STEPS)
        await settled(node, receiver, 90)
        assert LIMIT / 2 < receiver.requests <= LIMIT


@pytest.mark.usefixtures("opens_for_long")
async def test_an_address_where_nobody_listens_stops_its_other_names_and_no_other_port(node: NodeUnderTest) -> None:
    async with Receiver(PUBLIC) as receiver, node.worker():
        async with Receiver(PUBLIC) as gone:
            urls = [gone.url_at("/", f"n{n}.here.example") for n in range(6)]
        evil = await Contracts.offered(node, EVIL, *urls)
        honest = await Contracts.offered(node, ANOTHER, receiver.url_at("/honest"))
        await evil.go_through("claim")
        await until(lambda: node.names("rate:*:callback-open:127.0.0.1:*"))
        assert len(await node.names("rate:*:callback-failures:*")) == 1
        await honest.go_through("claim")
        await receiver.until(1, path="/honest")


class TestOneClient:
    """Limits on all callbacks of one client together."""

    @pytest.fixture
    def overrides(self, dns: DnsServer) -> dict[str, Any]:
        limits = Limits(callback_client=Limit(5, 1800))  # s: longer than a test waits
        return {"callback_allow_private": True, "embedding_model": "none", "limits": limits}

    async def test_a_client_has_so_many_attempts_a_minute_whoever_receives_them(self, node: NodeUnderTest) -> None:
        hosts = [f"127.0.{n}.1" for n in range(8)]
        async with Receiver(PUBLIC, hosts=hosts) as receiver, node.worker():
            evil = await Contracts.offered(node, EVIL, *(receiver.url_at("/evil", host) for host in hosts))
            honest = await Contracts.offered(node, ANOTHER, receiver.url_at("/honest", hosts[0]))
            await evil.go_through("claim")
            await settled(node, receiver, len(hosts))
            assert receiver.paths["/evil"] == 5
            await honest.go_through("claim")
            await receiver.until(1, path="/honest")


async def test_a_429_is_no_failure_and_holds_for_its_url(node: NodeUnderTest) -> None:
    async with Receiver(PUBLIC) as receiver, node.worker():
        receiver.answers["/busy"] = b"429 Slow down\r\nRetry-After: 100"
        busy, other = receiver.url_at("/busy"), receiver.url_at("/other")
        first = await Contracts.offered(node, EVIL, busy)
        await first.go_through("claim")
        await until(lambda: node.names("rate:*:callback-open:*"))
        more = await Contracts.offered(node, EVIL, busy, busy, busy, other)
        await more.go_through("claim")
        await receiver.until(1, path="/other")
        await settled(node, receiver, 3 + 2)  # the first callback is due again in ten seconds
        assert receiver.paths == {"/busy": 1, "/other": 1}
        assert await node.names("rate:*:callback-failures:*") == []


class TestDeadLetters:
    """Dead letters that are sent again after the receiver has been repaired."""

    @pytest.fixture
    def overrides(self, dns: DnsServer) -> dict[str, Any]:
        return {"callback_allow_private": True, "embedding_model": "none", "callback_schedule": Schedule((0.05,))}

    async def test_one_of_a_contract_that_was_compacted_since_is_sent_again(self, node: NodeUnderTest) -> None:
        """A compacted contract must not be taken for a removed one, whose dead letters are dropped."""
        async with Receiver(PUBLIC) as receiver, node.worker():
            receiver.answers["/broken"] = b"400 No"
            contract = await Contracts.offered(node, ANOTHER, receiver.url_at("/broken"))
            await contract.go_through(*STEPS)
            (task_id,), queue = contract.ids, CallbackQueue(node.store, unpack)

            letters: list[DeadLetter] = []

            async def given_up() -> bool:
                letters[:] = await queue.dead()
                return len(letters) == len(STEPS)

            await until(given_up)
            assert await TaskStore(node.store, 60).compact([task_id]) == 1
            receiver.answers.clear()
            for letter in letters:
                await queue.redrive(letter)
            await receiver.until(2 * len(STEPS) + len(STEPS))
            assert {body["type"] for _, body in receiver.messages} == {
                "task.claimed",
                "task.in_progress",
                "task.completed",
            }


class TestCreation:
    """The look-up when a URL is given."""

    @pytest.fixture
    def overrides(self, dns: DnsServer) -> dict[str, Any]:
        dns.records["*.private.example"] = ["60 A 10.0.0.1"]
        return {"embedding_model": "none"}

    async def test_slow_names_of_some_keep_no_other_name_from_being_looked_up(self, node: NodeUnderTest) -> None:
        """Otherwise four slow names at a time are enough for anybody's private target to be accepted without a
        look-up.
        """
        urls = [f"https://n{n}.silent.example/" for n in range(12)]
        creations = asyncio.gather(*(Contracts(node.client_at(EVIL)).offer(url) for url in urls))
        for n in range(5):
            offer = {"publisher_id": "p", "title": "Translate", "callback_url": f"https://n{n}.private.example/"}
            response = await node.client_at(ANOTHER).post("/api/v1/tasks", json=offer)
            assert response.status_code == 422, response.text
        assert len(await creations) == 12
