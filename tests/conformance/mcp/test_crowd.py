"""Forty official clients at once, half of them on event streams, against two web processes."""

import asyncio

from tests.conformance.mcp.clients import connected, done
from tests.support.nodes import NodeProcess

KINDS = ("python-sse", "python-auto")
EACH = 20
LINES = 5


async def test_forty_clients_at_once_keep_their_answers_apart(served: NodeProcess) -> None:
    everybody_is_there = asyncio.Barrier(len(KINDS) * EACH)

    async def converse(kind: str, name: str) -> None:
        async with connected(kind, served.url) as caller:
            await everybody_is_there.wait()
            session = await done(caller, "create_session", label=name)
            one = session["session_id"]
            for number in range(LINES):
                await done(caller, "session_send", id=one, body=f"{name} {number}", author=name)
            polled = await done(caller, "session_poll", id=one)
            assert [line["body"] for line in polled["lines"]] == [f"{name} {number}" for number in range(LINES)]
            await done(caller, "destroy_session", id=one, destroy_token=session["destroy_token"])

    await asyncio.gather(*(converse(kind, f"{kind} {number}") for kind in KINDS for number in range(EACH)))
