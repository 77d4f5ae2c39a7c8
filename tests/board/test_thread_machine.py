"""Threads against a model: after any actions in any order, they are what the rules say (SPEC 4.4, DESIGN 8)."""

from typing import Literal

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, MultipleResults, initialize, invariant, multiple, precondition, rule

from node.board.model import NewReply, NewThread, ThreadPageQuery, ThreadQuery, ThreadStatus
from node.board.store import BoardStore
from node.config import Limit, Settings
from node.sign.signed import UNSIGNED, Signed
from node.store.idempotency import IdempotencyKey, bound_key
from tests.board.board_on import board_on
from tests.support.machine import StoreMachine
from tests.support.node_under_test import SECRET
from tests.support.rates import Limited

THREADS = 3  # at most: lists still have an order, and each thread gets more steps
LIMIT = Limit(3, 60)
LIMIT_OF_POSTS = Limit(1000, 60)
QUOTA = 2  # threads of a client in a day
DAY = 86_400  # s
CLIENTS = st.sampled_from(["203.0.113.1", "203.0.113.2"])
KEYS = st.sampled_from([None, "first-secret-key", "other-secret-key"])  # long enough to be replayed at any time
SIGNERS = st.sampled_from([None, "ann", "bob"])
BODIES = st.sampled_from(["I can read it for you tomorrow morning.", "Nobody has answered this question yet."])
REMEMBERED = 300  # s for which an Idempotency-Key is remembered
STATUSES: tuple[ThreadStatus, ...] = ("open", "closed", "hidden")


class Model:
    """The expected state of a thread."""

    def __init__(
        self, thread_id: str, title: str, client: str, signer: str | None, asked: str | None, now: int
    ) -> None:
        self.id = thread_id
        self.title = title
        self.client = client
        self.signer = signer
        self.asked = asked
        """The Idempotency-Key of the post."""
        self.began = self.active = now
        self.status: ThreadStatus | None = "open"
        """None once the thread is purged."""
        self.was: ThreadStatus = "open"
        """Status of the thread before it was hidden."""
        self.replies: list[str] = []
        self.hidden: set[int] = set()
        """Numbers of hidden replies."""
        self.accepted: dict[str, list[int]] = {}
        self.keys: dict[tuple[str, str], tuple[str, int, int]] = {}

    @property
    def shown(self) -> bool:
        return self.status in ("open", "closed")

    def limited(self, client: str, now: int) -> bool:
        taken = [at for at in self.accepted.get(client, []) if at > now - LIMIT.seconds]
        self.accepted[client] = taken
        return len(taken) >= LIMIT.count


class ThreadMachine(StoreMachine):
    """Threads on an in-memory store, called through their service."""

    models: Bundle[Model] = Bundle("models")

    def __init__(self) -> None:
        super().__init__()
        self._all: list[Model] = []
        self._signatures = 0
        given = Settings(secret=SECRET, base_url="http://node.example")
        self._board = board_on(self.store, given, BoardStore(self.store, REMEMBERED))

    def signed(self, signer: str | None) -> Signed:
        """Return a signature that has not been used yet."""
        self._signatures += 1
        return Signed(signer, b'{"by":"test"}', f"r{self._signatures}") if signer else UNSIGNED

    @initialize(target=models, client=CLIENTS, signer=SIGNERS, key=KEYS)
    def begin(self, client: str, signer: str | None, key: str | None) -> Model | MultipleResults[Model]:
        return self.post(client, signer, key)

    @precondition(lambda self: len(self._all) < THREADS)
    @rule(target=models, client=CLIENTS, signer=SIGNERS, key=KEYS)
    def post_another(self, client: str, signer: str | None, key: str | None) -> Model | MultipleResults[Model]:
        return self.post(client, signer, key)

    def post(self, client: str, signer: str | None, key: str | None) -> Model | MultipleResults[Model]:
        title = f"Who can read report number {len(self._all)}?"
        lately = [model for model in self._all if model.client == client and model.began > self.now - DAY]
        made = self.attempt(
            lambda: self._board.post(
                Limited(client, LIMIT_OF_POSTS, QUOTA), self.wanted(title), self.signed(signer), self.asked(title, key)
            ),
            "quota.board" if len(lately) >= QUOTA else None,
        )
        if made is None:
            return multiple()
        thread, replayed = made
        assert not replayed
        assert thread.is_signed == (signer is not None)
        self._all.append(model := Model(thread.id, title, client, signer, key, self.now))
        return model

    def wanted(self, title: str) -> NewThread:
        return NewThread(title, "It has forty pages and many tables in it.")

    def asked(self, title: str, key: str | None) -> IdempotencyKey | None:
        return bound_key("thread", title, key, title.encode())

    @precondition(lambda self: any(model.asked for model in self._all))
    @rule(model=models)
    def post_again_under_the_same_key(self, model: Model) -> None:
        if model.asked is None or model.began + REMEMBERED <= self.now:
            return
        again = self.attempt(
            lambda: self._board.post(
                Limited(model.client, LIMIT_OF_POSTS, QUOTA),
                self.wanted(model.title),
                UNSIGNED,
                self.asked(model.title, model.asked),
            ),
            None if model.shown else "thread.unknown",
        )
        if again:
            thread, replayed = again
            assert (thread.id, thread.status, thread.reply_count, replayed) == (model.id, "open", 0, True)

    @rule(model=models, client=CLIENTS, body=BODIES, key=KEYS, signer=SIGNERS)
    def reply(self, model: Model, client: str, body: str, key: str | None, signer: str | None) -> None:
        wanted = bound_key(f"reply:{model.id}", client, key, body.encode())
        refusal, replayed_as = self.expected(model, client, body, key)
        rate = Limited(client, LIMIT)
        made = self.attempt(
            lambda: self._board.reply(rate, model.id, NewReply(body), self.signed(signer), wanted), refusal
        )
        if model.shown and refusal != "limit.exceeded":
            model.accepted[client].append(self.now)
        if made is None:
            return
        answer, replayed = made
        if replayed_as:
            assert (answer.seq, replayed) == (replayed_as, True)
            return
        model.replies.append(body)
        model.active = self.now
        assert (answer.seq, answer.body, replayed) == (len(model.replies), body, False)
        if key:
            model.keys[client, key] = (body, answer.seq, self.now)

    def expected(self, model: Model, client: str, body: str, key: str | None) -> tuple[str | None, int]:
        """Return the expected refusal of a reply or None, and the number of the earlier reply that is replayed or 0."""
        if not model.shown:
            return "thread.unknown", 0
        if model.limited(client, self.now):
            return "limit.exceeded", 0
        before = model.keys.get((client, key or ""))
        if before and before[2] + REMEMBERED > self.now:
            if before[0] != body:
                return "idempotency.conflict", 0
            return ("thread.unknown", 0) if before[1] in model.hidden else (None, before[1])
        return (None if model.status == "open" else "thread.closed"), 0

    @rule(model=models, signer=SIGNERS)
    def close(self, model: Model, signer: str | None) -> None:
        """Close a thread. Only its signer may."""
        if signer is None or (model.shown and signer != model.signer):
            refusal = "thread.signer"
        else:
            refusal = None if model.shown else "thread.unknown"
        if self.attempt(lambda: self._board.close(model.id, self.signed(signer)), refusal):
            model.status = "closed"

    @rule(model=models, status=st.sampled_from(["closed", "open"]))
    def moderate(self, model: Model, status: Literal["closed", "open"]) -> None:
        """Set a thread's status, as the operator. A hidden thread stays hidden, and gets the status once it is shown
        again.
        """
        self.attempt(
            lambda: self._board.moderation.set_status(model.id, status), None if model.status else "thread.unknown"
        )
        if model.status == "hidden":
            model.was = status
        elif model.status:
            model.status = status

    @rule(model=models, seq=st.integers(0, 3), hide=st.booleans())
    def hide(self, model: Model, seq: int, hide: bool) -> None:
        """Hide or show a thread, or a reply whatever the status of its thread, as the operator."""
        moderation = self._board.moderation
        known = model.status and seq <= len(model.replies)
        self.attempt(
            lambda: (moderation.hide if hide else moderation.show)(model.id, seq), None if known else "thread.unknown"
        )
        if not known:
            return
        if seq:
            (model.hidden.add if hide else model.hidden.discard)(seq)
        elif hide and model.status and model.status != "hidden":
            model.was, model.status = model.status, "hidden"
        elif not hide and model.status == "hidden":
            model.status = model.was

    @rule(model=models)
    def purge(self, model: Model) -> None:
        self.attempt(lambda: self._board.moderation.purge(model.id), None if model.status else "thread.unknown")
        model.status = None

    @rule(model=models, since=st.integers(0, 4), limit=st.integers(1, 2))
    def read(self, model: Model, since: int, limit: int) -> None:
        query = ThreadQuery(since_seq=since, limit=limit)
        thread = self.attempt(lambda: self._board.read(model.id, query), None if model.shown else "thread.unknown")
        if thread:
            page = list(enumerate(model.replies, 1))[since : since + limit]
            expected = [(seq, body) for seq, body in page if seq not in model.hidden]
            assert isinstance(thread.replies, list)
            assert [(reply.seq, reply.body) for reply in thread.replies] == expected
            assert thread.next_since_seq == (page[-1][0] if page else min(since, len(model.replies)))
            assert (thread.title, thread.status, thread.reply_count) == (
                model.title,
                model.status,
                len(model.replies) - len(model.hidden),
            )

    @rule(seconds=st.sampled_from([1, 59, 60, 300]))
    def wait(self, seconds: int) -> None:
        self.advance(seconds)

    @rule(model=models)
    def project(self, model: Model) -> None:
        """Update the lists, as the worker does for every event, however late."""
        self.run_step(self._board.project(model.id))

    @invariant()
    def every_list_has_its_threads_newest_activity_first(self) -> None:
        for status in STATUSES:
            expected = {model.id: model.active for model in self._all if model.status == status}
            found, total = self.run_step(self._board.moderation.list(status, 10, 0))
            assert {thread.id for thread in found} == expected.keys()
            assert total == len(expected)
            times = [expected[thread.id] for thread in found]
            assert times == sorted(times, reverse=True)
        page = self.run_step(self._board.page(ThreadPageQuery()))
        assert {thread.id for thread in page.threads} == {model.id for model in self._all if model.status == "open"}


TestThreads = ThreadMachine.TestCase
TestThreads.settings = settings(max_examples=25, stateful_step_count=30)
