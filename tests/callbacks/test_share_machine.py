"""Rates, shares and breakers against a model: whoever calls what in whatever order, each has its share (DESIGN 13)."""

from collections.abc import Awaitable
from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from node.callbacks.breaker import FAILURES, FIRST_OPEN_MS, LONGEST_OPEN_MS, PROBE_MS, Breaker, Circuit, NotNow
from node.callbacks.owners import publisher_of
from node.config import Limit
from node.share.site import SITE_SHARE, site_of
from tests.support.machine import StoreMachine

LIMIT = Limit(12, 60)
CLIENT_LIMIT = Limit(2, 60)
POOLS = st.sampled_from(["shared.example", "203.0.113.0/24"])
URLS = st.sampled_from(["a", "b"])  # what is called in a pool
SITES = st.sampled_from(["ann", "bob", "eve"])
CLIENTS = st.sampled_from([f"2001:db8:{site}:{n}::/64" for site in (1, 2) for n in range(SITE_SHARE + 1)])


@dataclass
class Model:
    """One breaker."""

    failures: int = 0
    until: int = 0
    """When it lets somebody pass again, in seconds."""
    is_open: bool = False
    """Whether until then it is open, or one call is finding out."""


class ShareMachine(StoreMachine):
    """Calls on behalf of some sites to what shares the rates of two pools."""

    def __init__(self) -> None:
        super().__init__()
        self._breaker = Breaker(self.store, LIMIT, CLIENT_LIMIT)
        self.calls: dict[str, list[tuple[int, str]]] = {}
        """Of each pool, when and for whom."""
        self.turns: dict[tuple[str, str], float] = {}
        """The last turn that a site was given in a pool."""
        self.tried: list[tuple[int, str]] = []
        """When, and for which client."""
        self.breakers: dict[tuple[str, str], Model] = {}
        """Of what has failed since it last worked."""

    @rule(pool=POOLS, url=URLS, site=SITES, times=st.integers(1, 15))
    def call(self, pool: str, url: str, site: str, times: int) -> None:
        for _ in range(times):
            wait = self.waits(self._breaker.admit(Circuit(url, pool), site)) / 1000
            recent = self.recent(pool)
            free, mine = LIMIT.count - len(recent), recent.count(site)
            breaker = self.breakers.get((url, pool), Model())
            assert (wait == 0) == (free > 0 and mine <= 2 * free and breaker.until <= self.now)
            if wait == 0:
                self.calls.setdefault(pool, []).append((self.now, site))
                if breaker.failures >= FAILURES:  # this call finds out whether it works again
                    breaker.is_open, breaker.until = False, self.now + PROBE_MS // 1000
            else:
                turn = self.now + wait
                last = self.turns.get((pool, site), 0.0)
                apart = LIMIT.seconds / (LIMIT.count * 2 / 3)  # at least: what others had leaves less
                assert turn >= last + apart - 0.1 or last < self.now
                self.turns[pool, site] = turn

    @rule(client=CLIENTS)
    def try_one(self, client: str) -> None:
        wait = self.waits(self._breaker.allow(publisher_of(client)))
        recent = [name for at, name in self.tried if at > self.now - CLIENT_LIMIT.seconds]
        site = sum(site_of(name) == site_of(client) for name in recent)
        assert (wait == 0) == (recent.count(client) < CLIENT_LIMIT.count and site < CLIENT_LIMIT.count * SITE_SHARE)
        if wait == 0:
            self.tried.append((self.now, client))

    @rule(pool=POOLS, url=URLS, times=st.integers(1, 6))
    def fail(self, pool: str, url: str, times: int) -> None:
        for _ in range(times):
            self.run_step(self._breaker.failed(Circuit(url, pool)))
            breaker = self.breakers.setdefault((url, pool), Model())
            if breaker.is_open and breaker.until > self.now:
                continue  # it was under way when the breaker opened
            breaker.failures += 1
            if breaker.failures >= FAILURES:
                longer = FIRST_OPEN_MS * 2 ** (breaker.failures - FAILURES)
                breaker.is_open, breaker.until = True, self.now + min(longer, LONGEST_OPEN_MS) // 1000

    @rule(pool=POOLS, url=URLS)
    def succeed(self, pool: str, url: str) -> None:
        self.run_step(self._breaker.succeeded(Circuit(url, pool)))
        self.breakers.pop((url, pool), None)

    @rule(seconds=st.sampled_from([1, 7, 30, 60, 120]))
    def wait(self, seconds: int) -> None:
        self.advance(seconds)

    def waits(self, admission: Awaitable[object]) -> int:
        """Milliseconds until it may be tried again; 0 = it was let pass."""
        try:
            self.run_step(admission)
        except NotNow as not_now:
            return not_now.wait_ms
        return 0

    @invariant()
    def no_pool_is_called_more_often_than_its_limit_says(self) -> None:
        for pool in self.calls:
            assert len(self.recent(pool)) <= LIMIT.count

    def recent(self, pool: str) -> list[str]:
        """For whom the pool was called within the window."""
        return [site for at, site in self.calls.get(pool, ()) if at > self.now - LIMIT.seconds]


TestShares = ShareMachine.TestCase
TestShares.settings = settings(max_examples=60, stateful_step_count=30)
