"""When overload begins, how many requests are admitted, and when it ends. Times are given, not measured."""

from collections import deque

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from structlog.testing import capture_logs

from node.overload.admission import (
    INTERVAL_SECONDS,
    MAX_NORMAL_REQUESTS,
    MAX_QUEUE_SECONDS,
    MIN_LIMIT,
    OVERLOAD_SECONDS,
    QUIET_SECONDS,
    TARGET_SECONDS,
    Admission,
)

LOOK = 0.02
SLOW = 10 * OVERLOAD_SECONDS
MANY = 10 * MAX_NORMAL_REQUESTS


def overloaded() -> Admission:
    """Return an admission that has just found itself overloaded, at time INTERVAL_SECONDS."""
    admission = Admission()
    admission.observe(0.0, SLOW, MANY)
    admission.observe(INTERVAL_SECONDS, SLOW, MANY)
    assert admission.limit is not None
    return admission


def test_a_quick_node_takes_all_that_come() -> None:
    admission = Admission()
    for step in range(100):
        admission.observe(step * LOOK, OVERLOAD_SECONDS, 100_000)
    assert admission.limit is None


def test_delay_that_stays_is_overload() -> None:
    admission = Admission()
    admission.observe(-LOOK, OVERLOAD_SECONDS, MANY)
    admission.observe(0.0, SLOW, MANY)
    admission.observe(INTERVAL_SECONDS - 0.001, SLOW, MANY)
    assert admission.limit is None
    admission.observe(INTERVAL_SECONDS, SLOW, MANY)
    assert admission.limit == round(MANY * TARGET_SECONDS / SLOW)


def test_delay_that_passes_is_no_overload() -> None:
    admission = Admission()
    for step in range(100):
        admission.observe(step * LOOK, SLOW if step % 4 else OVERLOAD_SECONDS, MANY)
    assert admission.limit is None


def test_a_burst_that_drains_however_slowly_is_no_overload() -> None:
    admission = Admission()
    working = 1000.0
    admission.observe(0.0, SLOW, round(working / 10))  # the burst begins
    for step in range(1, 50):
        admission.observe(step * LOOK, SLOW, round(working))
        assert admission.limit is None
        working *= 0.97


def test_few_clients_of_a_slow_store_are_no_overload() -> None:
    admission = Admission()
    for step in range(100):
        admission.observe(step * LOOK, 1.0, MAX_NORMAL_REQUESTS)
    assert admission.limit is None


def test_the_limit_follows_the_delay_and_stops_at_the_least() -> None:
    admission = overloaded()
    admission.limit = 1000
    admission.refused_early += 1
    admission.observe(1.0, 1.25 * TARGET_SECONDS, MANY)
    assert admission.limit == 800
    admission.observe(1.02, TARGET_SECONDS / 2, MANY)
    assert admission.limit == 881
    admission.observe(1.04, SLOW, MANY)
    assert admission.limit == 440
    for step in range(20):
        admission.refused_early += 1
        admission.observe(1.06 + step * LOOK, SLOW, MANY)
    assert admission.limit == MIN_LIMIT


def test_it_is_over_when_nobody_has_been_refused_for_a_while() -> None:
    admission = overloaded()
    admission.refused_early += 1
    admission.refused_late += 1
    admission.observe(1.0, TARGET_SECONDS, MANY)
    admission.observe(1.0 + QUIET_SECONDS - 0.001, TARGET_SECONDS, MANY)
    assert admission.limit is not None
    with capture_logs() as logs:
        admission.observe(1.0 + QUIET_SECONDS, TARGET_SECONDS, MANY)
    assert admission.limit is None
    assert [(line["event"], line["refused"]) for line in logs] == [("overload over", 2)]


def test_refusals_before_the_present_overload_do_not_count() -> None:
    admission = Admission()
    admission.refused_early = admission.refused_late = 5
    assert not admission.is_refusing
    admission.observe(0.0, SLOW, MANY)
    admission.observe(INTERVAL_SECONDS, SLOW, MANY)
    assert not admission.is_refusing
    admission.refused_early += 1
    assert admission.is_refusing
    with capture_logs() as logs:
        admission.observe(1.0, TARGET_SECONDS, MANY)
        admission.observe(2.0, TARGET_SECONDS, MANY)
    assert [(line["event"], line["refused"]) for line in logs] == [("overload over", 1)]


class Lives(RuleBasedStateMachine):
    """Any sequence of observations and refusals."""

    @initialize()
    def begin(self) -> None:
        self.admission = Admission()
        self.now = 0.0
        self.quick = self.refusal = 0.0

    @rule(after=st.floats(0.001, 0.5), delay=st.floats(0, 5), working=st.integers(0, 5000), refused=st.integers(0, 3))
    def observe(self, after: float, delay: float, working: int, refused: int) -> None:
        self.now += after
        was = self.admission.limit
        if was is not None:
            self.admission.refused_early += refused
            if refused:
                self.refusal = self.now
        elif delay <= OVERLOAD_SECONDS:
            self.quick = self.now
        self.admission.observe(self.now, delay, working)
        limit = self.admission.limit
        if was is None and limit is not None:
            assert self.now - self.quick >= INTERVAL_SECONDS
            assert working > MAX_NORMAL_REQUESTS
            self.refusal = self.now
        if was is not None:
            assert (limit is None) == (self.now - self.refusal >= QUIET_SECONDS)
            assert limit is None or delay <= TARGET_SECONDS or limit <= max(MIN_LIMIT, was)
        if limit is None:
            self.quick = self.now if was is not None else self.quick

    @invariant()
    def lets_some_in(self) -> None:
        assert self.admission.limit is None or self.admission.limit >= MIN_LIMIT


Lives.TestCase.settings = settings(max_examples=100, stateful_step_count=50)
TestLives = Lives.TestCase


def test_at_twice_capacity_what_is_let_in_is_served_soon_and_little_capacity_is_lost() -> None:
    """A server answers 4,000 requests a second, one after the other, while 8,000 a second arrive."""
    admission = Admission()
    capacity, factor, seconds, refusal = 4000, 2, 10.0, 0.2  # cost of a refusal, as a share of an answer
    queue: deque[float] = deque()
    waits: list[float] = []
    now = come = looked = 0.0
    while now < seconds:
        while come <= now:
            if admission.limit is not None and len(queue) >= admission.limit:
                admission.refused_early += 1
                now += refusal / capacity
            else:
                queue.append(come)
            come += 1 / (factor * capacity)
        if now - looked >= LOOK:
            looked = now
            admission.observe(now, now - queue[0] if queue else 0.0, len(queue))
        while admission.is_refusing and queue and now - queue[0] > MAX_QUEUE_SECONDS:
            queue.popleft()
            admission.refused_late += 1
            now += refusal / capacity
        if queue:
            came = (
                queue.pop()
                if now - queue[0] > MAX_QUEUE_SECONDS and len(queue) > MAX_NORMAL_REQUESTS
                else queue.popleft()
            )
            now += 1 / capacity
            waits.append(now - came)
        else:
            now = come
    waits.sort()
    assert waits[int(0.99 * len(waits))] < 0.05
    assert len(waits) > 0.6 * capacity * seconds
