"""Measures how much memory one stored thing of each kind takes in Redis: the table of docs/capacity.md.

    python -m bench.weigh [--count 20000]

The node's own services write `--count` things of a kind to an embedded Redis. The weight of one is the growth of
the memory in use, divided by their number: its keys and its entries in lists. It does not include events, which
workers trim within half a minute; the feed of offers, which has a fixed length; and the vectors of search, as no
worker runs.
"""

import argparse
import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import cast

import msgspec

from bench.payload import paragraph, sentence
from node.a2a.model import Message, Part, ReceivedMessage
from node.agents.model import AgentSkill, ListedCard
from node.board.model import NewReply, NewThread
from node.config import Settings
from node.feedback.model import NewFeedback
from node.inbox.model import InboxProof, NewInbox, NewInboxMessage
from node.observe.memory import redis_memory
from node.run.corpora import corpora_of
from node.run.embedded_redis import EmbeddedRedis
from node.run.services import Services, Stores
from node.search.store import SearchStore
from node.sessions.model import NewLine, NewSession
from node.sign.signed import UNSIGNED
from node.store import ids, keys
from node.tasks.model import Completion, NewClaim, NewTask
from node.tasks.store import TaskStore
from tests.support.rates import Unlimited

CLIENT = "203.0.113.7"
NOBODY = InboxProof()
FREE = Unlimited(CLIENT)
NODE_BYTES = 8e9
SHARE = 0.8
"""Share of Redis' memory that may be in use before the alert RelayRedisMemory fires."""

Make = Callable[[int], Awaitable[object]]


class Scales:
    """The services of a node without web processes, and the memory that its Redis uses."""

    def __init__(self, settings: Settings, stores: Stores) -> None:
        self.settings = settings
        self.store = stores.main
        self.services = Services(settings, stores)
        _, offers, _ = corpora_of(stores.main)
        self.offers = SearchStore(stores.main, stores.searched, offers).documents
        """The search documents of offered contracts. A worker removes a contract's document when it is claimed."""

    async def weigh(self, what: str, count: int, make: Make) -> None:
        """Make `count` things of a kind, 50 at a time, and print the weight of one."""
        await make(count)  # loads the script
        before = await self.used()
        await many(count, make)
        show(what, (await self.used() - before) / count)

    async def used(self) -> int:
        """Delete the streams whose length does not depend on what is stored (events, the feed of offers), and return
        the bytes that Redis uses without them."""
        streams = [*map(keys.events, range(ids.PARTITIONS)), keys.OFFERS, keys.KNOWN_OFFERS]
        await self.store.run_all([("DEL", name) for name in streams])
        # A background thread of the server frees the memory of deleted keys.
        while b"lazyfree_pending_objects:0" not in b"".join(cast("list[bytes]", await self._info())):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        return sum(primary.used for primary in await redis_memory(self.store))

    async def _info(self) -> object:
        return await self.store.everywhere("INFO", "memory")


async def many(count: int, make: Make) -> None:
    """Make `count` things, 50 at a time."""
    for first in range(0, count, 50):
        await asyncio.gather(*(make(number) for number in range(first, min(first + 50, count))))


def show(what: str, weight: float) -> None:
    print(f"| {what} | {weight:,.0f} | {NODE_BYTES * SHARE / weight / 1e6:.1f} |", flush=True)


async def main(count: int) -> None:
    with tempfile.TemporaryDirectory() as folder, EmbeddedRedis(Path(folder), "everysec") as server:
        server.start()
        settings = Settings(redis_url=server.url, data_dir=Path(folder), secret="x" * 32, store_timeout=10)
        stores = await Stores.open(settings)
        try:
            print("| Kind | Bytes | Millions in 8 GB |\n|---|---|---|")
            await everything(Scales(settings, stores), count)
        finally:
            await stores.close()


class Things:
    """Makes one thing of each kind, by its number. Some need other things, which must be made first."""

    def __init__(self, services: Services, count: int) -> None:
        self.services = services
        self.count = count
        self.threads: list[str] = []
        self.tasks: list[str] = []
        self.sessions: list[str] = []
        self.inboxes: list[tuple[str, str]] = []
        """Address and token of each inbox."""

    async def relay(self, number: int) -> None:
        raw = msgspec.json.encode({"message": paragraph(number), "agent": "a-1"})
        payload = self.services.relay.judge_object(raw, msgspec.json.decode(raw))
        acknowledged, _ = await self.services.relay.accept(FREE, payload, None)
        assert acknowledged
        await self.services.board.project(acknowledged.reference_id)

    async def private(self, number: int) -> None:
        raw = msgspec.json.encode({"message": paragraph(number), "public": False})
        await self.services.relay.accept(FREE, self.services.relay.judge_object(raw, msgspec.json.decode(raw)), None)

    async def thread(self, number: int) -> None:
        new = NewThread(title=sentence(number), body=paragraph(number), author="agent-1")
        self.threads.append((await self.services.board.post(FREE, new, UNSIGNED, None))[0].id)

    async def reply(self, number: int) -> None:
        new = NewReply(body=sentence(number), author="agent-2")
        await self.services.board.reply(FREE, self.threads[number % 100], new, UNSIGNED, None)

    async def offer(self, number: int) -> None:
        new = NewTask("publisher-1", sentence(number), description=paragraph(number))
        self.tasks.append((await self.services.tasks.create(new, UNSIGNED, None, ""))[0].id)

    async def complete(self, number: int) -> None:
        task_id = self.tasks[number]
        claim, _ = await self.services.tasks.claim(task_id, NewClaim("agent-2"), UNSIGNED, None)
        result = msgspec.Raw(msgspec.json.encode({"summary": sentence(number), "pages": number}))
        await self.services.tasks.complete(task_id, Completion(claim.claim_token, result), lambda _: None)

    async def session(self, _number: int) -> None:
        made, _ = await self.services.sessions.create(CLIENT, "0a1b2c3d", NewSession(ttl_seconds=86400), None)
        self.sessions.append(made.session_id)

    async def line(self, number: int) -> None:
        new = NewLine(body=sentence(number), author="agent-1")
        await self.services.sessions.send(FREE, self.sessions[number % 20], new, None)

    async def inbox(self, number: int) -> None:
        new = NewInbox(label=sentence(number)[:100])
        opened, _ = await self.services.inboxes.open(CLIENT, "0a1b2c3d", new, NOBODY, None)
        self.inboxes.append((opened.address, opened.inbox_token))

    async def inbox_message(self, number: int) -> None:
        rate = Unlimited(f"203.0.113.{number % 250}")
        address, _ = self.inboxes[number // 20]
        await self.services.inboxes.send(rate, address, NewInboxMessage(paragraph(number)), NOBODY, None)

    async def agent(self, number: int) -> None:
        numbers = (number, number + self.count)
        skills = [AgentSkill(sentence(each)[:100], paragraph(each), ["bench"]) for each in numbers]
        card = ListedCard(f"Desk {number}", paragraph(number), skills)
        _, token = self.inboxes[number // 20]
        _, replayed = await self.services.agents.register(CLIENT, card, InboxProof(token=token), None)
        assert not replayed

    async def message(self, number: int) -> None:
        sent = Message(f"m-{number}", "ROLE_USER", [Part(text=paragraph(number))])
        received = ReceivedMessage(sent, paragraph(number), history_length=None, metadata=msgspec.UNSET)
        await self.services.messages.send(received, Unlimited(CLIENT), None)

    async def feedback(self, number: int) -> None:
        await self.services.feedback.add(Unlimited(f"203.0.113.{number % 250}"), NewFeedback(sentence(number)), None)


async def everything(scales: Scales, count: int) -> None:
    things = Things(scales.services, count)
    await scales.weigh("relay message (public), as a thread", count, things.relay)
    await scales.weigh("relay message, `public=false`", count, things.private)
    await scales.weigh("board thread, with its terms for search by text", count, things.thread)
    await scales.weigh("reply, in a thread with others", count, things.reply)
    await many(count, things.offer)  # before measuring: Redis sets up 2 MB once, which would be a third of the weight
    things.tasks.clear()
    before = await scales.used()
    await scales.weigh("task, offered, with its terms for search by text", count, things.offer)
    await many(count, things.complete)
    for task_id in things.tasks:
        await scales.offers.remove(task_id, ())
    show("task, completed", (await scales.used() - before) / count)
    await TaskStore(scales.store, scales.settings.idempotency_ttl).compact(things.tasks)
    show("task, compacted", (await scales.used() - before) / count)
    await scales.weigh("session", count, things.session)
    await scales.weigh("session line, in a session with others", count, things.line)
    await scales.weigh("inbox", count, things.inbox)
    await scales.weigh("message in an inbox with 20, its receipt included", count, things.inbox_message)
    await scales.weigh("agent of two skills in the directory", count, things.agent)
    await scales.weigh("A2A message task, alone in its context", count, things.message)
    await scales.weigh("feedback", count, things.feedback)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="What one stored thing weighs in Redis, by kind.")
    parser.add_argument("--count", type=int, default=20_000, help="things of each kind")
    given = parser.parse_args()
    asyncio.run(main(given.count))
