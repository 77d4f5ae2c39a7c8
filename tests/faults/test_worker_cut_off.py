"""A worker dies between any two kinds of calls to Redis, in any work that it does by the clock or for an event.

The next worker leaves the state that would have been left without the death, and each change is announced once. With
FAULTS=full, it dies at each of these places, otherwise at the first and at a random third of the others.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from contextvars import ContextVar
from random import randrange
from typing import Any, NamedTuple, cast

import msgspec
import pytest
import pytest_asyncio

from node.a2a.inboxes.pushes import PUSH, PushSource
from node.callbacks.service import Callbacks
from node.config import Limit
from node.events.feed import FeedCopier
from node.retention.rules import retention_of
from node.run.services import Services, Stores
from node.run.worker import Outgoing, Projections
from node.store import ids, keys
from node.store.connection import Call, CallResult, Connection
from node.store.decoding import fields_of
from node.store.outbox import Event
from tests.agents.made_up import MadeUpAgents
from tests.faults.test_cut_off import (
    A2A,
    CALLBACK,
    OFFER,
    SAID,
    Ask,
    Facts,
    agent,
    claim,
    complete,
    delete,
    inbox,
    kept,
    letter,
    offer,
    offer_reviewed,
    post,
    prepared,
    thread,
)
from tests.support.effort import FULL
from tests.support.limits import every_limit
from tests.support.node_under_test import NodeUnderTest, running, settings_for
from tests.support.servers import RedisServer
from tests.tasks.calls import let_end

NOT_COMPARED = (
    *("rate:", "bytes:", "copies:", "activity:"),  # count requests
    *("held:", "idem:"),  # belong to requests, not to workers
    *("search:", "doc:", "agents:last-check"),
    "feed:marks:",  # also kept for outboxes that were merely looked at, in the order of partitions
)
"""Prefixes of keys."""
OVER = 1000  # ms since 1970, long ago
SOON = "2100-01-01T00:00:00Z"
PUSHED = {"returnImmediately": True, "taskPushNotificationConfig": {"url": CALLBACK, "id": "c1"}}


class Killed(BaseException):
    """Simulates the death of the process."""


class Life:
    """The steps that a worker makes before it dies. Consecutive calls of one kind, such as those to all partitions, are
    one step.
    """

    def __init__(self, most: int) -> None:
        self._left = most
        self._last = ""

    def step(self, name: str) -> None:
        if name != self._last:
            if not self._left:
                raise Killed
            self._left, self._last = self._left - 1, name


LIFE: ContextVar[Life | None] = ContextVar("life", default=None)


@pytest.fixture(autouse=True)
def mortal(monkeypatch: pytest.MonkeyPatch) -> None:
    submit = Connection.submit

    def submitted(connection: Connection, call: Call) -> "asyncio.Future[CallResult]":
        if life := LIFE.get():
            life.step(call.name)
        return submit(connection, call)

    monkeypatch.setattr(Connection, "submit", submitted)


async def survives(steps: int, work: Awaitable[object]) -> bool:
    """Return whether the work ends within this many steps. Otherwise it is killed after them."""
    token = LIFE.set(Life(steps))
    try:
        await work
    except Killed:
        return False
    finally:
        LIFE.reset(token)
    return True


class Worker:
    """The parts of a worker, to be called one by one."""

    def __init__(self, node: NodeUnderTest, stores: Stores) -> None:
        settings, self.node = node.settings, node
        self.services = Services(settings, stores)
        self.retention = retention_of(settings, stores.main)
        checks = Outgoing(settings, stores.main).checks(stores.main, self.services)
        self.check = checks._check  # pyright: ignore[reportPrivateUsage] - what `run` does with an entry that is due
        pushes = PushSource(self.services.inbox_agents.view, self.services.pushes)
        self._handlers = (
            Projections(self.services, checks).handle,
            Callbacks(self.services.callbacks, settings.public_url, {PUSH: pushes.messages}).handle,
            FeedCopier(stores.main, settings.feed_events).handle,
        )

    async def events(self) -> list[list[Event]]:
        """Return all announced events, by partition."""
        found: list[list[Event]] = []
        for partition in range(ids.PARTITIONS):
            entries: Any = await self.node.store.command("XRANGE", keys.events(partition), "-", "+")
            rows = [(entry.decode(), fields_of(flat)) for entry, flat in entries]
            texts = [(entry, {name.decode(): value.decode() for name, value in row.items()}) for entry, row in rows]
            if texts:
                found.append([Event(entry, partition, row["type"], row["id"], row) for entry, row in texts])
        return found

    async def handle(self) -> None:
        """Handle all events, whether or not they were handled before."""
        for events in await self.events():
            for handle in self._handlers:
                await handle(events)


class Scene(NamedTuple):
    """The state before the worker begins, and what the test may change meanwhile."""

    node: NodeUnderTest
    worker: Worker
    made_up: MadeUpAgents

    async def after(self, *asked: Ask) -> Facts:
        """Return the facts from these requests, once a worker has handled their events."""
        facts = await prepared(self.node, asked)
        await self.worker.handle()
        return facts

    async def change(self, key: keys.Key, listed: str, name: str, *fields: str) -> None:
        """Set times of an entity, and its time in a list, to the past."""
        for field in fields:
            await self.node.store.command("HSET", key, field, OVER)
        await self.node.store.command("ZADD", listed, OVER, name)


Prepare = Callable[[Scene], Awaitable[Facts]]
Work = Callable[[Worker, Facts], Awaitable[object]]


def agent_at(scene: Scene) -> Ask:
    scene.made_up.kinds.clear()
    scene.made_up.cards.clear()
    return post("/api/v1/agents", {"url": scene.made_up.url("good")}, key=False)


async def posted(scene: Scene) -> Facts:
    return await prepared(scene.node, [agent_at(scene)])


async def posted_without_card(scene: Scene) -> Facts:
    facts = await posted(scene)
    scene.made_up.kinds["/good"] = "gone"
    return facts


async def probed(scene: Scene) -> Facts:
    facts = await posted(scene)
    await check(scene.worker, facts)
    await scene.worker.handle()
    return facts


async def card_changed(scene: Scene) -> Facts:
    facts = await probed(scene)
    scene.made_up.cards["/good"] = {"description": "Reads what others do not want to read."}
    return facts


async def card_gone(scene: Scene) -> Facts:
    facts = await probed(scene)
    scene.made_up.kinds["/good"] = "gone"
    return facts


async def entry_over(scene: Scene) -> Facts:
    facts = await probed(scene)
    ends_at = cast("bytes", await scene.node.store.command("HGET", keys.agent(facts["id"]), "checked_at"))
    await scene.node.store.command("HSET", keys.agent(facts["id"]), "ends_at", ends_at)
    await scene.node.store.command("ZADD", keys.AGENT_ENDS, ends_at, facts["id"])
    return facts


async def inbox_closed(scene: Scene) -> Facts:
    facts = await scene.after(inbox, agent)
    await check(scene.worker, facts)
    closing = await delete("/api/v1/inboxes/{address}", "inbox_token")(scene.node, facts)
    assert closing.is_success
    return facts


async def message_over(scene: Scene) -> Facts:
    facts = await scene.after(inbox, post(f"{A2A}/message:send", {"message": SAID, "configuration": PUSHED}))
    address, message = facts["address"], facts["task"]["id"]
    pushes = keys.inbox_push_ends(ids.partition_of(address))
    await scene.change(keys.inbox_receipt(address, message), pushes, f"{address} {message}", "expires_at")
    return facts


def lease_over(**options: int) -> Prepare:
    async def prepare(scene: Scene) -> Facts:
        facts = await scene.after(post("/api/v1/tasks", OFFER | {"lease_seconds": 60} | options, key=False), claim)
        await let_end(scene.node.store, facts["id"])
        return facts

    return prepare


async def review_over(scene: Scene) -> Facts:
    facts = await scene.after(offer_reviewed, claim, complete)
    await scene.change(keys.task(facts["id"]), keys.leases_of(facts["id"]), facts["id"], "review_ends_at")
    return facts


async def deadline_over(scene: Scene) -> Facts:
    facts = await scene.after(post("/api/v1/tasks", OFFER | {"deadline": SOON}, key=False))
    await scene.change(keys.task(facts["id"]), keys.leases_of(facts["id"]), facts["id"], "deadline")
    return facts


async def thread_old(scene: Scene) -> Facts:
    facts = await scene.after(thread)
    await scene.change(keys.thread(facts["id"]), keys.OPEN_THREADS, facts["id"], "created_at")
    return facts


async def contract_old(scene: Scene) -> Facts:
    facts = await scene.after(offer)
    await scene.change(keys.task(facts["id"]), keys.tasks_with("offered"), facts["id"], "created_at", "updated_at")
    return facts


async def result_old(scene: Scene) -> Facts:
    facts = await scene.after(offer, claim, complete)
    listed = keys.tasks_with("completed")
    await scene.change(keys.task(facts["id"]), listed, facts["id"], "created_at", "claimed_at", "completed_at")
    return facts


async def announced(scene: Scene) -> Facts:
    """Create an inbox, a contract and an agent, each in a partition of its own, because the comparison counts by
    partition.
    """
    while True:
        facts = await prepared(scene.node, [inbox, letter, offer, claim, complete, agent_at(scene)])
        if len(await scene.node.names("events:*")) == 3:
            return facts


async def check(worker: Worker, facts: Facts) -> None:
    """Check an entry as often as it is due: once after it was posted, and once after it was listed."""
    for _ in range(2):
        await worker.check(facts["id"])


async def end_agents(worker: Worker, _: Facts) -> None:
    await worker.services.agents.sweep()


async def end_messages(worker: Worker, _: Facts) -> None:
    await worker.services.pushes.expire()


async def change_contracts(worker: Worker, _: Facts) -> None:
    await worker.services.tasks.sweep()


async def retain(worker: Worker, _: Facts) -> None:
    await worker.retention.look(20)


async def handle(worker: Worker, _: Facts) -> None:
    await worker.handle()


CASES: dict[str, tuple[Prepare, Work]] = {
    "posted agent": (posted, check),
    "posted agent without a card": (posted_without_card, check),
    "changed card": (card_changed, check),
    "removed card": (card_gone, check),
    "agent of a closed inbox": (inbox_closed, check),
    "end of an entry": (entry_over, end_agents),
    "end of a message that is followed": (message_over, end_messages),
    "end of a lease": (lease_over(), change_contracts),
    "end of an attempt": (lease_over(max_attempts=2, retry_seconds=60), change_contracts),
    "end of the last attempt": (lease_over(max_attempts=1), change_contracts),
    "end of a review": (review_over, change_contracts),
    "deadline": (deadline_over, change_contracts),
    "old thread": (thread_old, retain),
    "old contract": (contract_old, retain),
    "old result": (result_old, retain),
    "events": (announced, handle),
}
"""For each case, how to prepare the work, and the work."""


@pytest_asyncio.fixture
async def node(empty_redis: RedisServer) -> AsyncIterator[NodeUnderTest]:
    settings = settings_for(
        empty_redis.url,
        limits=msgspec.structs.replace(every_limit(1000, 60), callback=Limit(0, 60)),
        callback_allow_private=True,
        embedding_model="none",
        **{f"{kind}_days": 1 for kind in ("thread_retention", "task_hot", "task_retention")},
    )
    async with running(settings) as node:
        yield node


@pytest.mark.parametrize("name", CASES)
async def test_the_next_worker_does_the_rest_and_tells_of_it_once(node: NodeUnderTest, name: str) -> None:
    prepare, work = CASES[name]
    stores = await Stores.open(node.settings)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(stores.close)
        made_up = await stack.enter_async_context(MadeUpAgents())

        async def left_after(steps: int) -> tuple[bool, object]:
            """Let one worker die after this many steps and another follow. Returns whether the first one survived, and
            what is left.
            """
            dying, next_one = Worker(node, stores), Worker(node, stores)
            facts = await prepare(Scene(node, dying, made_up))
            survived = await survives(steps, work(dying, facts))
            await work(next_one, facts)
            await next_one.handle()
            told = Counter(event.kind for events in await next_one.events() for event in events)
            return survived, (await kept(node, NOT_COMPARED), told)

        _, whole = await left_after(1000)
        deaths, steps, survived = 0, 0, False
        while not survived:
            survived, left = await left_after(steps)
            assert left == whole, f"killed after {steps} steps"
            deaths += not survived
            steps += 1 if FULL else randrange(1, 6)
    assert deaths
