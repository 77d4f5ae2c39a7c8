"""How much an inbox holds, in all and from one client, and what others can find out about it (NETWORK 1)."""

import asyncio

import pytest

from node.config import Limit, Limits
from node.store import ids
from tests.inbox.calls import (
    ADDRESS,
    INBOXES,
    OTHER_ADDRESS,
    bearer,
    opened,
    path_of,
    read,
    receipt,
    send_signed,
    sent,
    settled,
    signed,
)
from tests.support.answers import refused
from tests.support.node_under_test import NodeUnderTest

FREE = Limit(0, 1)


pytestmark = pytest.mark.settings(limits=Limits(inbox=FREE, inbox_send=FREE, inbox_sender=FREE))


async def test_one_address_may_have_32_messages_in_an_inbox_and_others_go_on(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    messages = [await sent(node, inbox, expires_in=600 - n) for n in range(32)]
    full = await node.client.post(path_of(inbox, "/messages"), json={"body": "One more"})
    assert refused(full) == (429, "inbox.full")
    assert 500 < int(full.headers["retry-after"]) <= 600 - 31  # until the client's first message expires
    assert len((await read(node, inbox, limit=100))["messages"]) == 32  # reading frees no place
    assert refused(await node.client.post(path_of(inbox, "/messages"), json={"body": "x"})) == (429, "inbox.full")
    other = node.client_at("203.0.113.8")
    await sent(node, inbox, other)
    path = path_of(inbox, f"/messages/{messages[5]['id']}")
    await node.client.delete(path, headers=bearer(messages[5]["receipt_token"]))
    await sent(node, inbox)  # takes the place of the withdrawn message
    assert refused(await node.client.post(path_of(inbox, "/messages"), json={"body": "x"})) == (429, "inbox.full")
    await settled(node, inbox, messages[0])
    await sent(node, inbox)


async def test_an_inbox_that_is_flooded_from_many_addresses_is_full_until_its_owner_settles(
    node: NodeUnderTest,
) -> None:
    inbox = await opened(node)
    clients = [node.client_at(f"198.51.100.{n}") for n in range(8)]
    for client in clients:
        await asyncio.gather(*(sent(node, inbox, client) for _ in range(32)))
    honest = node.client_at("203.0.113.8")
    full = await honest.post(path_of(inbox, "/messages"), json={"body": "Hello"})
    assert refused(full) == (429, "inbox.full")
    assert int(full.headers["retry-after"]) > 6 * 86_400
    assert (await node.client.get(path_of(inbox))).json()["accepting"] is False
    page = await read(node, inbox, limit=100)
    assert (page["waiting"], len(page["messages"])) == (256, 100)
    response = await node.client.post(
        path_of(inbox, "/settle"), json={"through_seq": 256}, headers=bearer(inbox["inbox_token"])
    )
    assert response.json()["settled"] == 256
    assert (await node.client.get(path_of(inbox))).json()["accepting"] is True
    assert (await sent(node, inbox, honest))["seq"] == 257


async def test_an_inbox_holds_a_mebibyte(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    clients = [node.client_at(f"198.51.100.{n}") for n in range(4)]
    large = {"body": "x" * 16_384}
    statuses = [
        (await client.post(path_of(inbox, "/messages"), json=large)).status_code
        for client in clients
        for _ in range(20)
    ]
    assert statuses.count(201) == 63  # of 16,396 bytes each, including the name of the field
    assert (await read(node, inbox, limit=1))["bytes"] <= 1024 * 1024


async def test_a_signature_is_used_up_by_what_is_taken_only(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    messages = [await sent(node, inbox) for _ in range(32)]
    request = signed("POST", path_of(inbox, "/messages"), {"body": "Hello"})
    assert refused(await send_signed(node, request)) == (429, "inbox.full")
    await settled(node, inbox, messages[0])
    assert (await send_signed(node, request)).status_code == 201
    await settled(node, inbox, messages[1])
    assert refused(await send_signed(node, request)) == (409, "signature.replayed")


async def test_the_largest_contacts_are_judged_at_once(node: NodeUnderTest) -> None:
    contacts = [f"{n:043d}" for n in range(98)] + [OTHER_ADDRESS, ADDRESS]
    inbox = await opened(node, policy="contacts", contacts=contacts)
    response = await send_signed(node, signed("POST", path_of(inbox, "/messages"), {"body": "Hello"}))
    assert response.status_code == 201


async def test_ids_are_not_guessed_and_foreign_ones_are_not_found(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    address = next(
        each["address"]
        for each in [await opened(node) for _ in range(200)]
        if ids.partition_of(each["address"]) != ids.partition_of(inbox["address"])
    )
    message = await sent(node, inbox)
    for path in (f"{INBOXES}/{address}/messages/{message['id']}", f"{INBOXES}/{address}/messages/no-id"):
        response = await node.client.get(path, headers=bearer(message["receipt_token"]))
        assert response.status_code in {403, 404}
    assert (await receipt(node, inbox, message))["status"] == "queued"


async def test_no_list_index_or_label_tells_of_an_inbox(node: NodeUnderTest) -> None:
    inbox = await opened(node, label="Hidden desk")
    message = await sent(node, inbox, body="Nobody else reads this", subject="Secret")
    texts = [(await node.client.get(path)).text for path in ("/", "/api/v1/board", "/sitemap.xml", "/health")]
    for text in texts:
        for word in (inbox["address"], message["id"], "Hidden desk", "Nobody else reads this", "Secret"):
            assert word not in text
