"""Sessions: send lines and poll for the newest one, in 256 sessions in turn."""

from bench.client import Call
from bench.entities import Sessions, relay_messages, sessions
from bench.lab import Lab
from bench.scenario import Scenario

SESSIONS = 256  # each holds up to 5,000 lines: room for 1.28 million sends
BACKLOG_PER_SECOND = 400  # more threads than the worker embeds per second, at about 3 ms each

SEND_CEILING = "send, ceiling"
POLL_CEILING = "poll, ceiling"
HALF = "send, half of the ceiling, worker embedding"
BOTH = "send and poll in turn, half of the ceiling"


async def run(lab: Lab) -> None:
    async with lab.node() as node:
        lines = Sessions(await sessions(lab, node, SESSIONS))

        def in_turn(_index: int) -> Call:
            number = next(lab.numbers)
            return lines.poll(number // 2) if number % 2 else lines.send(number // 2)

        if lab.options.rate is not None:
            await lab.at_rate(node, in_turn, "send and poll in turn", lab.options.rate)
            return
        ceiling = await lab.at_ceiling(node, lab.numbered(lines.send), SEND_CEILING)
        await lab.at_ceiling(node, lab.numbered(lines.poll), POLL_CEILING)
        await lab.at_rate(node, in_turn, BOTH, ceiling.requests_per_s / 2)
        backlog = round(BACKLOG_PER_SECOND * lab.seconds_of_a_measurement)
        await lab.fill(node, relay_messages(lab), backlog, "threads for the worker to embed")
        await lab.at_rate(node, lab.numbered(lines.send), HALF, ceiling.requests_per_s / 2)


SCENARIO = Scenario("session", "send to and poll from sessions", run)
