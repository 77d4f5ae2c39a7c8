"""The life of an entry proven by a domain, against a model: any actions in any order (NETWORK 2)."""

from typing import cast

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from node.agents.entry import AgentRow, StoredAgent, id_of, stored_agent
from node.agents.findings import CheckResult, Finding, Probe
from node.agents.lists import AgentLists
from node.agents.model import LIVENESS, Liveness
from node.agents.service import BY_OPERATOR
from node.agents.store import AGAIN_MS, CALM, MAX_PAUSE_DAYS, SPARE_MS, AgentStore
from node.callbacks.owners import publisher_of
from node.store import ids, keys
from node.store.limits import DAY_MS
from tests.support.machine import StoreMachine

HOST = "agent.example"
URL = f"https://{HOST}/"
CARD = '{"name":"Desk","description":"Helps.","skills":[{"name":"Sum","description":"Sums up."}]}'
ELSEWHERE = f"https://{HOST}/a2a"
CLIENT = "203.0.113.7"
FIELDS = {"given": URL, "proof": "domain", "address": HOST, "by": publisher_of(CLIENT)}
OF_CARD = {"card": CARD, "card_url": URL, "url": URL, "binding": "GRPC", "version": ""}
LISTED = CheckResult(fields=FIELDS | OF_CARD)
GONE = CheckResult("it answered 404", is_gone=True, fields=FIELDS)
FOUND = st.sampled_from(("open", "gated", "wrong_protocol", "unreachable"))

MINUTE, DAY = 60, 86_400
LIFE, WEEK = 30 * DAY, 7 * DAY
THREE = 3
"""Number of equal probes in a row that change the liveness."""


class EntryMachine(StoreMachine):
    """One entry in an in-memory store."""

    def __init__(self) -> None:
        super().__init__()
        self._entries, self._lists = AgentStore(self.store, MINUTE), AgentLists(self.store)
        self._id = id_of(HOST, URL)
        self._status = ""
        self._kept_until = 0
        """When an unlisted entry is deleted."""
        self._placed_until = 0
        """Until when an entry that is being checked takes one of its host's places."""
        self._ends = 0
        """When a listed entry ends; 0 for any other."""
        self._waits_until = 0
        """Until when a listed entry that was posted again may wait for its check."""
        self._taken_until = 0
        """Until when one worker has the check to itself."""
        self._events = 0
        """Number of events about whether the entry is listed."""
        self._changes = 0
        """Number of events about nothing but its liveness."""
        self._authors = 0
        """Number of events that name a client as the one who made the entry."""
        self._url = ""
        self._unlist()

    def _unlist(self, status: str = "") -> None:
        self._status, self._ends, self._is_shown = status, 0, False
        self._without_news = 0
        """Number of probes in a row that have confirmed the current liveness."""
        self._forget_probes()

    def _forget_probes(self) -> None:
        self._liveness: Liveness = "unknown"
        self._row: list[str] = []
        self._since = 0

    @property
    def status(self) -> str:
        """The expected status; empty if there is no entry."""
        return self._status if self._ends or self.now < self._kept_until else ""

    def _entry(self) -> StoredAgent | None:
        [found] = self.run_step(self._entries.read([self._id]))
        return found

    def _due_in(self) -> int | None:
        """Return the milliseconds until a worker looks at the entry again, or None."""
        now = self.run_step(self._lists.now())
        due = self.run_step(self.store.command("ZSCORE", keys.agents_due(ids.partition_of(HOST)), self._id))
        return None if due is None else int(float(cast("bytes", due))) - now

    def _settle(self, found: CheckResult) -> str:
        """Return the outcome of the first of two workers that check a posting. The second one's result must be
        stale.
        """
        entry = self._entry()
        assert entry is not None
        outcome = self.run_step(self._entries.settle(entry, found, DAY_MS))
        for late in (LISTED, GONE):
            assert self.run_step(self._entries.settle(entry, late, DAY_MS)) == "stale"
        return outcome

    def _probed(self, found: Finding | None, card: CheckResult | None = None, before: int = 0) -> str:
        """Return the outcome of a probe. `before`: by how many milliseconds the probed version of the entry was posted
        earlier than the current one.
        """
        entry = self._entry() or stored_agent(
            self._id, AgentRow.of({b"address": HOST.encode(), b"proof": b"domain"}, None)
        )
        probed = msgspec.structs.replace(entry, posted_at=entry.posted_at - before)
        outcome = self.run_step(self._entries.probed(probed, Probe(found, card), DAY_MS))
        after = self._entry()
        if after and after.status == "listed" and after.checked_at != entry.checked_at:
            assert self.run_step(self._entries.probed(probed, Probe("unreachable", GONE), DAY_MS)) == "stale"
        return outcome

    def _note(self, found: Liveness, *, has_changed: bool = False, is_elsewhere: bool = False) -> None:
        """Record what a probe found."""
        self._was_checked_now()
        before = self._liveness
        self._row = [*self._row, found] if self._row[-1:] == [found] else [found]
        self._without_news = self._without_news + 1 if found == before else 0
        if found == before:
            self._row = []
        elif before == "unknown" or is_elsewhere or len(self._row) >= THREE:
            self._liveness, self._row, self._since = found, [], self.now
        is_shown = self._liveness != "unreachable" or self.now - self._since < WEEK
        is_told = is_shown != self._is_shown or (has_changed and is_shown)
        self._events += is_told
        self._changes += self._liveness != before and not is_told
        self._is_shown = is_shown
        pause = 1 if self._row else min(1 + self._without_news // CALM, MAX_PAUSE_DAYS)
        assert self._due_in() == pause * DAY_MS

    def _was_checked_now(self) -> None:
        entry = self._entry()
        assert entry is not None
        assert entry.checked_at == self.run_step(self._lists.now())

    @rule()
    def post(self) -> None:
        before = self._entry()
        due = self._due_in()
        self.run_step(self._entries.submit(HOST, FIELDS, agent_id=self._id, client=CLIENT, idempotency=None))
        if self.status == "checking" and self.now < self._taken_until:
            assert (self._entry(), self._due_in()) == (before, due), "a check that has begun goes on"
            return
        self._authors += self.status in ("", "rejected")
        self._placed_until = self.now + 10 * MINUTE
        self._kept_until = self._waits_until = self.now + DAY
        if self._ends:
            self._ends = max(self._ends, self.now + 10 * MINUTE)
        if not self.status:
            self._unlist()
        self._status, self._taken_until = "checking", 0

    @precondition(lambda self: self.status == "checking" and self.now >= self._taken_until)
    @rule()
    def a_worker_begins_a_check(self) -> None:
        partition = ids.partition_of(HOST)
        taken = self.run_step(self._entries.take([partition]))
        assert taken[partition].names == [self._id]
        self._taken_until = self.now + MINUTE

    @precondition(lambda self: self.status == "checking")
    @rule()
    def the_card_is_good(self) -> None:
        assert self._settle(LISTED) == "listed"
        self._was_checked_now()
        self._events += 1
        if not self._is_shown:
            self._forget_probes()
        self._status, self._ends, self._is_shown = "listed", self.now + LIFE, True
        self._url = URL

    @precondition(lambda self: self.status == "checking")
    @rule()
    def the_card_is_bad(self) -> None:
        outcome = self._settle(CheckResult("it answered 500", fields=FIELDS))
        assert outcome == ("stays" if self._ends else "rejected")
        self._was_checked_now()
        assert self._due_in() == (DAY_MS if self._ends else None)
        self._status = "listed" if self._ends else "rejected"
        self._kept_until = self.now + DAY

    @precondition(lambda self: self.status == "checking")
    @rule()
    def the_card_is_gone(self) -> None:
        assert self._settle(GONE) == "rejected"
        assert self._due_in() is None
        if self._ends:
            self._tell_of_its_removal()
        self._kept_until = self.now + DAY
        self._unlist("rejected")

    @precondition(lambda self: self.status == "checking")
    @rule(found=st.sampled_from((LISTED, GONE)))
    def a_check_ends_of_an_earlier_posting(self, found: CheckResult) -> None:
        entry = self._entry()
        assert entry is not None
        earlier = msgspec.structs.replace(entry, posted_at=entry.posted_at - 1)
        assert self.run_step(self._entries.settle(earlier, found, DAY_MS)) == "stale"

    @precondition(lambda self: self.status == "listed")
    @rule(found=FOUND, times=st.sampled_from((1, 1, 2, 3, CALM)))
    def probe(self, found: Liveness, times: int) -> None:
        for _ in range(times):
            assert self._probed(found) in LIVENESS
            self._note(found)

    @precondition(lambda self: self.status == "listed")
    @rule(found=FOUND, url=st.sampled_from((URL, ELSEWHERE)))
    def a_probe_finds_another_card(self, found: Liveness, url: str) -> None:
        assert self._probed(found, CheckResult(fields=OF_CARD | {"url": url})) in LIVENESS
        self._note(found, has_changed=True, is_elsewhere=url != self._url)
        self._url = url

    @precondition(lambda self: self.status == "listed")
    @rule(found=FOUND)
    def a_probe_ends_with_another_card_after_a_posting_was_checked(self, found: Liveness) -> None:
        assert self._probed(found, CheckResult(fields=OF_CARD | {"url": f"{URL}old"}), before=1) in LIVENESS
        self._note(found)

    @precondition(lambda self: self.status == "listed")
    @rule()
    def a_probe_cannot_be_made(self) -> None:
        assert self._probed(None) == "later"
        assert self._due_in() == AGAIN_MS

    @precondition(lambda self: self.status == "listed")
    @rule()
    def a_probe_finds_the_card_gone(self) -> None:
        assert self._probed("gone") == "removed"
        self._tell_of_its_removal()
        self._kept_until = 0
        self._unlist()

    @precondition(lambda self: self.status == "listed")
    @rule()
    def a_probe_ends_that_missed_the_card_before_a_posting_was_checked(self) -> None:
        assert self._probed("gone", before=1) == "later"
        assert self._due_in() == AGAIN_MS

    @precondition(lambda self: self.status == "checking")
    @rule(found=FOUND)
    def a_probe_ends_that_began_before_the_posting(self, found: Liveness) -> None:
        assert self._probed(found) == "asked"

    @precondition(lambda self: self.status in ("", "rejected"))
    @rule(found=st.sampled_from((None, "open", "gone")))
    def a_probe_ends_of_what_is_not_listed_any_more(self, found: Finding | None) -> None:
        assert self._probed(found) == "unknown"
        assert self._due_in() is None

    @rule()
    def a_worker_has_found_no_entry_a_moment_ago(self) -> None:
        due = self._due_in()
        self.run_step(self._entries.unschedule(self._id))
        assert self._due_in() == (due if self.status else None)

    @rule(seconds=st.sampled_from((MINUTE, 10 * MINUTE, DAY, WEEK, LIFE)))
    def wait(self, seconds: int) -> None:
        self.advance(seconds)
        # A worker removes the ended entry. If Redis has already dropped it, nobody knows whether it was shown.
        due = bool(self._ends) and self._ends <= self.now
        looked_at = self.run_step(self._lists.sweep())
        assert looked_at == ([self._id] if due else [])
        self.run_step(self._lists.project(looked_at))
        if due and self._status == "checking" and self.now < self._waits_until:
            self._ends = self._waits_until
        elif due:
            self._is_shown = self._is_shown or self._ends + DAY <= self.now
            self._tell_of_its_removal()
            self._kept_until = 0
            self._unlist()

    @precondition(lambda self: self.status)
    @rule()
    def the_operator_removes_it(self) -> None:
        self.run_step(self._entries.remove(self._id, HOST, BY_OPERATOR, ""))
        self._tell_of_its_removal()
        self._kept_until = 0
        self._unlist()

    def _tell_of_its_removal(self) -> None:
        """Count the event of the removal. For everybody else, an entry that was hidden or never listed was already
        gone.
        """
        self._events += self._is_shown
        self._changes += not self._is_shown

    @invariant()
    def the_entry_is_what_it_must_be(self) -> None:
        entry = self._entry()
        if not self.status:
            assert entry is None
            return
        assert entry is not None
        assert (entry.status, entry.liveness, entry.is_shown) == (self.status, self._liveness, self._is_shown)
        assert (entry.card is not None) == (self._ends > 0)
        assert not (entry.status == "checking" and entry.reason), "of an earlier check"
        assert not self._ends or entry.url == self._url

    @invariant()
    def it_is_in_the_lists_that_say_so(self) -> None:
        self.run_step(self._lists.project([self._id]))
        assert self.run_step(self._lists.newest(10, 0)) == (([self._id], 1) if self._is_shown else ([], 0))
        for liveness in LIVENESS:
            _, count = self.run_step(self._lists.newest(10, 0, liveness))
            assert count == (self._is_shown and liveness == self._liveness)

    @invariant()
    def a_listed_one_ends_when_it_must_whether_or_not_a_worker_removes_it(self) -> None:
        entry = self._entry()
        if not entry or not self._ends:
            return
        left = entry.ends_at - self.run_step(self._lists.now())
        assert abs(left - (self._ends - self.now) * 1000) < 1000
        dropped = self.run_step(self.store.command("PEXPIRETIME", keys.agent(self._id)))
        assert dropped == entry.ends_at + SPARE_MS

    @invariant()
    def it_has_its_place_and_its_turn(self) -> None:
        now = self.run_step(self._lists.now())
        placed = self.run_step(self.store.command("ZCOUNT", keys.agents_of(HOST), f"({now}", "+inf"))
        waits = self.status == "checking" and self.now < self._placed_until
        assert placed == (self._ends > 0 or waits)
        if self.status in ("checking", "listed"):
            due = self._due_in()
            assert due is not None
            assert due <= MAX_PAUSE_DAYS * DAY_MS

    @invariant()
    def all_of_it_was_told(self) -> None:
        told = self.run_step(self.store.command("XRANGE", keys.events(ids.partition_of(HOST)), "-", "+"))
        entries = cast("list[tuple[bytes, list[bytes]]]", told)
        assert sum(b"agent.listed" in flat or b"agent.removed" in flat for _, flat in entries) == self._events
        assert sum(b"check.changed" in flat for _, flat in entries) == self._changes
        assert sum(CLIENT.encode() in flat for _, flat in entries) == self._authors


TestEntries = EntryMachine.TestCase
TestEntries.settings = settings(max_examples=20, stateful_step_count=30)
