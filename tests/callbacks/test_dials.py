"""Every dial counts against its network, and every failed dial against its address, whatever name led there. On a real
Redis.
"""

import socket
from ipaddress import ip_address

import httpcore2
import pytest

from node.callbacks.attempt import NotNow
from node.callbacks.breaker import FAILURES, FIRST_OPEN_MS, Breaker, Circuit, circuit_of_address
from node.callbacks.guard import Guard
from node.callbacks.lookup import NotLookedUp
from node.callbacks.owners import Requester
from node.callbacks.target import TargetPolicy
from node.config import Limit
from node.config.values import Address
from node.store import StoreUnavailable
from tests.callbacks.network import SOMEBODY, Dialler, FakeResolver, receiver, says, unlimited
from tests.support.node_under_test import NodeUnderTest

POLICY = TargetPolicy.of("https://node.example")
V4, V6 = "93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946"


@pytest.fixture
def breaker(node: NodeUnderTest) -> Breaker:
    return Breaker(node.store, Limit(6, 60))


async def dial(breaker: Breaker, dialler: Dialler, answer: str, site: str = "ann", port: int = 443) -> Exception | None:
    """Dial a name with these addresses. Returns the failure, or None."""
    resolver = FakeResolver(agent_example=answer)
    guard = Guard(POLICY, resolver, Requester(site), breaker, dialler=dialler)
    try:
        await guard.connect_tcp("agent.example", port)
    except (NotNow, httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
        return error
    return None


@pytest.mark.parametrize(
    ("addresses", "elsewhere"),
    [
        (["93.184.216.34", "93.184.216.35", "93.184.216.255"], "93.184.217.0"),
        (["2606:2800:220:1::1", "2606:2800:220:1::2", "2606:2800:220:1:ffff::"], "2606:2800:220:2::1"),
    ],
)
async def test_the_addresses_of_one_network_share_its_rate(
    breaker: Breaker, addresses: list[str], elsewhere: str
) -> None:
    dialler = Dialler(dead=[*addresses, elsewhere])
    for number in range(6):
        await dial(breaker, dialler, addresses[number % 3], f"site {number}", port=1000 + number)
    failure = await dial(breaker, dialler, addresses[0], "another site", port=443)
    assert isinstance(failure, NotNow)
    assert failure.wait_ms <= 60_000
    assert len(dialler.dials) == 6
    await dial(breaker, dialler, elsewhere)
    assert dialler.dials[-1] == elsewhere


async def test_of_a_network_s_rate_one_site_leaves_a_third_to_the_others(breaker: Breaker) -> None:
    dialler = Dialler(dead=[V4])
    for number in range(6):
        await dial(breaker, dialler, V4, "greedy", port=1000 + number)
    assert len(dialler.dials) == 5
    assert not isinstance(await dial(breaker, dialler, V4, "modest", port=2000), NotNow)


async def test_an_address_that_nobody_answers_at_is_left_alone_whatever_the_name(node: NodeUnderTest) -> None:
    breaker = Breaker(node.store, Limit(0, 1))
    dialler = Dialler(dead=[V4])
    for _ in range(FAILURES):
        assert isinstance(await dial(breaker, dialler, V4), httpcore2.ConnectError)
    failure = await dial(breaker, dialler, V4, "another site")
    assert isinstance(failure, NotNow)
    assert FIRST_OPEN_MS - 5000 < failure.wait_ms <= FIRST_OPEN_MS
    assert isinstance(await dial(breaker, dialler, V4, port=80), httpcore2.ConnectError)


async def test_the_other_address_of_a_name_is_dialled_while_the_first_is_left_alone(node: NodeUnderTest) -> None:
    breaker = Breaker(node.store, Limit(0, 1))
    dialler = Dialler(dead=[V6], silent=[V4])
    for _ in range(FAILURES):
        await dial(breaker, dialler, V6)
    assert isinstance(await dial(breaker, dialler, f"{V6}|{V4}"), httpcore2.ConnectTimeout)
    assert dialler.dials == [V6] * FAILURES + [V4]


async def test_a_name_is_out_of_reach_if_nobody_answers_at_one_address_and_the_other_is_left_alone(
    node: NodeUnderTest,
) -> None:
    breaker = Breaker(node.store, Limit(0, 1))
    dialler = Dialler(dead=[V6, V4])
    for _ in range(FAILURES):
        await dial(breaker, dialler, V4)
    assert isinstance(await dial(breaker, dialler, f"{V6}|{V4}"), httpcore2.ConnectError)


async def test_a_connection_that_is_made_ends_the_failures_in_a_row(node: NodeUnderTest) -> None:
    breaker = Breaker(node.store, Limit(0, 1))
    async with receiver(says(b"")) as server:
        guard = Guard(TargetPolicy(allow_private=True), FakeResolver(), SOMEBODY, breaker, dialler=Dialler())
        for _ in range(2):
            for _ in range(FAILURES - 1):
                await breaker.failed(circuit_of_address(ip_address("127.0.0.1"), server.port))
            await (await guard.connect_tcp("127.0.0.1", server.port)).aclose()
    assert await node.names("rate:*:callback-failures:*") == []


async def test_a_name_that_this_node_could_not_look_up_is_dialled_later() -> None:
    async def busy(host: str, site: str = "") -> list[Address]:
        raise NotLookedUp(host)

    guard = Guard(POLICY, busy, SOMEBODY, unlimited(), dialler=Dialler())
    with pytest.raises(NotNow):
        await guard.connect_tcp("agent.example", 443)


async def test_a_connection_does_not_stay_open_if_its_success_cannot_be_noted(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    breaker, dialler = Breaker(node.store, Limit(0, 1)), Dialler()

    async def out_of_reach(_: Circuit) -> None:
        raise StoreUnavailable("out of reach")

    monkeypatch.setattr(breaker, "succeeded", out_of_reach)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        guard = Guard(TargetPolicy(allow_private=True), FakeResolver(), SOMEBODY, breaker, dialler=dialler)
        await breaker.failed(circuit_of_address(ip_address("127.0.0.1"), port))
        with pytest.raises(StoreUnavailable):
            await guard.connect_tcp("127.0.0.1", port)
    assert (dialler.dials, dialler.open) == (["127.0.0.1"], 0)
