"""Workers that wait for work: 1,000 workers, each on its own address, wait on claim-next for 200 contracts.

Each contract must go to exactly one of them.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import msgspec

from bench.client import Call, request
from bench.histogram import Histogram
from bench.lab import Lab
from bench.load import keep_asking
from bench.payload import Template, encoded
from bench.scenario import Scenario
from bench.schedule import now
from bench.server import Server

WORKERS = 1000
CONTRACTS = 200
RATE = 100.0
SETTLED_SECONDS = 1.0  # until all workers wait, and until the last contract has reached its worker
WAIT = 30  # seconds, the most a worker may ask for

OFFERS = "offers while 1,000 workers wait on claim-next, open loop"
HANDED = "from the offer's due time to its worker: {which}"
ONCE = "contracts with exactly one worker"

_offer = Template("POST", "/api/v1/tasks")


class _Claimed(msgspec.Struct):
    title: str


class Work:
    """Contracts by title: the call that offered each, when it was handed out (ns), and to how many workers."""

    def __init__(self, lab: Lab) -> None:
        self._numbers = lab.numbers
        self.offered: dict[str, Call] = {}
        self.handed: dict[str, int] = {}
        self.workers: Counter[str] = Counter()

    def offer(self, _index: int) -> Call:
        title = f"Count the panels on photograph {next(self._numbers)}"
        call = Call(_offer(encoded({"publisher_id": "desk", "title": title})), "offer", (201,))
        self.offered[title] = call
        return call

    def wait(self, number: int) -> Call:
        body = encoded({"assignee_id": f"worker-{number}", "wait": WAIT})
        return Call(request("POST", "/api/v1/tasks/claim-next", body), "worker", (200, 204), self._claimed)

    def _claimed(self, status: int, body: bytes) -> None:
        if status == 200:
            title = msgspec.json.decode(body, type=_Claimed).title
            self.handed.setdefault(title, now())
            self.workers[title] += 1


async def run(lab: Lab) -> None:
    rate = lab.options.rate or RATE
    async with lab.node() as node:
        work = Work(lab)
        async with workers(lab, node, work):
            await lab.at_rate(node, work.offer, OFFERS, rate, seconds=CONTRACTS / rate, warmup=0, runs=1)
            await asyncio.sleep(SETTLED_SECONDS)
        took = Histogram.of(at - work.offered[title].due for title, at in work.handed.items() if title in work.offered)
        for which, value in (("median", took.percentile(50)), ("99th percentile", took.percentile(99))):
            lab.point(HANDED.format(which=which), value, "ms")
        lab.point(ONCE, sum(count == 1 for count in work.workers.values()), "contracts", f"of {len(work.offered)}")


@asynccontextmanager
async def workers(lab: Lab, node: Server, work: Work) -> AsyncGenerator[None]:
    """Let WORKERS workers wait for contracts until the end of the block. A worker that gets one waits for the next."""
    async with lab.pool(node, WORKERS) as waiting:
        keep_asking(waiting, work.wait)
        await asyncio.sleep(SETTLED_SECONDS)
        yield


SCENARIO = Scenario("work", "1,000 workers wait on claim-next for 200 contracts", run)
