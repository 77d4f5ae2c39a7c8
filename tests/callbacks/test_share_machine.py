"""Rate limits, shares and breakers against a model: whoever calls what in any order, each gets its share
(DESIGN 13).
"""

from dataclasses import dataclass
from itertools import count

from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from node.callbacks.attempt import Later
from node.callbacks.breaker import (
    FAILURES,
    FIRST_OPEN_MS,
    MAX_OPEN_MS,
    MAX_TURN_MS,
    PROBE_MS,
    Admitted,
    Breaker,
    Circuit,
)
from node.callbacks.owners import Requester, publisher_of
from node.config import Limit
from node.share.site import SITE_SHARE, site_of
from tests.support.effort import tries
from tests.support.machine import StoreMachine

LIMIT = Limit(12, 60)
CLIENT_LIMIT = Limit(2, 60)
POOLS = st.sampled_from(["shared.example", "203.0.113.0/24"])
URLS = st.sampled_from(["a", "b"])  # URLs called in each pool
SITES = st.sampled_from(["ann", "bob", "eve"])
CLIENTS = st.sampled_from([f"2001:db8:{site}:{n}::/64" for site in (1, 2) for n in range(SITE_SHARE + 1)])

ADVANCES = 0.2
"""Seconds that the clock may be ahead of the model, which counts whole seconds."""


@dataclass
class Model:
    """The expected state of one breaker."""

    failures: int = 0
    until: int = 0
    """When the breaker admits a call again, in seconds."""
    is_open: bool = False
    """Whether the breaker is open until then; otherwise one call is probing the receiver."""


class ShareMachine(StoreMachine):
    """Calls on behalf of several sites that share the rate limits of two pools."""

    def __init__(self) -> None:
        super().__init__()
        self._breaker = Breaker(self.store, LIMIT, CLIENT_LIMIT)
        self.calls: dict[str, list[tuple[int, str]]] = {}
        """Times of the admitted calls and their sites, by pool."""
        self.waiting: dict[tuple[str, ...], dict[str, int]] = {}
        """Calls that wait, the first in line first, with the time since when: by pool and site those that wait for
        their turn, by pool, site and URL those that wait for the breaker.
        """
        self.admitted: tuple[Admitted, str, str, str, int, int | None] | None = None
        """The last admitted call: its pool, site, id and time, and since when it had waited."""
        self._numbers = count()
        self.tried: list[tuple[int, str]] = []
        """Time and client of each attempt."""
        self.breakers: dict[tuple[str, str], Model] = {}
        """Breakers of the URLs that have failed since they last worked."""

    @rule(pool=POOLS, url=URLS, site=SITES, times=st.integers(1, 15))
    def call(self, pool: str, url: str, site: str, times: int) -> None:
        for _ in range(times):
            self.ask(pool, url, site, f"{next(self._numbers):04}")

    @rule(pool=POOLS, url=URLS, site=SITES, place=st.integers(0, 30))
    def call_again(self, pool: str, url: str, site: str, place: int) -> None:
        if waiting := [*self.waiting.get((pool, site), ()), *self.waiting.get((pool, site, url), ())]:
            self.ask(pool, url, site, waiting[place % len(waiting)])

    def ask(self, pool: str, url: str, site: str, name: str) -> None:
        recent, breaker = self.recent(pool), self.breakers.get((url, pool), Model())
        free, mine = LIMIT.count - len(recent), recent.count(site)
        is_open = breaker.until > self.now
        room = 0 if is_open else sum(mine + taken <= 2 * (free - taken) for taken in range(free))
        oldest = min((at for at, _ in self.calls.get(pool, ()) if at > self.now - LIMIT.seconds), default=self.now)
        first = breaker.until - self.now if is_open else 0 if room else oldest + LIMIT.seconds - self.now
        waiting, elsewhere = (self.waiting.setdefault(key, {}) for key in ((pool, site), (pool, site, url)))
        if is_open:
            waiting, elsewhere = elsewhere, waiting
        elsewhere.pop(name, None)
        for each, since in list(waiting.items()):
            if since <= self.now - MAX_TURN_MS // 1000:
                del waiting[each]
        before = list(waiting).index(name) if name in waiting else len(waiting)
        queue = before * LIMIT.seconds / max(1, (free + mine) * 2 / 3)

        answer = self.run_step(self._breaker.admit(Circuit(url, pool), Requester(site, name)))
        if isinstance(answer, Admitted):
            assert room > (0 if name in waiting else len(waiting))
            self.admitted = (answer, pool, site, name, self.now, waiting.pop(name, None))
            self.calls.setdefault(pool, []).append((self.now, site))
            if breaker.failures >= FAILURES:  # this call probes whether the receiver works again
                breaker.is_open, breaker.until = False, self.now + PROBE_MS // 1000
            return
        assert room <= (0 if name in waiting else len(waiting))
        if name in waiting or first + queue <= MAX_TURN_MS / 1000:
            waiting.setdefault(name, self.now)
            queue = min(queue, MAX_TURN_MS / 1000) / 2
        else:
            assert answer.wait_ms > MAX_TURN_MS
        assert abs(answer.wait_ms / 1000 - first - queue) < ADVANCES

    @rule()
    def refund(self) -> None:
        """Undo the last admitted call, which was not made because something else refused it."""
        if self.admitted is None:
            return
        admitted, pool, site, name, at, since = self.admitted
        self.admitted = None
        self.run_step(self._breaker.refund(admitted))
        self.calls[pool].remove((at, site))
        if since is not None:
            waiting = {**self.waiting[pool, site], name: since}
            self.waiting[pool, site] = dict(sorted(waiting.items(), key=lambda each: (each[1], each[0])))

    @rule(client=CLIENTS)
    def try_one(self, client: str) -> None:
        answer = self.run_step(self._breaker.allow(Requester(publisher_of(client), client)))
        recent = [name for at, name in self.tried if at > self.now - CLIENT_LIMIT.seconds]
        site = sum(site_of(name) == site_of(client) for name in recent)
        may = recent.count(client) < CLIENT_LIMIT.count and site < CLIENT_LIMIT.count * SITE_SHARE
        assert isinstance(answer, Later) != may
        if may:
            self.tried.append((self.now, client))

    @rule(pool=POOLS, url=URLS, times=st.integers(1, 6))
    def fail(self, pool: str, url: str, times: int) -> None:
        for _ in range(times):
            self.run_step(self._breaker.failed(Circuit(url, pool)))
            breaker = self.breakers.setdefault((url, pool), Model())
            if breaker.is_open and breaker.until > self.now:
                continue  # the call began before the breaker opened
            breaker.failures += 1
            if breaker.failures >= FAILURES:
                longer = FIRST_OPEN_MS * 2 ** (breaker.failures - FAILURES)
                breaker.is_open, breaker.until = True, self.now + min(longer, MAX_OPEN_MS) // 1000

    @rule(pool=POOLS, url=URLS)
    def succeed(self, pool: str, url: str) -> None:
        self.run_step(self._breaker.succeeded(Circuit(url, pool)))
        self.breakers.pop((url, pool), None)

    @rule(seconds=st.sampled_from([1, 7, 30, 60, 120, 1900]))
    def wait(self, seconds: int) -> None:
        self.advance(seconds)

    @invariant()
    def no_pool_is_called_more_often_than_its_limit_says(self) -> None:
        for pool in self.calls:
            assert len(self.recent(pool)) <= LIMIT.count

    def recent(self, pool: str) -> list[str]:
        """Return the sites of the pool's calls within the window."""
        return [site for at, site in self.calls.get(pool, ()) if at > self.now - LIMIT.seconds]


TestShares = ShareMachine.TestCase
TestShares.settings = tries(60, 30)
