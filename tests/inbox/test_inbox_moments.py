"""The very millisecond in which a message expires: from it on, everybody is told that it has."""

from collections.abc import Iterator

import pytest

from node.callbacks.policy import TargetPolicy
from node.common.refusal import Refused
from node.common.tokens import Tokens
from node.config import Settings
from node.inbox.message_store import InboxMessageStore
from node.inbox.model import (
    InboxPageQuery,
    InboxProof,
    NewInbox,
    NewInboxMessage,
    ReceiptQuery,
    SentInboxMessage,
    Settlement,
)
from node.inbox.receipt_store import ReceiptStore
from node.inbox.service import Inboxes
from node.inbox.store import InboxStore
from node.store.limits import LimitStore
from tests.inbox.calls import ADDRESS
from tests.support.fake_store import Clock, FakeStore
from tests.support.node_under_test import SECRET
from tests.support.rates import Unlimited

OWNER = InboxProof(signer=ADDRESS)
HALF_A_MILLISECOND = 0.0005


@pytest.fixture
def clock() -> Iterator[Clock]:
    with Clock.at_a_whole_second() as clock:
        yield clock


async def test_a_message_is_held_until_the_millisecond_in_which_it_expires_and_not_in_it(clock: Clock) -> None:
    store, given, tokens = FakeStore(), Settings(secret=SECRET, base_url="http://node.example"), Tokens(SECRET)
    stored = InboxStore(store, LimitStore(store), 60)
    receipts = ReceiptStore(store)
    messages = InboxMessageStore(store, stored, receipts, 60)
    inboxes = Inboxes(stored, messages, receipts, given, tokens, TargetPolicy(given))
    await inboxes.open("203.0.113.9", "", NewInbox(), OWNER, None)

    async def sent(seconds: int) -> SentInboxMessage:
        new = NewInboxMessage(body="Hello", expires_in=seconds)
        return (await inboxes.send(Unlimited("203.0.113.1"), ADDRESS, new, InboxProof(), None))[0]

    async def held() -> tuple[int, list[str], int]:
        """Messages that are counted, that the owner reads, and that the operator is told of."""
        page = await inboxes.read(ADDRESS, InboxPageQuery(), OWNER)
        return page.waiting, [each.id for each in page.messages], (await inboxes.usage(ADDRESS)).waiting

    first, second = await sent(30), await sent(60)
    sender = InboxProof(token=first.receipt_token)
    clock.advance(30 - HALF_A_MILLISECOND)
    assert await held() == (2, [first.id, second.id], 2)
    assert (await inboxes.receipt(ADDRESS, first.id, ReceiptQuery(), sender)).status == "read"

    clock.advance(HALF_A_MILLISECOND)
    assert await held() == (1, [second.id], 1)
    assert (await inboxes.receipt(ADDRESS, first.id, ReceiptQuery(), sender)).status == "expired"
    assert (await inboxes.settle_through(ADDRESS, first.seq, OWNER)).settled == 0
    with pytest.raises(Refused, match=r"inbox\.settled"):
        await inboxes.settle(ADDRESS, first.id, Settlement("done"), OWNER)
    with pytest.raises(Refused, match=r"inbox\.settled"):
        await inboxes.withdraw(ADDRESS, first.id, sender)
