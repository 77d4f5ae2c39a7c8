"""Sessions against a model: after any actions in any order, they are what the rules say (SPEC 4.5, DESIGN 8)."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, initialize, invariant, precondition, rule

from node.callbacks.target_check import TargetCheck
from node.common.tokens import Tokens
from node.config import Limit, Settings
from node.sessions.model import NewLine, NewSession, PollQuery
from node.sessions.service import Sessions
from node.sessions.store import SessionStore
from node.store.idempotency import bound_key
from node.store.limits import LimitStore
from tests.support.machine import StoreMachine
from tests.support.node_under_test import SECRET
from tests.support.rates import Limited

SESSIONS = 2  # at most: two can still interfere with each other, and each gets more steps
MAX_LINES = 6
MAX_BYTES = 60
LIMIT = Limit(4, 60)
OPENER = "203.0.113.1"
CLIENTS = st.sampled_from(["203.0.113.1", "203.0.113.2"])
KEYS = st.sampled_from([None, "first-secret-key", "other-secret-key"])  # long enough to be replayed at any time
BODIES = st.sampled_from(["a", "hello", "x" * 25])
REMEMBERED = 300  # s for which an Idempotency-Key is remembered


class Model:
    """The expected state of a session."""

    def __init__(self, session_id: str, token: str, epoch: str, ends: int) -> None:
        self.id = session_id
        self.token = token
        self.epoch = epoch
        self.ends = ends
        self.destroyed = False
        self.lines: list[str] = []
        self.accepted: dict[str, list[int]] = {}
        """Times of the requests that counted against the limit, by client."""
        self.keys: dict[tuple[str, str], tuple[str, int, int]] = {}
        """Body, sequence number and time of the line sent under each client and key."""

    def gone(self, now: int) -> bool:
        return self.destroyed or self.ends <= now

    def limited(self, client: str, now: int) -> bool:
        taken = [at for at in self.accepted.get(client, []) if at > now - LIMIT.seconds]
        self.accepted[client] = taken
        return len(taken) >= LIMIT.count

    def full(self, body: str) -> bool:
        return len(self.lines) >= MAX_LINES or sum(map(len, self.lines)) + len(body) > MAX_BYTES


class SessionMachine(StoreMachine):
    """Sessions on an in-memory store, called through their service."""

    models: Bundle[Model] = Bundle("models")

    def __init__(self) -> None:
        super().__init__()
        self._all: list[Model] = []
        given = Settings(secret=SECRET, base_url="http://node.example")
        lines = SessionStore(self.store, REMEMBERED, MAX_LINES, MAX_BYTES)
        self._sessions = Sessions(lines, given, Tokens(SECRET), TargetCheck(given, LimitStore(self.store).is_known))

    @initialize(target=models, ttl=st.sampled_from([60, 600]))
    def begin(self, ttl: int) -> Model:
        return self.open(ttl, None)

    @precondition(lambda self: len(self._all) < SESSIONS)
    @rule(target=models, ttl=st.sampled_from([60, 600]), key=KEYS)
    def open_another(self, ttl: int, key: str | None) -> Model:
        return self.open(ttl, key)

    def open(self, ttl: int, key: str | None) -> Model:
        """Open a session, and return its model. Opening it again under its key returns the same session."""
        wanted = NewSession(ttl_seconds=ttl, label="notes")
        asked = bound_key("session", str(len(self._all)), key, str(ttl).encode())
        session, replayed = self.run_step(self._sessions.create(OPENER, "", wanted, asked))
        assert not replayed
        if asked:
            again, replayed = self.run_step(self._sessions.create(OPENER, "", wanted, asked))
            assert replayed
            assert again == session
            other = bound_key("session", str(len(self._all)), key, b"another body")
            self.attempt(lambda: self._sessions.create(OPENER, "", wanted, other), "idempotency.conflict")
        epoch = self.run_step(self._sessions.poll(session.session_id, PollQuery())).epoch
        self._all.append(model := Model(session.session_id, session.destroy_token, epoch, self.now + ttl))
        return model

    @rule(model=models, client=CLIENTS, body=BODIES, key=KEYS)
    def send(self, model: Model, client: str, body: str, key: str | None) -> None:
        wanted = bound_key(f"line:{model.id}", client, key, body.encode())
        refusal, replayed_as = self.expected(model, client, body, key)
        sent = self.attempt(
            lambda: self._sessions.send(Limited(client, LIMIT), model.id, NewLine(body), wanted), refusal
        )
        if refusal not in ("session.gone", "limit.exceeded"):
            model.accepted[client].append(self.now)
        if sent is None:
            return
        line, replayed = sent
        if replayed_as:
            assert (line.seq, replayed) == (replayed_as, True)
            return
        model.lines.append(body)
        assert (line.seq, replayed) == (len(model.lines), False)
        if key:
            model.keys[client, key] = (body, line.seq, self.now)

    def expected(self, model: Model, client: str, body: str, key: str | None) -> tuple[str | None, int]:
        """Return the expected refusal of a line or None, and the number of the earlier line that is replayed or 0."""
        if model.gone(self.now):
            return "session.gone", 0
        if model.limited(client, self.now):
            return "limit.exceeded", 0
        before = model.keys.get((client, key or ""))
        if before and before[2] + REMEMBERED > self.now:
            return (None, before[1]) if before[0] == body else ("idempotency.conflict", 0)
        return ("session.full" if model.full(body) else None), 0

    @rule(model=models, since=st.integers(0, MAX_LINES + 1), limit=st.integers(1, 3))
    def poll(self, model: Model, since: int, limit: int) -> None:
        asked = PollQuery(since_seq=since, limit=limit)
        page = self.attempt(
            lambda: self._sessions.poll(model.id, asked), "session.gone" if model.gone(self.now) else None
        )
        if page:
            expected = list(enumerate(model.lines, 1))[since : since + limit]
            assert [(line.seq, line.body) for line in page.lines] == expected
            assert page.next_since_seq == (expected[-1][0] if expected else min(since, len(model.lines)))

    @rule(model=models, proof=st.sampled_from(["token", "wrong", "other"]))
    def destroy(self, model: Model, proof: str) -> None:
        shown = {"token": model.token, "wrong": "x.y", "other": self._all[-1].token}[proof]
        proven = shown == model.token
        refusal = "session.gone" if model.gone(self.now) else None if proven else "session.token"
        if self.attempt(lambda: self._sessions.destroy(model.id, shown), refusal):
            model.destroyed = True

    @rule(seconds=st.sampled_from([1, 59, 60, 300]))
    def wait(self, seconds: int) -> None:
        self.advance(seconds)

    @invariant()
    def a_session_has_all_its_lines_until_it_is_gone_with_all_its_keys(self) -> None:
        for model in self._all:
            gone = model.gone(self.now)
            page = self.attempt(
                lambda model=model: self._sessions.poll(model.id, PollQuery(limit=100)),
                "session.gone" if gone else None,
            )
            if page:
                assert [line.body for line in page.lines] == model.lines
                assert (page.label, page.epoch) == ("notes", model.epoch)
            left = self.run_step(self.store.command("KEYS", f"*:{model.id}"))
            assert bool(left) != gone


TestSessions = SessionMachine.TestCase
TestSessions.settings = settings(max_examples=25, stateful_step_count=30)
