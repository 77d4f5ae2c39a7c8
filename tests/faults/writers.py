"""Clients that keep writing in every feature, and remember what was acknowledged (DESIGN 1).

A write is repeated under its Idempotency-Key until it is acknowledged. So at the end, everything acknowledged must be
there, and nothing twice.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from itertools import count
from typing import Any, Self
from uuid import uuid4

from node.config import Settings
from tests.support.limits import NO_LIMITS
from tests.support.node_under_test import NodeUnderTest, settings_for, until
from tests.support.servers import PATIENCE, eventually

UNBOUNDED = dict.fromkeys(["client_sessions", "client_inboxes", "client_threads", "client_tasks", "client_bytes"], 0)
HELLO = "Hello, is anybody there who can read this?"
TURNS = 50  # lines in one session: they must fit on one page
LINES = "/api/v1/sessions/{}/messages?limit=100"
READERS = 16  # concurrent reads when everything is compared with what was acknowledged

Made = dict[str, str]
"""Texts by the id under which they are kept."""


def unlimited(redis_url: str, **given: Any) -> Settings:
    """Return the settings of a node without limits for a single client, but with the default timeout for Redis."""
    given.setdefault("store_timeout", Settings().store_timeout)
    return settings_for(redis_url, limits=NO_LIMITS, **UNBOUNDED, **given)


class Clients:
    """Tasks that run until the context is left. A failure of any of them is raised at the next wait, or at the end."""

    def __init__(self) -> None:
        self._stopped = False
        self._tasks: list[asyncio.Task[None]] = []

    async def _until(self, condition: Callable[[], bool]) -> None:
        async def holds() -> bool:
            for task in self._tasks:
                if task.done():
                    task.result()
            return condition()

        await until(holds, PATIENCE)

    async def _counted(self, count: Callable[[], int], more: int) -> None:
        """Return once `count` has grown by `more`. There is no time limit for all of it: on a busy machine, `count`
        only has to keep growing.
        """
        goal = count() + more
        while (now := count()) < goal:
            await self._until(lambda then=now: count() > then)

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._stopped = True
        outcomes = await asyncio.gather(*self._tasks, return_exceptions=True)
        if error is None:
            for outcome in outcomes:
                if outcome:
                    raise outcome


class Writers(Clients):
    """Several clients of one node, for as long as the context lasts."""

    def __init__(self, node: NodeUnderTest, clients: int = 16) -> None:
        super().__init__()
        self.answers: Counter[int] = Counter()
        self.at: dict[str, float] = {}
        """Loop time of each acknowledgement."""
        self.refused: list[float] = []
        """Loop times of all 503 answers."""
        self.relayed: Made = {}
        self.threads: Made = {}
        self.tasks: Made = {}
        self.sessions: Made = {}
        self.lines: Made = {}
        """Texts by session and sequence number."""
        self.node = node
        self._turns = [0] * clients
        self._loop = asyncio.get_running_loop()

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.create_task(self._write(number)) for number in range(len(self._turns))]
        return self

    @property
    def acknowledged(self) -> int:
        return sum(count for status, count in self.answers.items() if status in (200, 201))

    async def further(self, writes: int) -> None:
        """Return once this many more writes have been acknowledged."""
        await self._counted(lambda: self.acknowledged, writes)

    async def failing(self, answers: int = 20) -> None:
        """Return once this many more writes have been answered with 503."""
        await self._counted(lambda: self.answers[503], answers)

    async def recovered(self) -> float:
        """Return for how many seconds from now 503 answers continue, once every client has been served in every
        feature.
        """
        began, turns = self._loop.time(), list(self._turns)
        # The current round may already have been half done.
        await self._until(lambda: all(now > then + 1 for now, then in zip(self._turns, turns, strict=True)))
        return max(0.0, self.refused[-1] - began) if self.refused else 0.0

    async def _write(self, number: int) -> None:
        session = ""
        for turn in count():
            title = f"Turn {turn} of client {number}"
            text = f"{HELLO} {title}."
            if turn % TURNS == 0:
                if (made := await self._kept("/api/v1/sessions", {"ttl_seconds": 3600, "label": title})) is None:
                    return
                session = made["session_id"]
                self._note(self.sessions, session, title)
            if made := await self._kept("/api/v1/relay", {"message": text, "public": False}):
                self._note(self.relayed, made["reference_id"], text)
            if made := await self._kept(f"/api/v1/sessions/{session}/messages", {"body": text}):
                self._note(self.lines, f"{session} {made['seq']}", text)
            if made := await self._kept("/api/v1/board", {"title": title, "body": text}):
                self._note(self.threads, made["id"], title)
            if made := await self._kept("/api/v1/tasks", {"publisher_id": "p", "title": title}):
                self._note(self.tasks, made["id"], title)
            if self._stopped:
                return
            self._turns[number] = turn + 1

    def _note(self, made: Made, name: str, text: str) -> None:
        made[name] = text
        self.at[name] = self._loop.time()

    async def _kept(self, path: str, body: object) -> Any:
        """Return the acknowledgement of one write, repeated as often as needed; None if the load ends first."""
        key = str(uuid4())
        while not self._stopped:
            response = await self.node.client.post(path, json=body, headers={"idempotency-key": key})
            self.answers[response.status_code] += 1
            if response.status_code in (200, 201):
                return response.json()
            assert response.status_code == 503, f"{path}: {response.status_code} {response.text}"
            assert int(response.headers["retry-after"]) >= 1
            self.refused.append(self._loop.time())
            await asyncio.sleep(0.02)  # less than the client was told to wait, so that it tries more often
        return None


class Kept:
    """What a node holds, compared with what it acknowledged."""

    def __init__(self) -> None:
        self.lost: list[str] = []
        """Acknowledged writes that are missing: ids, or session and sequence number."""
        self.twice = 0

    def hold(self, acknowledged: Made, found: Made) -> None:
        self.lost += [name for name, text in acknowledged.items() if found.get(name) != text]
        self.twice += sum(times - 1 for times in Counter(found.values()).values())


async def kept(node: NodeUnderTest, writers: Writers) -> Kept:
    """Read everything there is."""
    # This is the test's own store, which may reconnect later than the node's.
    await eventually(lambda: node.store.connected)
    result = Kept()

    async def found(kind: str, path: str, text: Callable[[Any], str]) -> Made:
        ids = [name.rpartition(":")[2] for name in await node.names(f"{kind}:*")]
        answers = await _all([path.format(each) for each in ids], node)
        return {each: text(answer) for each, answer in zip(ids, answers, strict=True)}

    result.hold(writers.relayed, await found("relay", "/api/v1/relay/{}", lambda answer: answer["payload"]["message"]))
    result.hold(writers.threads, await found("thread", "/api/v1/board/{}", lambda answer: answer["title"]))
    result.hold(writers.tasks, await found("task", "/api/v1/tasks/{}", lambda answer: answer["title"]))
    result.hold(writers.sessions, await found("session", LINES, lambda answer: answer["label"]))
    lines: Made = {}
    pages = await _all([LINES.format(session) for session in writers.sessions], node)
    for session, page in zip(writers.sessions, pages, strict=True):
        there = [line["seq"] for line in page["lines"]] if page else []
        assert there == list(range(1, len(there) + 1)), "sequence numbers without a gap"
        lines |= {f"{session} {line['seq']}": line["body"] for line in page["lines"]} if page else {}
    result.hold(writers.lines, lines)
    return result


async def _all(paths: list[str], node: NodeUnderTest) -> list[Any]:
    """Return the answers to many reads. A 404 counts as empty."""
    gate = asyncio.Semaphore(READERS)

    async def read(path: str) -> Any:
        async with gate:
            response = await node.client.get(path)
        assert response.status_code in (200, 404), f"{path}: {response.status_code}"
        return response.json() if response.status_code == 200 else None

    return await asyncio.gather(*map(read, paths))
