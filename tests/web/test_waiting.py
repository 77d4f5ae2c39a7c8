"""Reads with `wait=` whose clients name a number that nothing has reached yet."""

import asyncio
from collections.abc import Callable

import httpx2
import pytest

from node.store import keys
from tests.inbox.calls import bearer
from tests.support.node_under_test import NodeUnderTest, until
from tests.tasks.calls import TASKS, offered

THREAD = {"title": "Looking for a parser", "body": "Who can parse a large table of numbers for me today?"}
AHEAD = {"since_seq": 2**53, "wait": 30}
"""Query of a read that every change would wake and none would answer."""


@pytest.mark.parametrize(
    ("made", "body", "named", "lists", "key"),
    [
        ("/api/v1/board", THREAD, "/api/v1/board/{id}", "replies", keys.thread),
        ("/api/v1/sessions", {}, "/api/v1/sessions/{session_id}/messages", "lines", keys.session),
        ("/api/v1/inboxes", {}, "/api/v1/inboxes/{address}/messages", "messages", keys.inbox),
    ],
)
async def test_who_is_ahead_is_answered_by_what_comes_next(
    node: NodeUnderTest, made: str, body: dict[str, str], named: str, lists: str, key: Callable[[str], str]
) -> None:
    thing = (await node.client.post(made, json=body)).json()
    path = named.format(**thing)
    adding = f"{path}/replies" if lists == "replies" else path
    headers = bearer(thing.get("inbox_token", "none"))
    reading = asyncio.create_task(node.client.get(path, params=AHEAD, headers=headers, timeout=40))
    await node.listened_to(key(path.removesuffix("/messages").rpartition("/")[2]))

    async def is_answered() -> bool:
        assert (await node.client.post(adding, json={"body": "Here is one more for you."})).is_success
        return reading.done()

    await until(is_answered)
    [found] = (await reading).json()[lists]
    assert found["body"] == "Here is one more for you."


async def test_a_client_that_names_a_later_cursor_is_answered_by_the_next_offer(node: NodeUnderTest) -> None:
    for since in ("9000000000000-0", "9" * 19 + "-7"):
        ahead = {"status": "offered", "since": since, "wait": 30}
        reading = asyncio.create_task(node.client.get(TASKS, params=ahead, timeout=40))
        await node.listened_to(keys.OFFERS)

        async def is_answered(reading: asyncio.Task[httpx2.Response] = reading) -> bool:
            await offered(node)
            return reading.done()

        await until(is_answered)
        page = (await reading).json()
        assert page["tasks"]
        assert page["next_since"] != since
