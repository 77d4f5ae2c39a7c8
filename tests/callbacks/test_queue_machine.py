"""The messages about one thread against a model: events happen, and messages are taken, settled and settled again, in
any order.
"""

from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, consumes, invariant, multiple, rule

from node.callbacks.delivery import Delivery, DeliveryPage, DeliveryStatus
from node.callbacks.queue import HIDDEN_MS, REMEMBER_MS, Callback, CallbackMessage, CallbackQueue, DeadLetter, Ending
from node.common.timestamps import timestamp
from node.store import keys
from node.store.clock import now_ms
from node.store.limits import DAY_MS
from node.tasks.compaction import unpack
from tests.callbacks.test_deliveries import recorded
from tests.support.effort import tries
from tests.support.machine import StoreMachine

HOME = 5
NAME = "t"
URL = "http://hooks.example/"
KIND = "board.reply"
PAUSE_MS = 5000
PAUSES = st.sampled_from((PAUSE_MS, 60_000))
ENDINGS = st.sampled_from(("delivered", "delivered", "retry", "retry", "postpone", "dropped", "dead"))
MISSES = 7
RECORDED = 20
"""Number of callbacks shown to the owner of the thread."""

KEY = keys.callback(HOME, NAME)


def message_of(seq: int) -> CallbackMessage:
    """Return the message about a reply, which was posted in the millisecond of its number."""
    return CallbackMessage(NAME, f"msg_{seq}", URL, KIND, seq, {"thread_id": NAME, "seq": seq}, seq - 1)


@dataclass
class UnderWay:
    """A message that is pending."""

    seq: int
    due: int
    waited: int = 0
    attempt: int = 0
    misses: int = 0
    reason: str = ""


@dataclass
class Model:
    """The expected state of the queue. Times are in milliseconds."""

    under_way: UnderWay | None = None
    delivered: int = 0
    """Number of the last delivered reply; 0 once it is forgotten."""
    delivered_at: int | None = None
    after: int | None = None
    letters: list[tuple[str, int, str, int | None]] = field(default_factory=list[tuple[str, int, str, int | None]])
    record: dict[int, Delivery] = field(default_factory=dict[int, Delivery])
    changes: int = 0
    record_until: int = 0

    def forget(self, now: int) -> None:
        """Forget what is kept only for a limited time."""
        if self.under_way is None and self.delivered_at is not None and now >= self.delivered_at + REMEMBER_MS:
            self.delivered, self.delivered_at, self.after = 0, None, None
        if now >= self.record_until:
            self.record, self.changes = {}, 0

    def note(self, now: int, seq: int, status: str, attempts: int, due: int, reason: str, *, is_new: bool) -> None:
        """Record what the owner is shown of a message. A message that is no longer shown is ignored, unless it
        is new.
        """
        if seq not in self.record and not is_new:
            return
        self.record[seq] = Delivery(
            id=f"msg_{seq}",
            type=KIND,
            host="hooks.example",
            status=cast("DeliveryStatus", status),
            attempts=attempts,
            last_error=reason or None,
            created_at=timestamp(seq),
            next_attempt_at=timestamp(due) if status == "pending" else None,
        )
        if len(self.record) > RECORDED:
            del self.record[min(self.record)]
        self.changes += 1
        self.record_until = max(self.record_until, max(due, now) + DAY_MS)


class QueueMachine(StoreMachine):
    """A queue to which events, workers and time happen."""

    taken = Bundle[Callback]("taken")

    def __init__(self) -> None:
        super().__init__()
        self._queue = CallbackQueue(self.store, unpack)
        self._model = Model()
        self._last = 0
        """Number of the newest reply."""

    def _at(self) -> int:
        """Return the current time, after forgetting what is no longer kept."""
        now = self.run_step(now_ms(self.store, KEY))
        self._model.forget(now)
        return now

    @rule()
    def happen(self) -> None:
        self._last += 1
        self._enqueue(self._last)

    @rule(before=st.integers(0, 3))
    def come_again(self, before: int) -> None:
        if self._last > before:
            self._enqueue(self._last - before)

    def _enqueue(self, seq: int) -> None:
        now, model = self._at(), self._model
        self.run_step(self._queue.enqueue(HOME, [message_of(seq)], PAUSE_MS))
        known = model.under_way.seq if model.under_way else model.delivered
        if known and seq <= known:
            return
        model.after = seq - 1 if model.after is None else min(model.after, seq - 1)
        if model.under_way:
            model.record.pop(model.under_way.seq, None)
            model.under_way.seq = seq
        else:
            due = now if model.delivered_at is None else max(now, model.delivered_at + PAUSE_MS)
            model.under_way = UnderWay(seq, due)
        way = model.under_way
        model.note(now, seq, "pending", way.attempt, way.due, way.reason, is_new=True)

    @rule(target=taken)
    def take(self) -> Any:
        callback = self._take()
        return callback if callback else multiple()  # pyright: ignore[reportUnknownVariableType]

    @rule(happens=st.booleans())
    def deliver(self, *, happens: bool) -> None:
        self._attempt("delivered", PAUSE_MS, happens=happens)

    @rule(pause=PAUSES, happens=st.booleans())
    def fail(self, pause: int, *, happens: bool) -> None:
        self._attempt("retry", pause, happens=happens)

    @rule(ending=ENDINGS, happens=st.booleans())
    def attempt(self, ending: Ending, *, happens: bool) -> None:
        self._attempt(ending, PAUSE_MS, happens=happens)

    def _attempt(self, ending: Ending, pause: int, *, happens: bool) -> None:
        """Let a quick worker send the message that is due next. During the attempt, a new reply may be posted."""
        if way := self._model.under_way:
            self.advance(max(0, -(-(way.due - self._at()) // 1000)))
        if callback := self._take():
            if happens:
                self.happen()
            self.settle(callback, ending, pause, is_repeated=False)

    def _take(self) -> Callback | None:
        now, way = self._at(), self._model.under_way
        found = self.run_step(self._queue.take([HOME]))
        if way is None or way.due > now:
            assert found == []
            return None
        way.due = now + HIDDEN_MS
        told = message_of(way.seq)
        (callback,) = found
        assert callback == Callback(
            *(told.name, told.id, told.url, told.type, told.at, told.data, self._model.after),
            partition=HOME,
            attempt=way.attempt,
            misses=way.misses,
            waited=way.waited,
            ours_until=callback.ours_until,
        )
        return callback

    @rule(
        callback=consumes(taken),
        ending=ENDINGS,
        pause=PAUSES,
        is_repeated=st.booleans(),
    )
    def settle(self, callback: Callback, ending: Ending, pause: int, *, is_repeated: bool) -> None:
        now, way = self._at(), self._model.under_way
        missed = msgspec.structs.replace(callback, misses=MISSES)
        for _ in range(1 + (is_repeated and ending in ("delivered", "retry"))):
            self.run_step(self._queue.settle(missed, ending, pause, f"for {pause}"))
        if way:
            self._end(now, way, callback, ending, pause)
            if is_repeated and ending == "delivered" and self._model.under_way:
                self._end(now, self._model.under_way, callback, ending, pause)

    def _end(self, now: int, way: UnderWay, callback: Callback, ending: Ending, pause: int) -> None:
        model, reason = self._model, f"for {pause}"
        if ending == "postpone":
            way.due, way.waited = now + pause, way.waited + pause
            model.note(now, way.seq, "pending", way.attempt, way.due, way.reason or reason, is_new=False)
        elif ending == "retry":
            if callback.attempt == way.attempt:
                way.attempt, way.misses, way.reason, way.due = way.attempt + 1, MISSES, reason, now + pause
                model.note(now, way.seq, "pending", way.attempt, way.due, reason, is_new=False)
        elif ending == "delivered":
            model.note(now, callback.at, "delivered", way.attempt + 1, now, "", is_new=True)
            model.delivered, model.delivered_at, model.after = callback.at, now, callback.at
            if way.seq == callback.at:
                model.under_way = None
            else:
                model.under_way = UnderWay(way.seq, now + pause)
                model.note(now, way.seq, "pending", 0, now + pause, "", is_new=False)
        elif way.seq != callback.at:  # this reply was not the one attempted
            if way.attempt == callback.attempt:
                model.under_way = UnderWay(way.seq, now)
                model.note(now, way.seq, "pending", 0, now, "", is_new=False)
        else:
            if ending == "dead":
                model.letters.append((f"msg_{way.seq}", way.attempt + 1, reason, model.after))
            model.note(now, way.seq, ending, way.attempt + 1, now, reason, is_new=False)
            model.under_way, model.delivered, model.delivered_at, model.after = None, 0, None, None

    # A second more than a day, since some milliseconds pass between a step and the model's reading of the clock.
    @rule(seconds=st.sampled_from([1, 5, 30, 30, 60, 60, 600, DAY_MS // 1000 + 1]))
    def wait(self, seconds: int) -> None:
        self.advance(seconds)

    @invariant()
    def it_is_due_when_it_should(self) -> None:
        self._at()
        score = self.run_step(self.store.command("ZSCORE", keys.callbacks_due(HOME), NAME))
        way = self._model.under_way
        assert (score and int(float(cast("bytes", score)))) == (way and way.due)

    @invariant()
    def little_is_kept_once_it_was_delivered_and_that_not_for_ever(self) -> None:
        now, model = self._at(), self._model
        left = cast("int", self.run_step(self.store.command("PTTL", KEY)))
        if model.under_way:
            assert left == -1
        elif model.delivered_at is None:
            assert left == -2
        else:
            assert abs(model.delivered_at + REMEMBER_MS - now - left) <= 1
            kept = cast("list[bytes]", self.run_step(self.store.command("HKEYS", KEY)))
            assert set(kept) == {b"id", b"at", b"sent_at", b"after"}

    @invariant()
    def its_owner_sees_how_far_each_is(self) -> None:
        self._at()
        shown = [self._model.record[seq] for seq in sorted(self._model.record, reverse=True)]
        page = self.run_step(recorded(self.store))
        assert page == DeliveryPage(shown, self._model.changes)

    @invariant()
    def what_was_given_up_is_kept(self) -> None:
        letters: list[DeadLetter] = self.run_step(self._queue.dead())
        assert sorted((each.id, each.attempts, each.reason, each.after) for each in letters) == sorted(
            self._model.letters
        )


TestQueue = QueueMachine.TestCase
TestQueue.settings = tries(60, 30)
