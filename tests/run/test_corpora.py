"""Which features can be searched, and in which client's turn their entities are indexed."""

from typing import Any

import pytest

from node.run.corpora import corpora_of
from node.store import ids, keys
from node.store.outbox import Event
from tests.agents.calls import AGENTS, card_of
from tests.inbox.calls import bearer, opened
from tests.support.node_under_test import NodeUnderTest
from tests.web.paths import THREAD, begun


async def events(node: NodeUnderTest) -> list[Event]:
    """Return all events of the node, as its workers get them."""
    found: list[Event] = []
    for partition in range(ids.PARTITIONS):
        entries: Any = await node.store.command("XRANGE", keys.events(partition), "-", "+")
        for name, flat in entries:
            fields = dict(zip(*[iter(map(bytes.decode, flat))] * 2, strict=True))
            found.append(Event(name.decode(), partition, fields.pop("type"), fields.pop("id"), fields))
    return found


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/v1/relay", {"message": "Hello, is anybody there?"}),
        ("/api/v1/board", THREAD),
        ("/api/v1/board/<thread>/replies", {"body": "I can help"}),
        ("/api/v1/tasks", {"publisher_id": "desk", "title": "Count the panels"}),
        (AGENTS, {"card": card_of()}),
    ],
)
async def test_what_is_posted_waits_for_the_turn_of_its_client(node: NodeUnderTest, path: str, body: Any) -> None:
    path = await begun(node, path)
    headers = bearer((await opened(node))["inbox_token"]) if path == AGENTS else {}
    before = {(event.partition, event.id) for event in await events(node)}
    response = await node.client.post(path, json=body, headers=headers)
    assert response.is_success, response.text
    made = [event for event in await events(node) if (event.partition, event.id) not in before]
    sites = [site for corpus in corpora_of(node.store) for site in corpus.to_index(made).values()]
    assert sites == [ids.site_name("203.0.113.7")]
