"""The very millisecond in which a message expires: from it on, everybody is told that it has."""

from collections.abc import Iterator

import pytest

from node.common.refusal import Refused
from node.inbox.message_store import InboxMessageStore
from node.inbox.model import InboxProof, NewInboxMessage
from node.inbox.sending import Sending
from node.inbox.store import QUOTA, InboxStore
from node.store.limits import LimitStore, Quota
from tests.inbox.calls import ADDRESS
from tests.support.fake_store import Clock, FakeStore
from tests.support.rates import Unlimited

OWNER = "*"
HALF_A_MILLISECOND = 0.0005


@pytest.fixture
def clock() -> Iterator[Clock]:
    clock = Clock()
    clock.advance(-(clock.time() % 1))  # a whole second, so that milliseconds are exact
    with clock.installed():
        yield clock


async def test_a_message_is_held_until_the_millisecond_in_which_it_expires_and_not_in_it(clock: Clock) -> None:
    store = FakeStore()
    inboxes = InboxStore(store, LimitStore(store), 60)
    messages = InboxMessageStore(store, inboxes, 60)
    place = Quota(QUOTA, "203.0.113.9", "")
    await inboxes.open(ADDRESS, OWNER, "e", {}, rotate=False, place=place, replay_id="", idempotency=None)

    async def sent(seconds: int) -> str:
        new = NewInboxMessage(body="Hello", expires_in=seconds)
        return (await messages.send(Sending.of(ADDRESS, new, InboxProof(), None), Unlimited("203.0.113.1"))).id

    async def held() -> tuple[int, list[bytes], int]:
        """Messages that are counted, that the owner reads, and that anybody is told of."""
        page = await messages.read(ADDRESS, OWNER, 0, 10)
        return page.waiting, [each.fields[b"id"] for each in page.messages], (await inboxes.show(ADDRESS)).waiting

    first, second = await sent(30), await sent(60)
    clock.advance(30 - HALF_A_MILLISECOND)
    assert await held() == (2, [first.encode(), second.encode()], 2)
    receipt = await messages.receipt(ADDRESS, first)
    assert receipt
    assert receipt.status == "queued"

    clock.advance(HALF_A_MILLISECOND)
    assert await held() == (1, [second.encode()], 1)
    receipt = await messages.receipt(ADDRESS, first)
    assert receipt
    assert receipt.status == "expired"
    assert await messages.settle_through(ADDRESS, OWNER, 1, "") == 0
    for end in (messages.settle(ADDRESS, first, OWNER, "done", "", ()), messages.withdraw(ADDRESS, first)):
        with pytest.raises(Refused, match=r"inbox\.settled"):
            await end
