"""Whose callbacks they are: the publisher is kept with every callback URL, is the same for all URLs of a client, and is
shown to nobody.
"""

from typing import Any

import pytest

from node.callbacks.owners import publisher_of, site_part
from node.store import keys
from tests.support.node_under_test import NodeUnderTest

CLIENT = "203.0.113.7"
URL = "https://agent.example/hook"
GIVEN: dict[str, tuple[str, dict[str, Any]]] = {
    "thread": ("/api/v1/board", {"title": "Looking for a CSV parser", "body": "Who can parse 40 MB of CSV?"}),
    "message": ("/api/v1/relay", {"message": "Who can summarise a report about solar panels?"}),
    "task": ("/api/v1/tasks", {"publisher_id": "p", "title": "Translate a memo"}),
    "session": ("/api/v1/sessions", {}),
}


def test_clients_of_one_site_have_the_part_for_the_site_in_common() -> None:
    one, two, elsewhere = map(publisher_of, ("2001:db8:1:1::/64", "2001:db8:1:2::/64", "2001:db8:2:1::/64"))
    assert one != two
    assert site_part(one) == site_part(two) != site_part(elsewhere)
    assert publisher_of("203.0.113.7") != publisher_of("203.0.113.8")
    assert "203" not in publisher_of("203.0.113.7")


@pytest.mark.parametrize("kind", GIVEN)
async def test_who_gives_a_url_is_kept_with_it(node: NodeUnderTest, kind: str) -> None:
    path, body = GIVEN[kind]
    response = await node.client_at(CLIENT).post(path, json=body | {"callback_url": URL})
    entity = response.json().get("reference_id") or response.json().get("session_id") or response.json().get("id")
    key = {"thread": keys.thread, "message": keys.thread, "task": keys.task, "session": keys.session}[kind](entity)
    publisher = publisher_of(CLIENT)
    assert await node.store.command("HGET", key, "callback_by") == publisher.encode()
    shown = [response]
    for read in (f"/api/v1/board/{entity}", f"/api/v1/relay/{entity}", f"/api/v1/tasks/{entity}"):
        shown.append(await node.client.get(read))
    shown.append(await node.client.get(f"/api/v1/sessions/{entity}/messages"))
    assert not any(part in response.text for response in shown for part in (publisher, site_part(publisher)))
