"""Concurrent steps on two processes: each contract goes one way, and every acknowledged change is on it (SPEC 3.1).

A step is atomic for one contract. These tests are about what consists of several steps: events, lists, the feed of
offers, planned changes, compaction, removal, import.
"""

import asyncio
import itertools
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from random import Random
from typing import cast

import msgspec
import pytest

from node.common.refusal import Refused
from node.run.exchange import import_line
from node.sign.signed import UNSIGNED
from node.store import Store, connect, keys
from node.store.decoding import fields_of
from node.store.idempotency import bound_key
from node.store.outbox import Consumer, Event
from node.tasks.lapse import next_change
from node.tasks.model import (
    OVER,
    STATUSES,
    Cancellation,
    Completion,
    FailedAttempt,
    Holding,
    NewClaim,
    NewTask,
    Rejection,
    TaskPageQuery,
    TaskStatus,
    Transition,
)
from node.tasks.store import TaskStore
from node.tasks.view import StoredTask
from tests.support.node_under_test import until
from tests.support.servers import RedisServer
from tests.tasks.calls import tasks_on, told, uncharged

CONTRACTS, ROUNDS, AT_ONCE = 4, 60, 6
WORKING = ("claimed", "in_progress")
BEFORE: dict[tuple[str, str], tuple[str, ...]] = {
    ("offered", "offered"): ("offered",),  # at the end of a pause
    ("retried", "offered"): ("failed",),
    ("claimed", "claimed"): ("offered",),
    ("in_progress", "in_progress"): ("claimed",),
    ("released", "offered"): WORKING,
    ("failed", "offered"): WORKING,
    ("failed", "failed"): WORKING,
    ("expired", "offered"): WORKING,
    ("expired", "expired"): ("offered", *WORKING, "submitted"),
    ("submitted", "submitted"): WORKING,
    ("rejected", "in_progress"): ("submitted",),
    ("completed", "completed"): (*WORKING, "submitted"),
    ("canceled", "canceled"): ("offered", *WORKING),
}
"""The statuses that a contract may have before an event, by the event's type and status."""

LET_END = """
if redis.call('HEXISTS', KEYS[1], ARGV[2]) == 0 then return 0 end
redis.call('HSET', KEYS[1], ARGV[2], ARGV[3])
return redis.call('ZADD', KEYS[2], ARGV[3], ARGV[1])
"""
"""Lets a time of a contract be over, if the contract has that time now."""


class Contract(msgspec.Struct):
    """A contract, and what has been acknowledged about it."""

    id: str
    publisher_token: str
    tokens: list[str] = []
    claims: int = 0
    rejections: int = 0
    exported: bytes = b""
    """A line of an export."""


class Race:
    """Steps on contracts, each made by one of two processes."""

    def __init__(self, stores: Sequence[Store], random: Random) -> None:
        self._stores = stores
        self._tasks = [tasks_on(store) for store in stores]
        self._random = random
        self._numbers = itertools.count(1000)
        self.all: list[Contract] = []

    async def offer(self) -> None:
        chance = self._random
        new = NewTask(
            "desk",
            "Count the panels",
            lease_seconds=chance.choice([None, 600]),
            max_attempts=chance.choice([None, 2, 3]),
            review_seconds=chance.choice([None, 600]),
        )
        if new.max_attempts:
            new.retry_seconds = chance.choice([None, 600])
        task, _ = await chance.choice(self._tasks).create(new, UNSIGNED, None, "")
        self.all.append(Contract(task.id, task.publisher_token))

    async def step(self) -> None:
        """Take one step on any contract. It may be refused."""
        contract = self._random.choice(self.all)
        tasks, store = self._random.choice(self._tasks), self._random.choice(self._stores)
        token = self._random.choice(contract.tokens[-2:]) if contract.tokens else "1.x.y"
        proof = Cancellation(contract.publisher_token)
        number = next(self._numbers)

        async def claim() -> None:
            key = self._random.choice([None, f"a secret key of {number % 5}"])
            claim, replayed = await tasks.claim(
                contract.id, NewClaim("ann"), UNSIGNED, bound_key("claim", "", key, b"")
            )
            contract.tokens.append(claim.claim_token)
            contract.claims += not replayed

        async def reject() -> None:
            rejection = Rejection(contract.publisher_token, reason=f"No, for the reason {number}.")
            await tasks.reject(contract.id, rejection, UNSIGNED, None)
            contract.rejections += 1

        async def let_end() -> None:
            field = self._random.choice(["lease_expires_at", "retry_at", "review_ends_at"])
            names = keys.task(contract.id), keys.leases_of(contract.id)
            await store.command("EVAL", LET_END, 2, *names, contract.id, field, number, key=names[0])

        async def forget() -> None:
            row = (await TaskStore(store, 60).read_for_lists([contract.id]))[contract.id]
            if row.is_contract and await TaskStore(store, 60).forget({contract.id: row.stage}):
                await TaskStore(store, 60).project({contract.id: StoredTask(0, {})})

        async def exchange() -> None:
            if contract.exported:
                await import_line(store, contract.exported, 2)
            found = fields_of(await store.command("HGETALL", keys.task(contract.id)))
            if found:
                fields = {name.decode(): value.decode() for name, value in found.items()}
                contract.exported = msgspec.json.encode({"kind": "task", "id": contract.id, "fields": fields})

        often: list[Callable[[], Awaitable[object]]] = [
            claim,
            claim,
            lambda: tasks.complete(contract.id, Completion(token, msgspec.Raw(b"%d" % number)), uncharged),
            lambda: tasks.fail(contract.id, FailedAttempt("it.broke", claim_token=token)),
            lambda: tasks.release(contract.id, Holding(token)),
            lambda: tasks.transition(contract.id, Transition("desk"), UNSIGNED, None),
            lambda: tasks.retry(contract.id, proof, UNSIGNED, None),
            reject,
            let_end,
            tasks.sweep,
            lambda: tasks.page(TaskPageQuery(self._random.choice(STATUSES))),
        ]
        seldom: list[Callable[[], Awaitable[object]]] = [
            lambda: tasks.extend(contract.id, Holding(token)),
            lambda: tasks.accept(contract.id, proof, UNSIGNED),
            lambda: tasks.cancel(contract.id, proof, UNSIGNED),
            lambda: TaskStore(store, 60).compact([contract.id]),
            forget,
            exchange,
            exchange,
        ]
        with suppress(Refused):
            await self._random.choice(often if self._random.random() < 0.85 else seldom)()

    async def check(self, contract: Contract) -> None:
        """Check that the contract's state agrees with its events, in an order that the rules allow."""
        store = self._stores[0]
        (row,) = await TaskStore(store, 60).read_all([contract.id])
        status, attempt = "", 0
        counts: Counter[str] = Counter()
        for event in await told(store, contract.id):
            what = event["type"].removeprefix("task.")
            counts[what] += 1
            if what in ("forgotten", "imported"):
                status, attempt = what, -1
                continue
            if status not in ("", "imported"):
                assert status in BEFORE[what, event["status"]], (status, event)
            if attempt >= 0:
                assert int(event["attempt"]) == attempt + (what == "claimed"), event
            status, attempt = event["status"], int(event["attempt"])
        assert counts["claimed"] == contract.claims
        assert counts["rejected"] == contract.rejections
        if status == "imported":
            assert row.is_contract
        else:
            assert row.fields.get(b"status", b"forgotten").decode() == status

    async def places(self, contract: Contract) -> tuple[list[str], float, int]:
        """Return the lists that hold the contract, when it will be looked at, and when it was announced."""
        wanted = [("ZSCORE", keys.tasks_with(each), contract.id) for each in STATUSES]
        wanted += [("ZSCORE", keys.leases_of(contract.id), contract.id), ("ZSCORE", keys.KNOWN_OFFERS, contract.id)]
        *listed, planned, known = cast("list[bytes | None]", await self._stores[0].run_all(wanted))
        found = [status for status, at in zip(STATUSES, listed, strict=True) if at is not None]
        return found, float(planned or "inf"), int(float(known or 0))

    async def is_settled(self) -> bool:
        """Return whether lists, plans and announcements agree with the contracts."""
        for contract in self.all:
            (row,) = await TaskStore(self._stores[0], 60).read_all([contract.id])
            listed, planned, announced = await self.places(contract)
            if listed != ([row.status] if row.is_contract else []):
                return False
            if planned != next_change(row.fields):
                return False
            if row.can_be_claimed and announced != row.changed_at:
                return False
        return True


@pytest.mark.parametrize("seed", range(4))
async def test_contracts_go_one_way_whatever_happens_at_the_same_time(empty_redis: RedisServer, seed: int) -> None:
    async with (
        await connect(empty_redis.url, timeout=10, max_in_flight=1000) as one,
        await connect(empty_redis.url, timeout=10, max_in_flight=1000) as two,
    ):
        race, stop, worker = Race((one, two), Random(seed)), asyncio.Event(), tasks_on(one)

        async def handle(events: Sequence[Event]) -> None:
            await worker.project(*{event.entity for event in events})

        consuming = asyncio.create_task(Consumer(one, "lists", handle).run(stop))
        for _ in range(CONTRACTS):
            await race.offer()
        for _ in range(ROUNDS):
            await asyncio.gather(*(race.step() for _ in range(AT_ONCE)))
            over = sum([await _is_over(one, contract) for contract in race.all[-CONTRACTS:]])
            for _ in range(over):
                await race.offer()
        while await worker.sweep():
            pass
        await until(race.is_settled)
        for contract in race.all:
            await race.check(contract)
        stop.set()
        await consuming


async def _is_over(store: Store, contract: Contract) -> bool:
    (row,) = await TaskStore(store, 60).read_all([contract.id])
    over: Sequence[TaskStatus] = OVER
    return not row.is_contract or row.status in over
