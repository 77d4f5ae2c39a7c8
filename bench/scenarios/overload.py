"""Twice the ceiling: what is accepted stays fast, the rest is refused cleanly, and it is over when it is over."""

from bench.client import Answer, Connection, http_answer
from bench.entities import relay_messages
from bench.lab import Lab
from bench.meter import usage
from bench.scenario import Scenario

CONNECTIONS = 2000
SECONDS = 10.0

FLOOD = "twice the ceiling, 2,000 connections"
AFTER = "half of the ceiling, {second} s after the flood"


class Witness(Connection):
    """Looks at every refusal for the Retry-After it must have."""

    __slots__ = ()
    refused = 0
    with_retry_after = 0

    def answer(self, data: bytes) -> Answer | None:
        answer = http_answer(data)
        if answer is not None and answer.status in {429, 503}:
            Witness.refused += 1
            Witness.with_retry_after += b"\r\nretry-after:" in data[: answer.size].lower()
        return answer


async def run(lab: Lab) -> None:
    async with lab.node() as node:
        messages = relay_messages(lab)
        ceiling = await lab.at_ceiling(node, messages, "ceiling", runs=1)
        rate = lab.options.rate or 2 * ceiling.requests_per_s
        before = usage(node)
        node.dialect = Witness
        Witness.refused = Witness.with_retry_after = 0
        await lab.at_rate(
            node, messages, FLOOD, rate, connections=CONNECTIONS, seconds=SECONDS, runs=1, warmup=0, drain=0.5
        )
        node.dialect = Connection
        after = usage(node)
        for second in (1, 2, 3):
            what = AFTER.format(second=second)
            await lab.at_rate(node, messages, what, ceiling.requests_per_s / 2, seconds=1.0, runs=1, warmup=0)
        lab.point("refused", Witness.refused, "requests")
        lab.point("refused with Retry-After", Witness.with_retry_after, "requests", f"of {Witness.refused}")
        if before.rss:
            grown = after.rss.get("web", 0.0) - before.rss.get("web", 0.0)
            lab.point("web process grew by", grown, "MB", f"in {SECONDS:.0f} s")


SCENARIO = Scenario("overload", "twice what the node can do, and the seconds after", run)
