"""Changes of an inbox between two steps of one request (NETWORK 1)."""

import asyncio
from collections.abc import Iterable
from typing import cast

import pytest

from node.inbox.model import InboxProof
from node.inbox.service import Inboxes
from node.inbox.steps import MessageKeys, inbox_mark
from node.inbox.store import INBOX_LIFE_MS
from node.store import RedisReply, Store, keys
from node.store.store import Wanted
from tests.inbox.calls import ADDRESS, INBOXES, Json, bearer, members, opened, path_of, read, send_signed, sent, signed
from tests.support.answers import refused
from tests.support.node_under_test import NodeUnderTest


async def test_who_loses_the_right_to_settle_while_settling_is_told_so(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    inbox = await opened(node)
    await sent(node, inbox)
    owner = bearer(inbox["inbox_token"])

    async def rotated_before(store: Store, many: Iterable[Wanted]) -> list[RedisReply]:
        monkeypatch.undo()
        inbox.update((await node.client.post(INBOXES, json={"rotate": True}, headers=owner)).json())
        return await store.run_all(many)

    monkeypatch.setattr(Store, "run_all", rotated_before)
    through = await node.client.post(path_of(inbox, "/settle"), json={"through_seq": 1}, headers=owner)
    assert refused(through) == (403, "inbox.token")
    assert (await read(node, inbox))["waiting"] == 1


async def test_messages_of_an_inbox_that_is_closed_while_they_are_settled_are_gone(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    inbox = await opened(node)
    await sent(node, inbox)
    owner = bearer(inbox["inbox_token"])

    async def closed_before(store: Store, many: Iterable[Wanted]) -> list[RedisReply]:
        monkeypatch.undo()
        await node.client.delete(path_of(inbox), headers=owner)
        return await store.run_all(many)

    monkeypatch.setattr(Store, "run_all", closed_before)
    through = await node.client.post(path_of(inbox, "/settle"), json={"through_seq": 1}, headers=owner)
    assert refused(through) == (404, "inbox.unknown")


async def test_an_inbox_that_is_closed_while_its_key_renews_it_is_not_opened_without_a_place_in_the_quota(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    opening = signed("POST", INBOXES)
    assert (await send_signed(node, opening)).status_code == 201
    is_renewal = Inboxes.is_renewal

    async def closed_after(self: Inboxes, proof: InboxProof) -> bool:
        monkeypatch.undo()
        was_there = await is_renewal(self, proof)
        await send_signed(node, signed("DELETE", f"{INBOXES}/{ADDRESS}"))
        return was_there

    monkeypatch.setattr(Inboxes, "is_renewal", closed_after)
    assert refused(await send_signed(node, signed("POST", INBOXES))) == (404, "inbox.unknown")
    assert (await send_signed(node, signed("POST", INBOXES))).status_code == 201
    (place,) = await node.names("held:*:inbox:203.0.113.7")
    assert len(await members(node, place)) == 1


async def marked(node: NodeUnderTest, inbox: Json, message: Json) -> RedisReply:
    """Return the reply of the step that records that a message was read."""
    return await node.store.run(inbox_mark(message=MessageKeys.of(inbox["address"], message["id"])))


async def test_a_message_that_expires_while_it_is_read_is_not_marked_after_its_end(node: NodeUnderTest) -> None:
    """Otherwise push notifications say that the message is being worked on after they said that it has failed."""
    inbox = await opened(node)
    message = await sent(node, inbox)
    ends = keys.inbox_ends(inbox["address"])
    [(place, _)] = await members(node, ends)
    await node.store.command("ZADD", ends, 1, place)
    assert await marked(node, inbox, message) == [b"known"]
    receipt = keys.inbox_receipt(inbox["address"], message["id"])
    assert await node.store.command("HGET", receipt, "status") == b"queued"


async def test_a_message_that_two_reads_give_at_once_is_marked_by_one(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    message = await sent(node, inbox)
    first, second = await asyncio.gather(*(marked(node, inbox, message) for _ in range(2)))
    assert (first, second) == ([b"marked"], [b"known"])


@pytest.mark.parametrize("asks", ["reads", "renews", "renews with a key"])
async def test_an_inbox_never_outlives_its_place_in_the_quota_whoever_dies_while_prolonging_both(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch, asks: str
) -> None:
    inbox = await opened(node)
    key, owner = keys.inbox(inbox["address"]), bearer(inbox["inbox_token"])
    (place,) = await node.names("held:*:inbox:203.0.113.7")
    [(name, opened_until)] = await members(node, place)
    half_over = opened_until - INBOX_LIFE_MS // 2
    await node.store.command("ZADD", place, half_over, name)
    await node.store.command("HSET", key, "held_until", half_over, "ends_at", half_over, "seen", 1)

    async def ask() -> None:
        if asks == "reads":
            await node.store.command("HSET", key, "seen", 1)
            await read(node, inbox)
        else:
            headers = {"idempotency-key": "the same request"} if asks == "renews with a key" else {}
            renewed = await node.client.post(INBOXES, json={"label": "desk"}, headers=owner | headers)
            assert renewed.status_code == 200, renewed.text

    async def ends() -> tuple[int, int]:
        [(_, place_ends)] = await members(node, place)
        return int(cast("bytes", await node.store.command("HGET", key, "ends_at"))), place_ends

    async def dies(*_: object) -> None:
        raise asyncio.CancelledError

    with monkeypatch.context() as dying:
        dying.setattr("node.store.limits.LimitStore.extend", dies)
        with pytest.raises(asyncio.CancelledError):
            await ask()
    inbox_ends, place_ends = await ends()
    assert inbox_ends == place_ends == half_over
    await ask()
    inbox_ends, place_ends = await ends()
    assert opened_until <= inbox_ends <= place_ends
