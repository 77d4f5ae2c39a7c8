"""Inboxes: send to them, read and settle; the cost of an idle one; and calls that 2,000 waiting owners answer."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import msgspec

from bench.client import Call, request
from bench.entities import kept
from bench.lab import Lab
from bench.load import keep_asking
from bench.meter import redis_memory, usage
from bench.payload import Template, sentence_bytes
from bench.scenario import Scenario
from bench.server import Server

INBOXES = 10_000  # many, as each holds at most 32 messages from one client at a time
OWNERS = 2000
WAIT = 30  # seconds, the most an owner may ask for
CALL_RATE = 50.0  # low, to measure a turn and not the load of the machine
CALL_SECONDS = 12.0  # short enough that all calls end before the first waiting read times out

SEND = "send, ceiling"
READ = "read, ceiling"
TURNS = "send, read and settle in turn, ceiling"
CALLS = "send with wait through two web processes, answered by one of 2,000 waiting owners"


class Opened(msgspec.Struct):
    """The fields of an inbox that the load needs."""

    address: str
    inbox_token: str


class _Held(msgspec.Struct):
    id: str


class _Page(msgspec.Struct):
    messages: list[_Held]


class Inboxes:
    """Requests on a set of inboxes in turn."""

    def __init__(self, opened: list[Opened]) -> None:
        self._opened = opened
        self._send = [Template("POST", f"/api/v1/inboxes/{each.address}/messages") for each in opened]
        self._call = [Template("POST", f"/api/v1/inboxes/{each.address}/messages?wait={WAIT}") for each in opened]

    def send(self, number: int) -> Call:
        return Call(self._send[number % len(self._send)](_body(number)), "send", (201,))

    def call(self, number: int) -> Call:
        return Call(self._call[number % OWNERS](_body(number)), "call", (201,))

    def read(self, number: int, wait: int = 0) -> Call:
        return Call(self._request(number, "GET", f"messages?limit=10&wait={wait}"), "read")

    def settle_all(self, number: int) -> Call:
        return Call(self._request(number, "POST", "settle", b'{"through_seq":9007199254740992}'), "settle")

    def answer(self, number: int, message_id: str) -> Call:
        wire = self._request(number, "POST", f"messages/{message_id}/settle", b'{"status":"done","reply":"Yes."}')
        return Call(wire, "answer")

    def turn(self, number: int) -> Call:
        """Return a send, a read or a settle in turn. An inbox is read 64 turns after a send, and settled 64 later."""
        step = (self.send, self.read, self.settle_all)[number % 3]
        return step(number // 3 - 64 * (number % 3))

    def _request(self, number: int, method: str, path: str, body: bytes = b"") -> bytes:
        opened = self._opened[number % len(self._opened)]
        token = f"Bearer {opened.inbox_token}"
        return request(method, f"/api/v1/inboxes/{opened.address}/{path}", body, Authorization=token)


class Owner:
    """Waits for messages on one connection and answers each of them."""

    def __init__(self, inboxes: Inboxes, number: int) -> None:
        self._inboxes = inboxes
        self._number = number
        self._unanswered: list[str] = []

    def next(self) -> Call:
        if self._unanswered:
            return self._inboxes.answer(self._number, self._unanswered.pop())
        call = self._inboxes.read(self._number, WAIT)
        call.answered = self._read
        return call

    def _read(self, status: int, body: bytes) -> None:
        if status == 200:
            self._unanswered = [message.id for message in msgspec.json.decode(body, type=_Page).messages]


async def run(lab: Lab) -> None:
    await _ceilings(lab)
    await _calls(lab)


async def _ceilings(lab: Lab) -> None:
    """Measure the memory of an idle inbox, and the ceiling of each operation on one web process."""
    async with lab.node() as node:
        before, used = usage(node), redis_memory(node)
        opened = await _opened(lab, node, INBOXES)
        if node.redis is not None:
            lab.point("memory of an idle inbox", (redis_memory(node) - used) / INBOXES, "B", "Redis")
            grown = usage(node).rss.get("web", 0.0) - before.rss.get("web", 0.0)
            lab.point(
                "memory of an idle inbox in a web process", grown * 1024 * 1024 / INBOXES, "B", "none is kept there"
            )
        inboxes = Inboxes(opened)
        await lab.at_ceiling(node, lab.numbered(inboxes.turn), TURNS)
        await lab.at_ceiling(node, lab.numbered(inboxes.send), SEND)
        await lab.at_ceiling(node, lab.numbered(inboxes.read), READ)


async def _calls(lab: Lab) -> None:
    """Measure whole turns, from a message to its owner's answer. Each side is served by either of two web processes."""
    async with lab.node(RELAY_WORKERS="2") as node:
        inboxes = Inboxes(await _opened(lab, node, OWNERS))
        async with owners(lab, node, inboxes):
            seconds = min(lab.options.seconds, CALL_SECONDS)
            await lab.at_rate(node, inboxes.call, CALLS, lab.options.rate or CALL_RATE, seconds=seconds, runs=1)


@asynccontextmanager
async def owners(lab: Lab, node: Server, inboxes: Inboxes) -> AsyncGenerator[None]:
    """Let the owners of the first OWNERS inboxes wait for messages and answer them, until the end of the block."""
    async with lab.pool(node, OWNERS) as waiting:
        by_number = [Owner(inboxes, number) for number in range(OWNERS)]
        keep_asking(waiting, lambda number: by_number[number].next())
        await asyncio.sleep(1.0)
        yield


async def _opened(lab: Lab, node: Server, count: int) -> list[Opened]:
    opened: list[Opened] = []
    wire = request("POST", "/api/v1/inboxes")
    await lab.fill(node, lambda _index: Call(wire, "", (201,), kept(opened, Opened)), count, "inboxes")
    return opened


def _body(number: int) -> bytes:
    return b'{"body":"%b"}' % sentence_bytes(number)


SCENARIO = Scenario("inbox", "send to, read and settle inboxes; calls that waiting owners answer", run)
