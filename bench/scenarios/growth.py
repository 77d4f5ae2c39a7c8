"""Growth: the cost of the same requests with 10⁴, 10⁵ and 10⁶ stored entities, and the memory of an entity.

Runs one web process without a worker: embedding a million threads takes an hour, and its cost does not grow.
The memory shown includes the events, which nobody consumes.
"""

from collections.abc import Iterator

from bench.client import Call, request
from bench.entities import Sessions, in_turn, relay_messages, session_calls, sessions, task_calls, tasks, threads
from bench.lab import Lab
from bench.load import Calls
from bench.meter import redis_memory
from bench.payload import Template
from bench.scenario import Scenario
from bench.server import Server

SIZES = (10_000, 100_000, 1_000_000)
RATE = 500.0
FILL_SECONDS = 3000.0

HOLDS = 8e9  # bytes

AT = "{what}, {size:,} entities"
WHATS = ("acknowledge", "send a line", "poll", "claim", "list tasks", "list threads")
KINDS = ("relay message", "board thread", "task", "session")


async def run(lab: Lab) -> None:
    rate = lab.options.rate or RATE
    claims = round(rate * lab.seconds_of_a_measurement) + 10
    stored = 0
    async with lab.node("web") as node:
        lines = Sessions(await sessions(lab, node, 64))
        for size in SIZES if lab.options.full else SIZES[:1]:
            await _grow(lab, node, size, size - stored)
            stored = size
            offers = iter(await tasks(lab, node, claims))

            def claim(number: int, offers: Iterator[str] = offers) -> Call:
                path = f"/api/v1/tasks/{next(offers)}/claim"
                return Call(Template("POST", path)(b'{"assignee_id":"agent-%d"}' % number))

            measured: tuple[Calls, ...] = (
                relay_messages(lab),
                lab.numbered(lines.send),
                lab.numbered(lines.poll),
                lab.numbered(claim),
                in_turn([request("GET", "/api/v1/tasks?status=offered&limit=20")]),
                in_turn([request("GET", "/api/v1/board?limit=20")]),
            )
            for what, calls in zip(WHATS, measured, strict=True):
                await lab.at_rate(node, calls, AT.format(what=what, size=size), rate)


async def _grow(lab: Lab, node: Server, size: int, count: int) -> None:
    """Add `count` entities, a quarter of each kind, and record the memory of one."""
    fillings = (relay_messages(lab), threads(lab), task_calls(lab), session_calls())
    for kind, calls in zip(KINDS, fillings, strict=True):
        before = redis_memory(node)
        await lab.fill(node, calls, count // 4, f"entities of kind {kind}", FILL_SECONDS)
        if node.redis is not None:
            each = (redis_memory(node) - before) / (count // 4)
            note = f"{HOLDS / each / 1e6:.1f} million in 8 GB"
            lab.point(f"memory of a {kind}, up to {size:,} entities", each, "B", note)


SCENARIO = Scenario("growth", "the same requests with 10⁴ to 10⁶ entities stored", run, full_only=True)
