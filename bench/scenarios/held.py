"""2,000 held `wait=` requests: their cost, their effect on others, and how fast news reaches them."""

import asyncio
from collections import Counter

from bench.client import Call
from bench.entities import Sessions, relay_messages, sessions
from bench.histogram import Histogram
from bench.lab import Lab
from bench.load import open_loop
from bench.meter import usage
from bench.scenario import Scenario
from bench.schedule import Schedule, now

HELD = 2000
WAIT = 30  # seconds, the most a client may ask for
RATE = 1000.0
WAKE_RATE = 500.0
SECONDS = 12.0  # short enough that everything ends before the first held request times out

BEFORE = "relay messages, nothing held"
DURING = "relay messages beside 2,000 held requests"


async def run(lab: Lab) -> None:
    rate = lab.options.rate or RATE
    seconds = min(lab.options.seconds, SECONDS)
    async with lab.node() as node:
        lines = Sessions(await sessions(lab, node, HELD))
        await lab.at_rate(node, relay_messages(lab), BEFORE, rate, seconds=seconds, runs=1)
        before = usage(node)
        sent: dict[int, int] = {}
        woken: list[int] = []
        statuses: Counter[int] = Counter()

        def hold(number: int) -> Call:
            def answered(status: int, body: bytes) -> None:
                statuses[status] += 1
                if number in sent and b'"seq"' in body:
                    woken.append(now() - sent[number])

            call = lines.poll(number, wait=WAIT)
            call.answered = answered
            return call

        def wake(index: int) -> Call:
            sent[index] = now()
            return lines.send(index)

        async with lab.pool(node, HELD) as held:
            held.done = lambda call, status, body: call.answered(status, body) if call.answered else None
            for number, connection in enumerate(list(held.idle)):
                connection.send(hold(number), now())
            held.idle.clear()
            held.ready = held.idle.append
            await asyncio.sleep(1.0)
            holding = usage(node)
            await lab.at_rate(node, relay_messages(lab), DURING, rate, seconds=seconds, runs=1)
            early, how = sum(statuses.values()), dict(statuses)
            async with lab.pool(node, lab.options.connections) as pool:
                await open_loop(pool, wake, Schedule(WAKE_RATE, HELD / WAKE_RATE))
            for _ in range(50):
                if sum(statuses.values()) == HELD:
                    break
                await asyncio.sleep(0.1)
    latencies = Histogram.of(woken)
    lab.point("held requests answered before there was news", early, "requests", f"of {HELD} {how or ''}".strip())
    lab.point("held requests woken by a line", len(woken), "requests", f"of {HELD}")
    lab.point("wake-up p50, from the send to the held answer", latencies.percentile(50), "ms")
    lab.point("wake-up p99, from the send to the held answer", latencies.percentile(99), "ms")
    if before.rss:
        grown = holding.rss.get("web", 0.0) - before.rss.get("web", 0.0)
        lab.point("memory of a held request", grown * 1024 / HELD, "kB", "web process")


SCENARIO = Scenario("held", "2,000 held wait= requests", run)
