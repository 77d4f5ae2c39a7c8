"""The exact millisecond in which a message expires: from then on, everybody is told so, and its place is free."""

import pytest
import pytest_asyncio

from node.callbacks.target_check import TargetCheck
from node.common.refusal import Refused
from node.common.tokens import Tokens
from node.config import Settings
from node.inbox import message_store
from node.inbox.message_store import InboxMessageStore
from node.inbox.model import (
    InboxPage,
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
from node.inbox.store import INBOX_LIFE_MS, LAST_SEQ_KEPT_MS, InboxStore
from node.store import keys
from node.store.limits import LimitStore
from tests.inbox.calls import ADDRESS
from tests.support.fake_store import Clock, FakeStore
from tests.support.node_under_test import SECRET
from tests.support.rates import Unlimited

OWNER = InboxProof(signer=ADDRESS)
CLIENT = "203.0.113.1"
ONE_MILLISECOND = 0.001
HALF_A_MILLISECOND = 0.0005


@pytest_asyncio.fixture
async def store(clock: Clock) -> FakeStore:
    return FakeStore()


@pytest_asyncio.fixture
async def inboxes(store: FakeStore) -> Inboxes:
    """The service, with one open inbox."""
    given, tokens = Settings(secret=SECRET, base_url="http://node.example"), Tokens(SECRET)
    stored, receipts = InboxStore(store, LimitStore(store), 60), ReceiptStore(store)
    messages = InboxMessageStore(store, stored, receipts, 60)
    inboxes = Inboxes(stored, messages, receipts, given, tokens, TargetCheck(given, LimitStore(store).is_known))
    await inboxes.open("203.0.113.9", "", NewInbox(), OWNER, None)
    return inboxes


async def sent(inboxes: Inboxes, seconds: int, client: str = CLIENT) -> SentInboxMessage:
    """Send a message that expires after this many seconds."""
    new = NewInboxMessage(body="Hello", expires_in=seconds)
    return (await inboxes.send(Unlimited(client), ADDRESS, new, InboxProof(), None))[0]


async def page(inboxes: Inboxes) -> InboxPage:
    return await inboxes.read(ADDRESS, InboxPageQuery(), OWNER)


async def full_for(inboxes: Inboxes, client: str = CLIENT) -> float:
    """Check that the inbox is full, and return the seconds until there is room again."""
    with pytest.raises(Refused, match=r"inbox\.full") as refused:
        await sent(inboxes, 60, client)
    assert refused.value.retry_after is not None
    return refused.value.retry_after


async def test_a_message_is_held_until_the_millisecond_in_which_it_expires_and_not_in_it(
    clock: Clock, inboxes: Inboxes
) -> None:
    async def held() -> tuple[int, list[str], int]:
        """Return the number of messages counted, the ids that the owner reads, and the number shown to the operator."""
        read = await page(inboxes)
        return read.waiting, [each.id for each in read.messages], (await inboxes.usage(ADDRESS)).waiting

    first, second = await sent(inboxes, 30), await sent(inboxes, 60)
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

    clock.advance(ONE_MILLISECOND)
    assert await held() == (1, [second.id], 1)


async def test_the_place_of_a_message_is_free_from_the_millisecond_in_which_it_expires(
    clock: Clock, store: FakeStore, inboxes: Inboxes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_store, "MAX_HELD_EACH", 2)
    await sent(inboxes, 60)
    await sent(inboxes, 30)
    clock.advance(30 - ONE_MILLISECOND)
    assert await full_for(inboxes) == ONE_MILLISECOND
    clock.advance(ONE_MILLISECOND)
    await sent(inboxes, 60)
    assert await full_for(inboxes) == 30
    assert await store.command("ZCARD", keys.inbox_ends(ADDRESS)) == 2
    assert await store.command("XLEN", keys.inbox_messages(ADDRESS)) == 2


async def test_who_finds_an_inbox_full_of_others_messages_waits_until_the_first_expires(
    clock: Clock, inboxes: Inboxes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_store, "MAX_HELD", 2)
    await sent(inboxes, 60)
    await sent(inboxes, 30)
    assert await full_for(inboxes, "203.0.113.2") == 30


async def test_an_inbox_is_full_to_the_byte(inboxes: Inboxes, monkeypatch: pytest.MonkeyPatch) -> None:
    await sent(inboxes, 60)
    size = (await page(inboxes)).bytes
    monkeypatch.setattr(message_store, "MAX_HELD_BYTES", 2 * size)
    await sent(inboxes, 60)
    for most, accepting in ((2 * size + 1, True), (2 * size, False)):
        monkeypatch.setattr("node.inbox.store.MAX_HELD_BYTES", most)
        assert (await inboxes.get(ADDRESS)).accepting is accepting
    monkeypatch.setattr(message_store, "MAX_HELD_BYTES", 3 * size - 1)
    assert await full_for(inboxes) == 60


async def test_a_message_that_ends_before_the_oldest_leaves_it(clock: Clock, inboxes: Inboxes) -> None:
    await sent(inboxes, 60)
    clock.advance(ONE_MILLISECOND)
    await sent(inboxes, 30)
    read = await page(inboxes)
    assert read.oldest_at == read.messages[0].sent_at < read.messages[1].sent_at
    clock.advance(30 + ONE_MILLISECOND)
    later = await page(inboxes)
    assert (later.waiting, later.messages, later.oldest_at) == (1, read.messages[:1], read.oldest_at)


async def test_an_inbox_that_has_ended_by_itself_goes_on_counting_for_a_year(clock: Clock, inboxes: Inboxes) -> None:
    for number, pause in ((1, INBOX_LIFE_MS + LAST_SEQ_KEPT_MS - 1), (2, INBOX_LIFE_MS + LAST_SEQ_KEPT_MS + 1), (1, 0)):
        assert (await sent(inboxes, 60)).seq == number
        clock.advance(pause / 1000)
        await inboxes.open("203.0.113.9", "", NewInbox(), OWNER, None)


async def test_a_page_is_full_and_no_fuller_though_messages_before_it_have_expired(
    clock: Clock, inboxes: Inboxes
) -> None:
    for seconds in (30, 60, 60, 60):
        await sent(inboxes, seconds)
    clock.advance(31)
    read = await inboxes.read(ADDRESS, InboxPageQuery(limit=2), OWNER)
    assert ([each.seq for each in read.messages], read.next_since_seq, read.waiting) == ([2, 3], 3, 3)


async def test_nobody_takes_back_a_message_whose_receipt_has_ended(clock: Clock, inboxes: Inboxes) -> None:
    message = await sent(inboxes, 30)
    clock.advance(30 + message_store.RECEIPT_MS / 1000 + ONE_MILLISECOND)
    with pytest.raises(Refused, match=r"receipt\.unknown"):
        await inboxes.withdraw(ADDRESS, message.id, InboxProof(token=message.receipt_token))


async def test_an_owner_who_is_there_after_the_end_of_an_inbox_does_not_bring_it_back(
    clock: Clock, store: FakeStore, inboxes: Inboxes
) -> None:
    stored = InboxStore(store, LimitStore(store), 60)
    clock.advance(INBOX_LIFE_MS / 1000 + ONE_MILLISECOND)
    with pytest.raises(Refused, match=r"inbox\.unknown"):
        await stored.prolong(ADDRESS)
    assert await store.command("EXISTS", keys.inbox(ADDRESS)) == 0


async def test_the_counter_of_a_closed_inbox_is_kept_for_its_time_and_no_longer(
    clock: Clock, store: FakeStore, inboxes: Inboxes
) -> None:
    await inboxes.close(ADDRESS, OWNER)
    clock.advance(LAST_SEQ_KEPT_MS / 1000 - ONE_MILLISECOND)
    assert await store.command("EXISTS", keys.inbox_last_seq(ADDRESS)) == 1
    clock.advance(2 * ONE_MILLISECOND)
    assert await store.command("EXISTS", keys.inbox_last_seq(ADDRESS)) == 0
