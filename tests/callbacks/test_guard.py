"""The guard on outgoing connections: what may be dialled, and that nothing else is."""

import weakref
from contextlib import suppress
from ipaddress import ip_address

import httpcore2
import pytest

from node.callbacks.attempt import NotNow
from node.callbacks.breaker import Breaker, circuit_of_address
from node.callbacks.call import AttemptTimeouts
from node.callbacks.guard import MAX_DIALS, MAX_READ, Guard
from node.callbacks.lookup import LOOKUP_SECONDS
from node.callbacks.resolve import TURN_SECONDS
from node.callbacks.target import TargetPolicy, TargetRefused
from node.config import Limit
from tests.callbacks.network import SOMEBODY, Dialler, FakeResolver, receiver, repeats, says, unlimited
from tests.support.fake_store import FakeStore

POLICY = TargetPolicy.of("https://node.example")
PRIVATE = TargetPolicy(allow_private=True)
V4, V6 = "93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946"


@pytest.mark.parametrize(
    "answer",
    [
        "127.0.0.1",
        "169.254.169.254",
        "::1",
        "::ffff:93.184.216.34",
        "64:ff9b::7f00:1",
        f"{V4}|10.0.0.1",
        f"{V6}|fd00::1",
    ],
)
async def test_a_name_with_any_address_that_is_not_public_is_never_dialled(answer: str):
    dialler = Dialler()
    guard = Guard(POLICY, FakeResolver(agent_example=answer), SOMEBODY, unlimited(), dialler=dialler)
    with pytest.raises(TargetRefused):
        await guard.connect_tcp("agent.example", 443)
    assert dialler.dials == []


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "[::1]", "169.254.169.254"])
async def test_a_literal_address_that_is_not_public_is_never_dialled(host: str):
    dialler = Dialler()
    with pytest.raises(TargetRefused):
        await Guard(POLICY, FakeResolver(), SOMEBODY, unlimited(), dialler=dialler).connect_tcp(host, 443)
    assert dialler.dials == []


async def test_a_name_that_changes_its_address_after_it_was_accepted_is_never_dialled():
    resolver, dialler = FakeResolver(agent_example=f"{V4}>127.0.0.1"), Dialler()
    await resolver("agent.example")
    with pytest.raises(TargetRefused):
        await Guard(POLICY, resolver, SOMEBODY, unlimited(), dialler=dialler).connect_tcp("agent.example", 443)
    assert dialler.dials == []


async def test_a_name_is_resolved_once_and_the_checked_number_is_dialled():
    resolver, dialler = FakeResolver(agent_example=f"{V4}>127.0.0.1"), Dialler(dead=[V4])
    with pytest.raises(httpcore2.ConnectError):
        await Guard(POLICY, resolver, SOMEBODY, unlimited(), dialler=dialler).connect_tcp("agent.example", 443)
    assert resolver.asked == ["agent.example"]
    assert dialler.dials == [V4]


async def test_if_nobody_is_at_the_first_address_the_second_is_tried_and_no_third():
    resolver = FakeResolver(agent_example=f"{V6}|{V4}|1.1.1.1")
    dialler = Dialler(dead=[V6, V4, "1.1.1.1"])
    with pytest.raises(httpcore2.ConnectError):
        await Guard(POLICY, resolver, SOMEBODY, unlimited(), dialler=dialler).connect_tcp("agent.example", 443)
    assert dialler.dials == [V6, V4]


async def test_if_the_first_address_swallows_the_dial_the_second_is_tried():
    resolver, dialler = FakeResolver(agent_example=f"{V6}|{V4}"), Dialler(silent=[V6, V4])
    with pytest.raises(httpcore2.ConnectTimeout):
        await Guard(POLICY, resolver, SOMEBODY, unlimited(), dialler=dialler).connect_tcp("agent.example", 443, 3.0)
    assert dialler.dials == [V6, V4]


@pytest.mark.parametrize(
    ("addresses", "dialled"),
    [
        (f"{V6}|2606:4700::1111|{V4}|1.1.1.1", [V6, V4]),
        (f"{V4}|1.1.1.1|2606:4700::1111|{V6}", [V4, "2606:4700::1111"]),
        (f"{V4}|1.1.1.1|8.8.8.8", [V4, "1.1.1.1"]),
        (V6, [V6]),
    ],
)
async def test_the_two_addresses_that_are_tried_are_of_both_families_if_there_are(addresses: str, dialled: list[str]):
    dialler = Dialler(silent=addresses.split("|"))
    with pytest.raises(httpcore2.ConnectTimeout):
        await Guard(POLICY, FakeResolver(agent_example=addresses), SOMEBODY, unlimited(), dialler=dialler).connect_tcp(
            "agent.example", 443
        )
    assert dialler.dials == dialled


def test_a_look_up_and_both_dials_leave_time_for_an_answer():
    timeouts = AttemptTimeouts()
    assert TURN_SECONDS + LOOKUP_SECONDS + MAX_DIALS * timeouts.connect < timeouts.total


async def test_a_connection_that_leads_elsewhere_than_dialled_is_closed():
    async with receiver(says(b"")) as server:
        dialler = Dialler(everything_at=server.port)
        with pytest.raises(TargetRefused):
            await Guard(POLICY, FakeResolver(agent_example=V4), SOMEBODY, unlimited(), dialler=dialler).connect_tcp(
                "agent.example", 443
            )
        assert dialler.dials == [V4]
        assert dialler.open == 0


async def test_a_connection_that_is_gone_before_it_was_checked_is_no_refusal():
    guard = Guard(POLICY, FakeResolver(agent_example=V4), SOMEBODY, unlimited(), dialler=httpcore2.AsyncMockBackend([]))
    with pytest.raises(httpcore2.ConnectError):
        await guard.connect_tcp("agent.example", 443)


async def test_a_name_that_does_not_resolve_is_no_connection():
    dialler = Dialler()
    with pytest.raises(httpcore2.ConnectError):
        await Guard(POLICY, FakeResolver(), SOMEBODY, unlimited(), dialler=dialler).connect_tcp("agent.example", 443)
    assert dialler.dials == []


async def test_nothing_is_left_of_a_guard_that_may_not_call_now(without_collector: None):
    """A call that waits for its turn is tried again and again. If guards stayed, each try would keep its request in
    memory.
    """
    breaker = Breaker(FakeStore(), Limit(1, 60))
    await breaker.admit(circuit_of_address(ip_address(V4), 443), SOMEBODY)
    guard = Guard(POLICY, FakeResolver(agent_example=V4), SOMEBODY, breaker)
    left = weakref.ref(guard)
    with suppress(NotNow):
        await guard.connect_tcp("agent.example", 443)
    del guard
    assert left() is None


async def test_no_more_is_read_than_an_answer_needs():
    async with receiver(repeats(b"", b"x" * 4096)) as server:
        dialler = Dialler()
        stream = await Guard(PRIVATE, FakeResolver(), SOMEBODY, unlimited(), dialler=dialler).connect_tcp(
            "127.0.0.1", server.port
        )
        await stream.write(b"GET / HTTP/1.1\r\nContent-Length: 0\r\n\r\n")
        with pytest.raises(httpcore2.ReadError):
            while True:
                await stream.read(64 * 1024)
        await stream.aclose()
        assert dialler.bytes_read == MAX_READ
