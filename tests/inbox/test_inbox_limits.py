"""How many calls to inboxes a client may make in a minute, and how many inboxes it may have (NETWORK 1)."""

import pytest

from node.config import Limit, Limits
from tests.inbox.calls import INBOXES, UNKNOWN_ADDRESS, bearer, closed, opened, path_of, send_signed, sent, signed
from tests.support.answers import refused
from tests.support.node_under_test import NodeUnderTest


async def test_an_address_sends_thirty_messages_a_minute_to_one_inbox_and_sixty_to_all(node: NodeUnderTest) -> None:
    one, two, three = [await opened(node) for _ in range(3)]
    for inbox in (one, two):
        for _ in range(29):
            await sent(node, inbox)
    last = await node.client.post(path_of(one, "/messages"), json={"body": "x"})
    assert last.headers.get_list("ratelimit-policy") == ['"inbox_send";q=60;w=60', '"inbox_sender";q=30;w=60']
    # Redis makes the first of these refusals; it counts no more than the others against the limit for all inboxes
    for _ in range(3):
        over = await node.client.post(path_of(one, "/messages"), json={"body": "x"})
        assert refused(over) == (429, "limit.exceeded")
        assert any(policy.startswith('"inbox_sender"') for policy in over.headers.get_list("ratelimit-policy"))
        assert int(over.headers["retry-after"]) <= 60
    await sent(node, three)
    assert refused(await node.client.post(path_of(three, "/messages"), json={"body": "x"})) == (429, "limit.exceeded")
    await sent(node, one, node.client_at("203.0.113.8"))


@pytest.mark.settings(limits=Limits(inbox_send=Limit(3, 60), inbox_sender=Limit(1, 60)))
async def test_an_a2a_message_over_the_limit_of_its_inbox_takes_no_place_in_that_of_all(node: NodeUnderTest) -> None:
    message = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "Hello"}]}}
    now = message | {"configuration": {"returnImmediately": True}}
    one, *others = [await opened(node) for _ in range(4)]
    for status in (200, 429, 429, 429):
        assert (await node.client.post(path_of(one, "/a2a/message:send"), json=now)).status_code == status
    for inbox, status in zip(others, (200, 200, 429), strict=True):
        assert (await node.client.post(path_of(inbox, "/a2a/message:send"), json=now)).status_code == status


async def test_what_is_refused_for_what_it_says_is_counted(node: NodeUnderTest) -> None:
    inbox = await opened(node, policy="signed")
    for body in ({"body": ""}, {}, {"body": "Unsigned"}):
        refused = await node.client.post(path_of(inbox, "/messages"), json=body)
        assert refused.headers["ratelimit-policy"].startswith('"inbox_send"')
    counted = await node.client.post(f"{INBOXES}/{UNKNOWN_ADDRESS}/messages", json={"body": "x"})
    assert '"inbox_send";r=56;' in counted.headers["ratelimit"]
    assert await node.names(f"rate:*inbox_sender*{UNKNOWN_ADDRESS}*") == []


async def test_an_address_opens_ten_inboxes_a_minute(node: NodeUnderTest) -> None:
    for _ in range(10):
        await opened(node)
    assert refused(await node.client.post(INBOXES)) == (429, "limit.exceeded")


@pytest.mark.settings(client_inboxes=2)
async def test_an_address_has_a_number_of_inboxes_and_can_renew_them(node: NodeUnderTest) -> None:
    first = await opened(node)
    mine = await send_signed(node, signed("POST", INBOXES))
    assert mine.status_code == 201
    over = await node.client.post(INBOXES)
    assert refused(over) == (429, "quota.inbox")
    assert int(over.headers["retry-after"]) > 29 * 86_400
    renewed = await node.client.post(INBOXES, json={"label": "x"}, headers=bearer(first["inbox_token"]))
    assert renewed.status_code == 200
    assert (await send_signed(node, signed("POST", INBOXES, {"label": "y"}))).status_code == 200
    await closed(node, first)
    await opened(node)


@pytest.mark.settings(
    max_in_flight=32, client_inboxes=1, limits=Limits(inbox_send=Limit(0, 1), inbox_sender=Limit(0, 1))
)
async def test_a_full_inbox_that_is_closed_frees_its_place_where_few_calls_may_be_under_way(
    node: NodeUnderTest,
) -> None:
    inbox = await opened(node)
    for client in (node.client_at("198.51.100.1"), node.client_at("198.51.100.2")):
        for _ in range(32):
            await sent(node, inbox, client)
    assert (await closed(node, inbox)).status_code == 200
    await opened(node)
