"""A2A message:send, beside the official SDK's own server."""

from bench.client import Call
from bench.entities import must_say
from bench.lab import Lab
from bench.payload import Template, message_body
from bench.peers import a2a_sdk
from bench.scenario import Scenario

CEILING = "ceiling"

_send = Template("POST", "/api/v1/message:send", A2A_Version="1.0")


async def run(lab: Lab) -> None:
    completed = must_say(b"TASK_STATE_COMPLETED")
    messages = lab.numbered(lambda number: Call(_send(message_body(number)), answered=completed))
    if lab.alone:
        async with lab.node() as node:
            await lab.at_asked_rate(node, messages)
        return
    async with lab.node("web") as node, lab.peers([a2a_sdk.PEER]) as peers:
        ceiling, *_ = await lab.side_by_side([(node, messages), *peers], CEILING)
        await lab.at_rate(node, messages, "half of the ceiling", ceiling.requests_per_s / 2)


SCENARIO = Scenario("message", "A2A message:send; a2a-sdk's server beside it", run)
