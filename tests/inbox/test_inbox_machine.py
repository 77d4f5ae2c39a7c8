"""Inboxes against a model: whatever is done in whatever order, they are what the rules say (NETWORK 1)."""

from typing import Any, cast

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, initialize, invariant, rule

from node.callbacks.policy import TargetPolicy
from node.common.tokens import Tokens
from node.config import Settings
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
from node.inbox.service import Inboxes
from node.inbox.store import InboxStore
from node.inbox.task_store import InboxTaskStore
from node.inbox.tasks import InboxTasks
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
TTL = 300  # s, of the messages of the inbox
MOST_EACH = 3
REMEMBERED = 200  # s an Idempotency-Key is
WEEK = 7 * 86_400
MONTH = 30 * 86_400
BY_KEY = InboxProof(signer=ADDRESS)

Status = str


class Letter:
    """What a message must be."""

    def __init__(self, sent: SentInboxMessage, client: str, body: str, ends: int, opening: int) -> None:
        self.sent = sent
        self.client = client
        self.body = body
        self.ends = ends
        """When it expires, if nothing is done."""
        self.opening = opening
        """The number of the opening of the inbox in which it was sent."""
        self.was_read = False
        self.settled: tuple[Status, str | None] | None = None
        self.gone_at = ends + WEEK
        """When its receipt is gone."""


class InboxMachine(StoreMachine):
    """One inbox of a key in memory, through its service."""

    letters: Bundle[Letter] = Bundle("letters")

    def __init__(self) -> None:
        super().__init__()
        self._all: list[Letter] = []
        given = Settings(secret=SECRET, base_url="http://node.example")
        self._most_each = message_store.MAX_HELD_EACH
        message_store.MAX_HELD_EACH = MOST_EACH
        inboxes = InboxStore(self.store, LimitStore(self.store), REMEMBERED)
        held = InboxMessageStore(self.store, inboxes, REMEMBERED)
        tasks = InboxTasks(InboxTaskStore(self.store, held), held, Tokens(SECRET))
        self._inboxes = Inboxes(inboxes, held, tasks, given, Tokens(SECRET), TargetPolicy(given))
        self._opening = 0
        self._ends = 0
        """When the inbox ends if its owner stays away."""
        self._tokens: list[OpenedInbox] = []
        """All that were given; the last one is that of the present epoch, if the inbox is open."""
        self._seq = 0
        self._keys: dict[tuple[str, str], tuple[str, Letter, int]] = {}

    def teardown(self) -> None:
        message_store.MAX_HELD_EACH = self._most_each
        super().teardown()

    @property
    def _is_open(self) -> bool:
        return self.now < self._ends

    def state(self, letter: Letter) -> Status:
        """What the receipt must say."""
        if letter.settled:
            return letter.settled[0]
        if letter.ends <= self.now or not self._is_open or letter.opening != self._opening:
            return "expired"
        return "read" if letter.was_read else "queued"

    def held(self) -> list[Letter]:
        return [letter for letter in self._all if self.state(letter) in ("queued", "read")]

    def _stay(self) -> None:
        """The owner was there, which is noted once a minute."""
        if self._ends - self.now <= MONTH - 60:
            self._ends = self.now + MONTH

    @initialize()
    def begin(self) -> None:
        self.open(rotate=False)

    @rule(rotate=st.booleans())
    def open(self, rotate: bool) -> None:
        opened, opening = self.run_step(
            self._inboxes.open("203.0.113.9", "", NewInbox(ttl_seconds=TTL, rotate=rotate), BY_KEY, None)
        )
        assert opening.is_new != self._is_open
        assert opened.address == ADDRESS
        changes = rotate or not self._is_open
        if self._tokens:
            assert (opened.epoch != self._tokens[-1].epoch) == changes
        if not self._is_open:
            self._opening += 1
        self._ends = self.now + MONTH
        self._tokens.append(opened)

    @rule(is_signed=st.booleans())
    def close(self, is_signed: bool) -> None:
        proof = BY_KEY if is_signed else InboxProof(self._tokens[-1].inbox_token)
        self.attempt(lambda: self._inboxes.close(ADDRESS, proof), None if self._is_open else "inbox.unknown")
        self._ends = 0

    @rule(target=letters, client=CLIENTS, body=BODIES, key=KEYS, life=LIVES)
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
        elif sum(letter.client == client for letter in self.held()) >= MOST_EACH:
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
        self._all.append(letter := Letter(sent, client, body, self.now + min(life or TTL, TTL), self._opening))
        if key:
            self._keys[client, key] = (f"{body} {life}", letter, self.now)
        return letter

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
        expected = [letter for letter in held if letter.sent.seq > since][:limit]
        assert [(each.id, each.seq, each.body) for each in page.messages] == [
            (letter.sent.id, letter.sent.seq, letter.body) for letter in expected
        ]
        assert page.next_since_seq == (expected[-1].sent.seq if expected else min(since, self._seq))
        assert page.waiting == len(held)
        assert (page.bytes > 0) == (page.oldest_at is not None) == bool(held)
        for letter in expected:
            letter.was_read = True

    @rule(which=st.integers(0, 20))
    def read_with_an_old_token(self, which: int) -> None:
        token = self._tokens[which % len(self._tokens)]
        is_present = token.epoch == self._tokens[-1].epoch
        refusal = "inbox.unknown" if not self._is_open else None if is_present else "inbox.token"
        query = InboxPageQuery(since_seq=2**40)
        if self.attempt(lambda: self._inboxes.read(ADDRESS, query, InboxProof(token.inbox_token)), refusal):
            self._stay()

    @rule(
        letter=letters,
        status=st.sampled_from(["done", "refused", "input_required"]),
        reply=st.sampled_from([None, "yes"]),
    )
    def settle(self, letter: Letter | None, status: Any, reply: str | None) -> None:
        if letter is None:
            return
        state = self.state(letter)
        refusal = None
        if not self._is_open:
            refusal = "inbox.unknown"
        elif letter.gone_at <= self.now or state == "withdrawn":
            refusal = "receipt.unknown"
        elif state == "expired" or (letter.settled and letter.settled != (status, reply)):
            refusal = "inbox.settled"
        settlement = Settlement(status, reply)
        answer = self.attempt(lambda: self._inboxes.settle(ADDRESS, letter.sent.id, settlement, BY_KEY), refusal)
        if answer:
            assert (answer.seq, answer.status) == (letter.sent.seq, status)
            self._end(letter, (status, reply))

    @rule(through=st.integers(0, 8))
    def settle_through(self, through: int) -> None:
        answer = self.attempt(
            lambda: self._inboxes.settle_through(ADDRESS, through, BY_KEY), None if self._is_open else "inbox.unknown"
        )
        ended = [letter for letter in self.held() if letter.sent.seq <= through]
        if answer:
            assert answer.settled == len(ended)
            for letter in ended:
                self._end(letter, ("done", None))

    @rule(letter=letters)
    def withdraw(self, letter: Letter | None) -> None:
        if letter is None:
            return
        state = self.state(letter)
        refusal = None if state in ("queued", "read", "withdrawn") else "inbox.settled"
        if letter.gone_at <= self.now:
            refusal = "receipt.unknown"
        proof = InboxProof(letter.sent.receipt_token)
        if self.attempt(lambda: self._inboxes.withdraw(ADDRESS, letter.sent.id, proof), refusal):
            self._end(letter, ("withdrawn", None))

    def _end(self, letter: Letter, settled: tuple[Status, str | None]) -> None:
        if letter.settled is None:
            letter.settled = settled
            letter.gone_at = self.now + WEEK

    @rule(seconds=st.sampled_from([1, 29, 30, 60, 300, WEEK, 3 * WEEK]))
    def wait(self, seconds: int) -> None:
        self.advance(seconds)

    @invariant()
    def every_sender_sees_how_far_its_message_is(self) -> None:
        for letter in self._all:
            proof = InboxProof(letter.sent.receipt_token)
            receipt = self.attempt(
                lambda letter=letter, proof=proof: self._inboxes.receipt(
                    ADDRESS, letter.sent.id, ReceiptQuery(), proof
                ),
                "receipt.unknown" if letter.gone_at <= self.now else None,
            )
            if receipt:
                assert receipt.status == self.state(letter)
                assert receipt.reply == (letter.settled[1] if letter.settled else None)

    @invariant()
    def a_closed_inbox_leaves_its_counter_and_the_receipts(self) -> None:
        kinds = {name.split(b":")[0] for name in cast("list[bytes]", self.run_step(self.store.command("KEYS", "*")))}
        if not self._is_open:
            assert kinds <= {b"inbox-seq", b"inbox-receipt", b"idem", b"events"}


TestInboxes = InboxMachine.TestCase
TestInboxes.settings = settings(max_examples=40, stateful_step_count=30)
