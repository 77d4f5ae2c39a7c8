"""Twice the ceiling: accepted requests stay fast, the rest is refused cleanly, and the node recovers at once."""

from array import array
from asyncio import sleep

from bench.client import Answer, Connection, http_answer
from bench.entities import relay_messages
from bench.histogram import Histogram
from bench.lab import Lab
from bench.load import Calls, closed_loop
from bench.meter import usage
from bench.scenario import Scenario
from bench.schedule import now
from bench.server import Server

CONNECTIONS = 2000
SECONDS = 10.0
BURST = 1000
BURSTS = 3
CALM = 2.0  # seconds after which a flood has no effect any more

FLOOD = "twice the ceiling, 2,000 connections"
AFTER = "half of the ceiling, {second} s after the flood"


class Witness(Connection):
    """Records for every refusal how long it took, and whether it has the required Retry-After."""

    __slots__ = ()
    took = array("q")
    with_retry_after = 0

    def answer(self, data: bytes) -> Answer | None:
        answer = http_answer(data)
        if answer is not None and answer.status in {429, 503}:
            Witness.took.append(now() - self.sent_at)
            Witness.with_retry_after += b"\r\nretry-after:" in data[: answer.size].lower()
        return answer


async def run(lab: Lab) -> None:
    async with lab.node() as node:
        messages = relay_messages(lab)
        ceiling = await lab.at_ceiling(node, messages, "ceiling", runs=1)
        rate = lab.options.rate or 2 * ceiling.requests_per_s
        before = usage(node)
        node.dialect = Witness
        Witness.took, Witness.with_retry_after = array("q"), 0
        flood = await lab.at_rate(
            node, messages, FLOOD, rate, connections=CONNECTIONS, seconds=SECONDS, runs=1, warmup=0, drain=0.5
        )
        node.dialect = Connection
        after = usage(node)
        for second in (1, 2, 3):
            what = AFTER.format(second=second)
            await lab.at_rate(node, messages, what, ceiling.requests_per_s / 2, seconds=1.0, runs=1, warmup=0)
        refused = len(Witness.took)
        lab.point("accepted of the ceiling, during the flood", flood.requests_per_s / ceiling.requests_per_s, "times")
        lab.point("refused", refused, "requests")
        lab.point("refused with Retry-After", Witness.with_retry_after, "requests", f"of {refused}")
        lab.point("a refusal, p99", Histogram.of(Witness.took).percentile(99), "ms", "from the send to the answer")
        if before.rss:
            grown = after.rss.get("web", 0.0) - before.rss.get("web", 0.0)
            lab.point("web process grew by", grown, "MB", f"in {SECONDS:.0f} s")
        await bursts(lab, node, messages)


async def bursts(lab: Lab, node: Server, messages: Calls) -> None:
    """Measure a thousand clients at the same moment, which is no overload: all must be accepted."""
    async with lab.pool(node, BURST) as pool:
        for _ in range(BURSTS):
            await sleep(CALM)
            seen = await closed_loop(pool, messages, 10.0, count=BURST)
            lab.point(f"{BURST:,} requests at once: accepted", seen.good, "requests", f"of {BURST}")
            lab.point(f"{BURST:,} requests at once: last answered", seen.latencies().largest, "ms")


SCENARIO = Scenario("overload", "twice what the node can do, and the seconds after", run)
