"""Look-ups of many names at once, on a real DNS server: made once, cached for a while, and given places in turn."""

import asyncio
from collections.abc import Iterable
from ipaddress import ip_address
from pathlib import Path

import pytest

from node.callbacks.lookup import LOOKUP_SECONDS, NotLookedUp, NotResolved
from node.callbacks.owners import registrable
from node.callbacks.resolve import (
    KEEP_FAILURE_SECONDS,
    MAX_KEEP_SECONDS,
    NAMES_KEPT,
    PLACES,
    PLACES_EACH_DOMAIN,
    PLACES_EACH_SITE,
    WAITING_EACH,
    SystemResolver,
)
from tests.callbacks.dns_server import SILENT, DnsServer
from tests.support.servers import PATIENCE, eventually

ADDRESS = "93.184.216.34"
FOUND = [ip_address(ADDRESS)]
HONEST = [f"60 A {ADDRESS}"]


class Clock:
    """The resolver's clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._now = 1000.0
        monkeypatch.setattr("node.callbacks.resolve.monotonic", lambda: self._now)

    def advance(self, seconds: float) -> None:
        self._now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.fixture(autouse=True)
def asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable the repetition of queries, which a busy machine that answers slowly would cause."""
    monkeypatch.setattr("node.callbacks.lookup.TRY_SECONDS", LOOKUP_SECONDS)


async def refusals(look_ups: Iterable[asyncio.Task[object]]) -> set[type]:
    """Wait for these look-ups, and return the kinds of their failures."""
    return {type(outcome) for outcome in await asyncio.gather(*look_ups, return_exceptions=True)}


async def test_all_who_ask_for_a_name_at_the_same_time_share_one_look_up(tmp_path: Path) -> None:
    async with DnsServer({"agent.example": HONEST}) as server:
        resolver = SystemResolver(server.lookup(tmp_path))
        found = await asyncio.gather(*(resolver("agent.example", f"client {n}") for n in range(50)))
        assert found == [FOUND] * 50
        assert server.asked["agent.example"] == 2  # one query for each address family


async def test_who_gives_up_waiting_ends_it_for_nobody_else(tmp_path: Path) -> None:
    async with DnsServer({"agent.example": HONEST}) as server:
        resolver = SystemResolver(server.lookup(tmp_path))
        server.flowing.clear()
        first, second = (asyncio.create_task(resolver("agent.example", name)) for name in "ab")
        await eventually(lambda: server.asked["agent.example"] == 2)
        first.cancel()
        server.flowing.set()
        assert await second == FOUND
        assert server.asked["agent.example"] == 2


@pytest.mark.parametrize(("ttl", "kept"), [(5, 5), (3600, MAX_KEEP_SECONDS)])
async def test_an_answer_is_kept_for_its_time_and_never_for_long(
    tmp_path: Path, clock: Clock, ttl: int, kept: float
) -> None:
    async with DnsServer({"agent.example": [f"{ttl} A {ADDRESS}"]}) as server:
        resolver = SystemResolver(server.lookup(tmp_path))
        await resolver("agent.example")
        clock.advance(kept - 0.1)
        server.records["agent.example"] = ["60 A 1.1.1.1"]
        assert await resolver("agent.example") == FOUND
        clock.advance(0.1)
        assert await resolver("agent.example") == [ip_address("1.1.1.1")]


async def test_that_a_name_has_no_address_is_kept_for_a_short_while(tmp_path: Path, clock: Clock) -> None:
    async with DnsServer({}) as server:
        resolver = SystemResolver(server.lookup(tmp_path))
        for _ in range(3):
            with pytest.raises(NotResolved):
                await resolver("agent.example")
        assert server.asked["agent.example"] == 2
        server.records["agent.example"] = HONEST
        clock.advance(KEEP_FAILURE_SECONDS)
        assert await resolver("agent.example") == FOUND


async def test_of_many_names_the_oldest_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("node.callbacks.resolve.NAMES_KEPT", 3)
    async with DnsServer({"*.example": HONEST}) as server:
        resolver = SystemResolver(server.lookup(tmp_path))
        for name in ("a.example", "b.example", "c.example", "d.example", "d.example", "b.example", "a.example"):
            await resolver(name)
        assert dict(server.asked) == {"a.example": 4, "b.example": 2, "c.example": 2, "d.example": 2}
    assert NAMES_KEPT > PLACES


async def test_many_silent_names_below_one_domain_leave_places_for_other_domains(tmp_path: Path) -> None:
    """Otherwise these names take all places, ten seconds each, and everybody's callbacks wait behind them."""
    async with DnsServer({"*.evil.example": SILENT, "agent.example": HONEST}) as server:
        resolver = SystemResolver(server.lookup(tmp_path))
        slow = [asyncio.create_task(resolver(f"n{n}.evil.example", f"client {n}")) for n in range(2 * PLACES)]
        await eventually(lambda: len(server.asked) == PLACES_EACH_DOMAIN)
        assert await resolver("agent.example", "another") == FOUND
        assert await refusals(slow) == {NotResolved, NotLookedUp}
        assert len(server.asked) <= 3 * PLACES_EACH_DOMAIN


async def test_many_silent_domains_of_one_client_leave_places_for_other_clients(tmp_path: Path) -> None:
    async with DnsServer({"*.test": SILENT, "agent.example": HONEST}) as server:
        resolver = SystemResolver(server.lookup(tmp_path))
        slow = [asyncio.create_task(resolver(f"evil{n}.test", "evil")) for n in range(2 * PLACES)]
        await eventually(lambda: len(server.asked) == PLACES_EACH_SITE)
        assert await resolver("agent.example", "another") == FOUND
        assert await refusals(slow) == {NotResolved, NotLookedUp}


@pytest.mark.parametrize(
    ("name", "client", "at_once"),
    [("n{}.test", "evil", PLACES_EACH_SITE), ("n{}.evil.example", "client {}", PLACES_EACH_DOMAIN)],
    ids=["of a client", "below a domain"],
)
async def test_more_look_ups_than_would_get_a_place_in_time_do_not_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, client: str, at_once: int
) -> None:
    monkeypatch.setattr("node.callbacks.resolve.TURN_SECONDS", PATIENCE)
    async with DnsServer({"*.test": SILENT, "*.evil.example": SILENT}) as server:
        resolver = SystemResolver(server.lookup(tmp_path))
        numbers = range(at_once + WAITING_EACH)
        waiting = [asyncio.create_task(resolver(name.format(n), client.format(n))) for n in numbers]
        await eventually(lambda: len(server.asked) == at_once)
        with pytest.raises(NotLookedUp):
            await resolver(name.format("last"), client.format("last"))
        for task in waiting:
            task.cancel()
        assert await refusals(waiting) == {asyncio.CancelledError}


async def test_a_client_with_many_names_of_a_shared_domain_leaves_places_for_its_other_tenants(tmp_path: Path) -> None:
    async with DnsServer({"*.shared.example": SILENT, "agent.shared.example": HONEST}) as server:
        resolver = SystemResolver(server.lookup(tmp_path))
        slow = [asyncio.create_task(resolver(f"n{n}.shared.example", "evil")) for n in range(50)]
        await eventually(lambda: len(server.asked) == PLACES_EACH_SITE)
        assert await resolver("agent.shared.example", "another") == FOUND
        await refusals(slow)


async def test_a_name_that_a_busy_client_waits_to_look_up_is_looked_up_at_once_for_another(tmp_path: Path) -> None:
    async with DnsServer({"*.evil.example": SILENT, "agent.example": HONEST}) as server:
        resolver = SystemResolver(server.lookup(tmp_path))
        slow = [asyncio.create_task(resolver(f"n{n}.evil.example", "evil")) for n in range(PLACES_EACH_SITE)]
        slow.append(asyncio.create_task(resolver("agent.example", "evil")))
        await eventually(lambda: len(server.asked) == PLACES_EACH_SITE)
        assert await resolver("agent.example", "another") == FOUND
        await refusals(slow)


async def test_what_found_no_place_is_not_kept_as_a_failure_of_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("node.callbacks.resolve.TURN_SECONDS", 0.05)
    async with DnsServer({"*.evil.example": SILENT, "agent.example": HONEST}) as server:
        resolver = SystemResolver(server.lookup(tmp_path))
        slow = [asyncio.create_task(resolver(f"n{n}.evil.example", "busy")) for n in range(PLACES_EACH_SITE)]
        await eventually(lambda: len(server.asked) == PLACES_EACH_SITE)
        with pytest.raises(NotLookedUp):
            await resolver("agent.example", "busy")
        await refusals(slow)
        assert await resolver("agent.example", "busy") == FOUND


@pytest.mark.parametrize(
    ("host", "domain"),
    [
        ("example.com", "example.com"),
        ("a.b.example.com", "example.com"),
        ("a.example.co.uk", "example.co.uk"),
        ("tenant.github.io", "tenant.github.io"),
        ("a.tenant.github.io", "tenant.github.io"),
        ("co.uk", "co.uk"),
        ("a.xn--85x722f.xn--55qx5d.cn", "xn--85x722f.xn--55qx5d.cn"),
        ("agent.nosuchsuffix", "agent.nosuchsuffix"),
        ("localhost", "localhost"),
        ("192.0.2.1", "192.0.2.1"),
        ("[2001:db8::1]", "[2001:db8::1]"),
        ("[::ffff:192.0.2.1]", "[::ffff:192.0.2.1]"),
    ],
)
def test_a_domain_is_what_somebody_registered(host: str, domain: str) -> None:
    assert registrable(host) == domain
