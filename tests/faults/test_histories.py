"""Random histories of contracts, while web processes, the worker and Redis are killed (-9) or frozen.

Whatever dies, an attempt has one winner and an acknowledged change is kept. Each change is in the public feed once and
is sent to the callback, in the order in which the contract has it. Lists agree with contracts, and nothing is left
behind. `make faults` runs it. A failed test shows its seed: HISTORY=<seed> makes the same choices again.
"""

import asyncio
import json
import os
import signal
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import count, pairwise
from pathlib import Path
from random import Random, randrange
from typing import Any, Self, cast
from uuid import UUID

import httpx2
import pytest

from node.sign.node_key import NodeKey
from node.store import ids, keys
from node.tasks.model import STATUSES
from tests.callbacks.receiver import Receiver
from tests.faults.test_processes import kill_and_replace
from tests.faults.test_redis_faults import ALWAYS
from tests.faults.writers import Clients
from tests.support.effort import FULL
from tests.support.keyspace import keys_without_end
from tests.support.limits import NO_LIMITS_GIVEN
from tests.support.node_under_test import SIGNING_KEY, until
from tests.support.nodes import PATIENCE, NodeProcess
from tests.support.servers import RedisServer, eventually
from tests.tasks.calls import TASKS

pytestmark = pytest.mark.skipif(not FULL, reason="`make faults` runs it")

SEED = int(os.environ.get("HISTORY") or randrange(10**6))
FAULTS = 8
CHANGES = 60  # acknowledged changes between two faults
FROZEN = 2.0  # s

SETTINGS = {
    **NO_LIMITS_GIVEN,
    "RELAY_CALLBACK_ALLOW_PRIVATE": "1",
    "RELAY_EMBEDDING_MODEL": "none",
    "RELAY_SIGNING_KEY": SIGNING_KEY,
}

Json = dict[str, Any]

PUBLISHERS, WORKERS = 3, 6
RECENT = 12  # number of recent contracts to choose from, few enough that many steps meet at the same one
CUT_OFF = 0.06  # share of the requests that their client abandons within 30 ms and repeats

CLOSED = {"canceled", "expired"}
ENDED = {"released", "submitted", "completed", "failed"} | CLOSED
AFTER = {
    "claimed": {"in_progress"} | ENDED,
    "in_progress": ENDED,
    "released": {"claimed"} | CLOSED,
    "submitted": {"in_progress", "completed", "expired"},
    "offered": {"offered", "claimed"} | CLOSED,
    "failed": {"offered", "claimed"} | CLOSED,
    "expired": {"offered", "claimed"} | CLOSED,
}
"""Which changes may follow each change: after `failed` if attempts are left, after `expired` if only a lease ended."""


def is_possible(changes: Sequence[str]) -> bool:
    """Return whether a contract may have had these changes, in this order."""
    return changes[0] == "offered" and all(later in AFTER.get(earlier, ()) for earlier, later in pairwise(changes))


class ContractHistories(Clients):
    """Clients of a node, for as long as the context lasts. A violation that they notice fails the test at once."""

    def __init__(self, client: httpx2.AsyncClient, random: Random, callback_url: str) -> None:
        super().__init__()
        self.offers: dict[str, Json] = {}
        """The answer to each offer by id, with its callback_url."""
        self.winners: dict[tuple[str, int], str] = {}
        """The claim_token of each attempt."""
        self.done: defaultdict[str, set[tuple[str, int]]] = defaultdict(set)
        """Acknowledged changes of each contract with their attempts. Each change happens once in an attempt."""
        self.results: dict[str, Any] = {}
        """Results whose contracts were acknowledged as completed."""
        self.client = client
        self._random = random
        self._callback_url = callback_url

    async def __aenter__(self) -> Self:
        publishers = [asyncio.create_task(self._publish(number)) for number in range(PUBLISHERS)]
        self._tasks = publishers + [asyncio.create_task(self._work(f"agent-{number}")) for number in range(WORKERS)]
        return self

    async def further(self, changes: int) -> None:
        """Return once this many more changes have been acknowledged."""
        await self._counted(lambda: sum(map(len, self.done.values())), changes)

    async def _publish(self, number: int) -> None:
        random, own = self._random, list[str]()
        for turn in count():
            if self._stopped:
                return
            if not own or random.random() < 0.4:
                terms = self._terms() | {"publisher_id": f"desk-{number}", "title": f"Count the panels on roof {turn}"}
                offer = await self._changed("offered", TASKS, terms, status=201)
                self.offers[offer["id"]] = offer | {"callback_url": terms.get("callback_url")}
                own.append(offer["id"])
                continue
            offer = self.offers[random.choice(own[-RECENT:])]
            path, proof = f"{TASKS}/{offer['id']}", {"publisher_token": offer["publisher_token"]}
            status = (await self._answer("GET", path)).json()["status"]
            if status == "submitted" and random.random() < 0.5:
                await self._changed("completed", f"{path}/accept", proof)
            elif status == "submitted":
                await self._changed("", f"{path}/reject", proof | {"reason": f"Not enough, for {random.random()}"})
            elif status == "failed":
                await self._changed("", f"{path}/retry", proof)
            elif random.random() < 0.1:
                await self._changed("canceled", f"{path}/cancel", proof)

    def _terms(self) -> Json:
        """Return random terms of a contract."""
        terms: list[Json] = [
            {"lease_seconds": 30},
            {"max_attempts": 2, "retry_seconds": 1},
            {"review_seconds": 2},
            {"deadline": (datetime.now(UTC) + timedelta(seconds=20)).isoformat()},
            {"callback_url": self._callback_url},
        ]
        return {name: value for term in terms if self._random.random() < 0.4 for name, value in term.items()}

    async def _work(self, name: str) -> None:
        random = self._random
        while not self._stopped:
            which, asked = "claim-next", {"assignee_id": name, "wait": 0.5}
            if self.offers and random.random() < 0.5:
                which, asked = f"{random.choice(list(self.offers)[-RECENT:])}/claim", {"assignee_id": name}
            if claim := await self._changed("claimed", f"{TASKS}/{which}", asked):
                assert claim["assignee_id"] == name
                token = self.winners.setdefault((claim["id"], claim["attempt"]), claim["claim_token"])
                assert token == claim["claim_token"], f"two winners of attempt {claim['attempt']} of {claim['id']}"
                await self._end(claim)

    async def _end(self, claim: Json) -> None:
        """Do something with a claim, or nothing."""
        random, path, proof = self._random, f"{TASKS}/{claim['id']}", {"claim_token": claim["claim_token"]}
        if random.random() < 0.4:
            moving = proof | {"assignee_id": claim["assignee_id"], "status": "in_progress"}
            await self._changed("in_progress", f"{path}/transition", moving)
        step = random.choice(["complete", "complete", "complete", "fail", "release", "forget"])
        if step == "complete":
            result = random.getrandbits(64)
            if completed := await self._changed("", f"{path}/complete", proof | {"result_payload": result}):
                self.done[claim["id"]].add((completed["status"], claim["attempt"]))
            if completed.get("status") == "completed":
                assert self.results.setdefault(claim["id"], result) == result, "two results"
        elif step == "fail":
            await self._changed("failed", f"{path}/fail", proof | {"code": "it.broke"})
        elif step == "release":
            await self._changed("released", f"{path}/release", proof)

    async def _changed(self, what: str, path: str, body: Json, status: int = 200) -> Json:
        """Send a request, and note the change that its answer confirms. Returns the record; empty if another change
        came first.
        """
        answer = await self._answer("POST", path, body)
        if answer.status_code in (204, 403, 409):  # 403: the claim has ended, and there is another one
            return {}
        assert answer.status_code == status, f"{path}: {answer.status_code} {answer.text}"
        record: Json = answer.json()
        if what:
            self.done[record["id"]].add((what, record["attempt"]))
        return record

    async def _answer(self, method: str, path: str, body: Json | None = None) -> httpx2.Response:
        """Return the answer to a request, repeated under its Idempotency-Key as often as needed."""
        random = self._random
        key = {"idempotency-key": str(UUID(int=random.getrandbits(128)))} if method == "POST" else {}
        content = None if body is None else json.dumps(body)
        headers = {"content-type": "application/json"} | key
        while True:
            patience = random.uniform(0, 0.03) if random.random() < CUT_OFF else None
            with suppress(httpx2.TransportError, TimeoutError):  # the process was killed, or this client gives up early
                async with asyncio.timeout(patience):
                    answer = await self.client.request(method, path, content=content, headers=headers)
                if answer.status_code != 503:
                    assert answer.status_code < 500, answer.text
                    return answer
            await asyncio.sleep(random.uniform(0.01, 0.1))


async def strike(random: Random, node: NodeProcess, redis: RedisServer) -> None:
    """Kill or freeze one process, and return once it is back."""
    number = random.choice([1, 2])
    web = node.web_process(number)
    fault = random.choice(["web", "worker", "redis", "frozen web", "frozen redis"])
    if fault == "web":
        os.kill(web, signal.SIGKILL)
        await eventually(lambda: node.web_process(number) != web)
    elif fault == "worker":
        await asyncio.to_thread(kill_and_replace, node, "worker")
    elif fault == "redis":
        await asyncio.to_thread(redis.kill)
        await asyncio.to_thread(redis.start)
    elif fault == "frozen web":
        os.kill(web, signal.SIGSTOP)
        await asyncio.sleep(FROZEN)
        os.kill(web, signal.SIGCONT)
    else:
        redis.pause()
        await asyncio.sleep(FROZEN)
        redis.resume()


async def test_whatever_dies_contracts_have_one_history(tmp_path: Path) -> None:
    sys.stdout.write(f"HISTORY={SEED}\n")
    random = Random(SEED)
    with RedisServer(tmp_path / "redis", *ALWAYS) as redis, NodeProcess(tmp_path / "data") as node:
        node.start(RELAY_REDIS_URL=redis.url, **SETTINGS)
        await asyncio.to_thread(node.ready)
        async with (
            Receiver(NodeKey.parse(SIGNING_KEY).public.raw) as receiver,
            httpx2.AsyncClient(base_url=node.url, timeout=PATIENCE) as client,
        ):
            histories = ContractHistories(client, Random(SEED + 1), receiver.url)
            async with histories:
                for _ in range(FAULTS):
                    await histories.further(CHANGES)
                    await strike(random, node, redis)
                await histories.further(CHANGES)
            await until(lambda: asyncio.to_thread(is_quiet, redis))
            await compare(redis, histories, receiver)
        assert keys_without_end(redis) == []


def is_quiet(redis: RedisServer) -> bool:
    """Return whether all events are handled, all callbacks sent, and no contract is about to change by itself."""
    soon = redis.do("TIME")[0] * 1000 + 15_000  # shorter than leases: forgotten claims are left as they are
    for partition in range(ids.PARTITIONS):
        if redis.do("EXISTS", keys.events(partition)):
            groups: list[dict[bytes, int]] = redis.do("XINFO", "GROUPS", keys.events(partition))
            if any(group[b"pending"] or group[b"lag"] for group in groups):
                return False
        planned = redis.do("ZCOUNT", keys.leases(partition), "-inf", soon)
        if planned or redis.do("ZCARD", keys.callbacks_due(partition)):
            return False
    return True


async def compare(redis: RedisServer, histories: ContractHistories, receiver: Receiver) -> None:
    """Compare everything known about the contracts, with each other and with what was acknowledged."""
    client = histories.client
    feed: defaultdict[str, list[str]] = defaultdict(list)
    for event in await followed(client, "tasks"):
        feed[event["data"]["id"]].append(event["type"].removeprefix("task."))
    listed = {status: redis.do("ZRANGE", keys.tasks_with(status), 0, -1) for status in STATUSES}
    told: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for body in dict(receiver.messages).values():  # a callback that arrived twice has the same webhook-id twice
        kind = body["type"].removeprefix("task.")
        told[body["data"]["task_id"]]["in_progress" if kind == "rejected" else kind] += 1
    assert histories.offers.keys() <= feed.keys()
    for task_id, changes in feed.items():
        task: Json = (await client.get(f"{TASKS}/{task_id}")).json()
        own = [event["type"].removeprefix("task.") for event in await followed(client, f"task:{task_id}")]
        logged = cast("bytes", redis.do("HGET", keys.task(task_id), "changes"))
        about = f"{task_id} is {task['status']}, after {changes}"
        assert len(changes) == int(logged.split()[0]) and changes[-len(own) :] == own, f"{about}; itself says {own}"
        assert is_possible(changes), about
        assert changes.count("claimed") == task["attempt"], about
        assert [status for status, members in listed.items() if task_id.encode() in members] == [task["status"]], about
        done = histories.done[task_id]
        assert Counter(what for what, _ in done) <= Counter(changes), f"{about}; acknowledged: {done}"
        for end in {"completed", "canceled"} & {what for what, _ in done}:
            assert task["status"] == end, about
        if task_id in histories.results:
            assert task["result_payload"] == histories.results[task_id], about
        if histories.offers.get(task_id, {}).get("callback_url"):
            expected = Counter(change for change in changes if change != "offered")
            # The feed says "offered" for a retry and for the end of a pause. Only the former is sent to the callback.
            expected["retried"] = min(told[task_id]["retried"], changes[1:].count("offered"))
            assert told[task_id] == expected, f"{about}; told: {told[task_id]}"
        times = {"offered": ("retry_at", "deadline"), "submitted": ("review_ends_at",)}
        running = times.get(task["status"], ("lease_expires_at", "deadline"))
        changes_by_itself = task["status"] in ("claimed", "in_progress", *times) and any(map(task.get, running))
        planned = redis.do("ZSCORE", keys.leases_of(task_id), task_id) is not None
        assert planned == changes_by_itself, f"{about}; planned: {planned}"


async def followed(client: httpx2.AsyncClient, topic: str) -> list[Json]:
    """Return all events of a topic, page by page."""
    events: list[Json] = []
    page: Json = {"cursor": "earliest", "has_more": True}
    while page["has_more"]:
        page = (await client.get("/api/v1/events", params={"topic": topic, "cursor": page["cursor"]})).json()
        events += page["events"]
    return events
