"""2,000 followers of the contracts on one web process: their cost, their effect on others, and the delay of events."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator

from bench.client import Call
from bench.entities import relay_messages
from bench.histogram import Histogram
from bench.lab import Lab
from bench.load import Calls, open_loop
from bench.meter import usage
from bench.payload import Template, sentence_bytes
from bench.scenario import Scenario
from bench.schedule import Schedule, now
from bench.server import Server, Unfit

FOLLOWERS = 2000
TIMED = 100  # followers whose events are timed; timing all would take CPU from the node on the same machine
CONNECT_AT_ONCE = 50
RATE = 1000.0
RATES = (1.0, 100.0)  # events a second
LAST_SECONDS = 10.0  # wait for the last events to reach the last follower
PUBLISHER = b'"publisher_id":"'
WAKE_UP = "wake-up p{}, from the offer to the follower, at {:g} events a second"

_task = Template("POST", "/api/v1/tasks")

BEFORE = "relay messages, nobody follows"
ASK = b"GET /api/v1/events?topic=tasks HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n"


def during(rate: float) -> str:
    """Return the name of the row of relay messages beside the followers."""
    return f"relay messages beside 2,000 followers of {rate:g} events a second"


class Follower(asyncio.Protocol):
    """One open stream. Counts its events, and times them if `sent` is given."""

    def __init__(self, sent: dict[bytes, int] | None) -> None:
        self._sent = sent
        self._rest = b""
        self.events = 0
        self._latencies: list[int] = []
        self.began: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        if not self.began.done():
            self.began.set_result(data)
        self.events += data.count(b"event: task.offered")
        if self._sent is None:
            return
        at, data = now(), self._rest + data
        *events, self._rest = data.split(b"\n\n")
        for event in events:
            publisher = event.partition(PUBLISHER)[2].partition(b'"')[0]
            if publisher in self._sent:
                self._latencies.append(at - self._sent[publisher])

    def take(self) -> list[int]:
        """Return the time from offer to arrival, in nanoseconds, of each event since the last call."""
        taken, self._latencies = self._latencies, []
        return taken


@contextlib.asynccontextmanager
async def following(server: Server, sent: dict[bytes, int]) -> AsyncGenerator[list[Follower]]:
    """Open FOLLOWERS streams until the end of the block. Raises Unfit if one is refused."""
    loop = asyncio.get_running_loop()
    followers: list[Follower] = []
    transports: list[asyncio.BaseTransport] = []
    for number in range(0, FOLLOWERS, CONNECT_AT_ONCE):
        made = await asyncio.gather(
            *(
                loop.create_connection(
                    lambda timed=each < TIMED: Follower(sent if timed else None), server.host, server.port
                )
                for each in range(number, number + CONNECT_AT_ONCE)
            )
        )
        for transport, follower in made:
            transport.write(ASK)
            followers.append(follower)
            transports.append(transport)
        for head in await asyncio.gather(*(follower.began for _, follower in made)):
            if not head.startswith(b"HTTP/1.1 200 "):
                raise Unfit(f"a follower was refused: {head[:300]!r}")
    try:
        yield followers
    finally:
        for transport in transports:
            transport.close()


def offers(lab: Lab, sent: dict[bytes, int]) -> Calls:
    """Contracts, each of a different publisher. `sent` gets the time of each one, by its publisher."""

    def call(_index: int) -> Call:
        number = next(lab.numbers)
        publisher = b"publisher-%d" % number
        sent[publisher] = now()
        return Call(_task(b'{"publisher_id":"%b","title":"%b"}' % (publisher, sentence_bytes(number))), "offer", (201,))

    return call


async def run(lab: Lab) -> None:
    """Measure relay messages alone, and beside the followers at each rate of events."""
    rate = lab.options.rate or RATE
    async with lab.node() as node:
        await lab.at_rate(node, relay_messages(lab, public=False), BEFORE, rate)
        before = usage(node)
        sent: dict[bytes, int] = {}
        async with following(node, sent) as followers:
            grown = usage(node).rss.get("web", 0.0) - before.rss.get("web", 0.0)
            lab.point("memory of a follower", grown * 1024 / FOLLOWERS, "kB", "web process")
            for events in RATES:
                await _beside(lab, node, followers, sent, events, rate)


async def _beside(
    lab: Lab, node: Server, followers: list[Follower], sent: dict[bytes, int], events: float, rate: float
) -> None:
    heard_before = sum(follower.events for follower in followers)
    seconds = max(lab.seconds_of_a_measurement, 5 / events)
    sent.clear()
    async with lab.pool(node, 8) as pool:
        offering = asyncio.create_task(open_loop(pool, offers(lab, sent), Schedule(events, seconds)))
        await lab.at_rate(node, relay_messages(lab, public=False), during(events), rate)
        await offering
    due = len(sent) * FOLLOWERS
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LAST_SECONDS):
            while sum(follower.events for follower in followers) - heard_before < due:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    heard = sum(follower.events for follower in followers) - heard_before
    latencies = Histogram.of([each for follower in followers for each in follower.take()])
    lab.point(f"events heard, at {events:g} a second", heard, "events", f"of {due}")
    lab.point(WAKE_UP.format(50, events), latencies.percentile(50), "ms")
    lab.point(WAKE_UP.format(99, events), latencies.percentile(99), "ms")


SCENARIO = Scenario("follow", "2,000 followers of an event feed", run)
