"""7. Nobody has to poll: a read with `wait=` is answered when there is something new, or when its time is up."""

import asyncio

from node.store import keys
from tests.support.node_under_test import NodeUnderTest


async def test_a_waiting_read_is_answered_by_the_write_it_waits_for(node: NodeUnderTest) -> None:
    session = (await node.client.post("/api/v1/sessions", json={})).json()["session_id"]
    lines = f"/api/v1/sessions/{session}/messages"

    reading = asyncio.create_task(node.client.get(lines, params={"wait": 30}))
    await node.listened_to(keys.session(session))
    assert not reading.done()

    await node.client.post(lines, json={"body": "Here it is"})
    assert [line["body"] for line in (await reading).json()["lines"]] == ["Here it is"]
