"""Inboxes against a model: after any actions in any order, they are what the rules say (NETWORK 1)."""

from typing import Any, cast

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, initialize, invariant, rule

from node.callbacks.target_check import TargetCheck
from node.common.tokens import Tokens
from node.config import Limit, Settings
from node.inbox import message_store
from node.inbox.message_store import InboxMessageStore
from node.inbox.model import (
    InboxPageQuery,
    InboxProof,
    NewInbox,
    NewInboxMessage,
    OpenedInbox,
    ReceiptQuery,
    SentInboxMessage,
    Settlement,
)
from node.inbox.receipt_store import ReceiptStore
from node.inbox.service import Inboxes
from node.inbox.store import INBOX_LIFE_MS, QUOTA, InboxStore
from node.store import ids, keys
from node.store.idempotency import bound_key
from node.store.limits import LimitStore
from tests.inbox.calls import ADDRESS
from tests.support.machine import StoreMachine
from tests.support.node_under_test import SECRET
from tests.support.rates import Unlimited

CLIENTS = st.sampled_from(["203.0.113.1", "203.0.113.2"])
KEYS = st.sampled_from([None, None, "first-secret-key", "other-secret-key"])
BODIES = st.sampled_from(["a", "hello"])
LIVES = st.sampled_from([30, 60, 600, None])
TTL = 300  # s; lifetime of the inbox's messages
MOST_EACH = 3
REMEMBERED = 200  # s for which an Idempotency-Key is remembered
DAY = 86_400
WEEK = 7 * DAY
MONTH = 30 * DAY
OWNER = "203.0.113.9"
BY_KEY = InboxProof(signer=ADDRESS)

Status = str


class Message:
    """The expected state of a message."""

    def __init__(self, sent: SentInboxMessage, client: str, body: str, ends: int, opening: int) -> None:
        self.sent = sent
        self.client = client
        self.body = body
        self.ends = ends
        """When the message expires, unless it is settled before."""
        self.opening = opening
        """Number of the inbox's opening to which the message was sent."""
        self.was_read = False
        self.settled: tuple[Status, str | None] | None = None
        self.gone_at = ends + WEEK
        """When the receipt is deleted."""


class InboxMachine(StoreMachine):
    """One inbox proven by a key, on an in-memory store, called through its service."""

    messages: Bundle[Message] = Bundle("messages")

    def __init__(self) -> None:
        super().__init__()
        self._all: list[Message] = []
        given = Settings(secret=SECRET, base_url="http://node.example")
        self._most_each = message_store.MAX_HELD_EACH
        message_store.MAX_HELD_EACH = MOST_EACH
        self._limits = LimitStore(self.store)
        inboxes = InboxStore(self.store, self._limits, REMEMBERED)
        receipts = ReceiptStore(self.store)
        held = InboxMessageStore(self.store, inboxes, receipts, REMEMBERED)
        self._inboxes = Inboxes(
            inboxes, held, receipts, given, Tokens(SECRET), TargetCheck(given, self._limits.is_known)
        )
        self._opening = 0
        self._ends = 0
        """When the inbox ends unless its owner reads."""
        self._places: list[int] = []
        """When each of the inbox's places in its client's quota ends: the last place up to a day after the inbox, never
        before it.
        """
        self._tokens: list[OpenedInbox] = []
        """All issued tokens. The last one belongs to the current epoch, if the inbox is open."""
        self._seq = 0
        self._keys: dict[tuple[str, str], tuple[str, Message, int]] = {}

    def teardown(self) -> None:
        message_store.MAX_HELD_EACH = self._most_each
        super().teardown()

    @property
    def _is_open(self) -> bool:
        return self.now < self._ends

    def state(self, message: Message) -> Status:
        """Return the status that the receipt must show."""
        if message.settled:
            return message.settled[0]
        if message.ends <= self.now or not self._is_open or message.opening != self._opening:
            return "expired"
        return "read" if message.was_read else "queued"

    def held(self) -> list[Message]:
        return [message for message in self._all if self.state(message) in ("queued", "read")]

    def _stay(self) -> None:
        """Record that the owner has been there, at most once a minute."""
        if self._ends - self.now <= MONTH - 60:
            self._prolong()

    def _prolong(self) -> None:
        has_moved = self._ends < self.now + MONTH
        self._ends = self.now + MONTH
        # A place that ends in the same second as the inbox would end before it, because the store's clock is slightly
        # ahead.
        if has_moved and self._places[-1] <= self._ends:
            self._places[-1] = self._ends + DAY

    @initialize()
    def begin(self) -> None:
        self.open(rotate=False)

    @rule(rotate=st.booleans())
    def open(self, rotate: bool) -> None:
        place = None if self._is_open else self._place()
        opened, opening = self.run_step(
            self._inboxes.open(OWNER, place, NewInbox(ttl_seconds=TTL, rotate=rotate), BY_KEY, None)
        )
        assert opening.is_new != self._is_open
        assert opened.address == ADDRESS
        changes = rotate or not self._is_open
        if self._tokens:
            assert (opened.epoch != self._tokens[-1].epoch) == changes
        if self._is_open:
            self._prolong()
        else:
            self._opening += 1
            self._ends = self.now + MONTH
            self._places.append(self._ends)
        self._tokens.append(opened)

    def _place(self) -> str:
        quota, *_ = self.run_step(self._limits.take_quota(QUOTA, OWNER, Limit(0, 1), 0, INBOX_LIFE_MS, for_node=False))
        return quota.name

    @rule(is_signed=st.booleans())
    def close(self, is_signed: bool) -> None:
        proof = BY_KEY if is_signed else InboxProof(self._tokens[-1].inbox_token)
        self.attempt(lambda: self._inboxes.close(ADDRESS, proof), None if self._is_open else "inbox.unknown")
        if self._is_open:
            self._places.pop()
        self._ends = 0

    @rule(target=messages, client=CLIENTS, body=BODIES, key=KEYS, life=LIVES)
    def send(self, client: str, body: str, key: str | None, life: int | None) -> Any:
        new = NewInboxMessage(body=body, expires_in=life)
        asked = bound_key("inbox", client, key, f"{body} {life}".encode())
        before = self._keys.get((client, key or ""))
        known = before if before and before[2] + REMEMBERED > self.now else None
        refusal = None
        if not self._is_open:
            refusal = "inbox.unknown"
        elif known:
            refusal = None if known[0] == f"{body} {life}" else "idempotency.conflict"
        elif sum(message.client == client for message in self.held()) >= MOST_EACH:
            refusal = "inbox.full"
        answer = self.attempt(lambda: self._inboxes.send(Unlimited(client), ADDRESS, new, InboxProof(), asked), refusal)
        if answer is None:
            return self._all[0] if self._all else None
        sent, replayed = answer
        assert replayed == bool(known)
        if known:
            assert sent.id == known[1].sent.id
            return known[1]
        self._seq += 1
        assert sent.seq == self._seq, "numbers have no gaps, and none comes again when an inbox is opened anew"
        self._all.append(message := Message(sent, client, body, self.now + min(life or TTL, TTL), self._opening))
        if key:
            self._keys[client, key] = (f"{body} {life}", message, self.now)
        return message

    @rule(since=st.integers(0, 6), limit=st.integers(1, 3), is_signed=st.booleans())
    def read(self, since: int, limit: int, is_signed: bool) -> None:
        proof = BY_KEY if is_signed else InboxProof(self._tokens[-1].inbox_token)
        query = InboxPageQuery(since_seq=since, limit=limit)
        page = self.attempt(
            lambda: self._inboxes.read(ADDRESS, query, proof), None if self._is_open else "inbox.unknown"
        )
        if page is None:
            return
        self._stay()
        held = self.held()
        expected = [message for message in held if message.sent.seq > since][:limit]
        assert [(each.id, each.seq, each.body) for each in page.messages] == [
            (message.sent.id, message.sent.seq, message.body) for message in expected
        ]
        assert page.next_since_seq == (expected[-1].sent.seq if expected else min(since, self._seq))
        assert page.waiting == len(held)
        assert (page.bytes > 0) == (page.oldest_at is not None) == bool(held)
        for message in expected:
            message.was_read = True

    @rule(which=st.integers(0, 20))
    def read_with_an_old_token(self, which: int) -> None:
        token = self._tokens[which % len(self._tokens)]
        is_present = token.epoch == self._tokens[-1].epoch
        refusal = "inbox.unknown" if not self._is_open else None if is_present else "inbox.token"
        query = InboxPageQuery(since_seq=2**40)
        if self.attempt(lambda: self._inboxes.read(ADDRESS, query, InboxProof(token.inbox_token)), refusal):
            self._stay()

    @rule(
        message=messages,
        status=st.sampled_from(["done", "refused", "input_required"]),
        reply=st.sampled_from([None, "yes"]),
    )
    def settle(self, message: Message | None, status: Any, reply: str | None) -> None:
        if message is None:
            return
        state = self.state(message)
        refusal = None
        if not self._is_open:
            refusal = "inbox.unknown"
        elif message.gone_at <= self.now or state == "withdrawn":
            refusal = "receipt.unknown"
        elif state == "expired" or (message.settled and message.settled != (status, reply)):
            refusal = "inbox.settled"
        settlement = Settlement(status, reply)
        answer = self.attempt(lambda: self._inboxes.settle(ADDRESS, message.sent.id, settlement, BY_KEY), refusal)
        if answer:
            settled, is_repeated = answer
            assert (settled.seq, settled.status, is_repeated) == (message.sent.seq, status, message.settled is not None)
            self._end(message, (status, reply))

    @rule(through=st.integers(0, 8))
    def settle_through(self, through: int) -> None:
        answer = self.attempt(
            lambda: self._inboxes.settle_through(ADDRESS, through, BY_KEY), None if self._is_open else "inbox.unknown"
        )
        ended = [message for message in self.held() if message.sent.seq <= through]
        if answer:
            assert answer.settled == len(ended)
            for message in ended:
                self._end(message, ("done", None))

    @rule(message=messages)
    def withdraw(self, message: Message | None) -> None:
        if message is None:
            return
        state = self.state(message)
        refusal = None if state in ("queued", "read", "withdrawn") else "inbox.settled"
        if message.gone_at <= self.now:
            refusal = "receipt.unknown"
        proof = InboxProof(message.sent.receipt_token)
        if self.attempt(lambda: self._inboxes.withdraw(ADDRESS, message.sent.id, proof), refusal):
            self._end(message, ("withdrawn", None))

    def _end(self, message: Message, settled: tuple[Status, str | None]) -> None:
        if message.settled is None:
            message.settled = settled
            message.gone_at = self.now + WEEK

    @rule(seconds=st.sampled_from([1, 29, 30, 60, 300, DAY // 2, WEEK, 3 * WEEK]))
    def wait(self, seconds: int) -> None:
        self.advance(seconds)

    @invariant()
    def every_sender_sees_how_far_its_message_is(self) -> None:
        for message in self._all:
            proof = InboxProof(message.sent.receipt_token)
            receipt = self.attempt(
                lambda message=message, proof=proof: self._inboxes.receipt(
                    ADDRESS, message.sent.id, ReceiptQuery(), proof
                ),
                "receipt.unknown" if message.gone_at <= self.now else None,
            )
            if receipt:
                assert receipt.status == self.state(message)
                assert receipt.reply == (message.settled[1] if message.settled else None)

    @invariant()
    def it_has_its_place_among_those_of_its_client(self) -> None:
        place = keys.places(ids.home_of(OWNER), QUOTA, OWNER)
        listed = cast("list[bytes]", self.run_step(self.store.command("ZRANGE", place, 0, -1, "WITHSCORES")))
        left = [round(float(end) / 1000 - self._clock.time()) for end in listed[1::2]]
        assert [each for each in left if each > 0] == [each - self.now for each in self._places if each > self.now]
        assert not self._is_open or self._places[-1] >= self._ends

    @invariant()
    def a_closed_inbox_leaves_its_counter_and_the_receipts(self) -> None:
        kinds = {name.split(b":")[0] for name in cast("list[bytes]", self.run_step(self.store.command("KEYS", "*")))}
        if not self._is_open:
            assert kinds <= {b"inbox-seq", b"inbox-receipt", b"idem", b"events", b"held"}


TestInboxes = InboxMachine.TestCase
TestInboxes.settings = settings(max_examples=40, stateful_step_count=30)
