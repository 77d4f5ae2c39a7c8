"""Whose request it is (DESIGN 6, Client address)."""

from typing import Any

import pytest

from node.web.address import ClientAddress


def scope(peer: str, **headers: str) -> dict[str, Any]:
    named = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return {"client": (peer, 1), "headers": named}


def test_the_peer_counts_when_no_proxy_is_trusted() -> None:
    assert ClientAddress("").of(scope("198.51.100.1", x_forwarded_for="1.2.3.4")) == "198.51.100.1"


@pytest.mark.parametrize(
    ("peer", "counted"),
    [
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("::ffff:198.51.100.1", "198.51.100.1"),
        ("", "unix"),
    ],
)
def test_an_ipv6_client_has_a_whole_network(peer: str, counted: str) -> None:
    assert ClientAddress("").of(scope(peer)) == counted


@pytest.mark.parametrize(
    ("trusted", "peer", "forwarded", "counted"),
    [
        ("10.0.0.0/8", "10.0.0.1", "203.0.113.5", "203.0.113.5"),
        ("10.0.0.0/8", "10.0.0.1", "6.6.6.6, 203.0.113.5", "203.0.113.5"),
        ("10.0.0.0/8", "10.0.0.1", "203.0.113.5, 10.0.0.2", "203.0.113.5"),
        ("10.0.0.0/8", "10.0.0.1", "6.6.6.6, nonsense", "10.0.0.1"),
        ("10.0.0.0/8", "10.0.0.1", "10.0.0.3, 10.0.0.2", "10.0.0.3"),
        ("10.0.0.0/8", "198.51.100.1", "203.0.113.5", "198.51.100.1"),
        ("unix", "", "203.0.113.5", "203.0.113.5"),
        ("10.0.0.1", "10.0.0.1", "203.0.113.5:4711", "203.0.113.5"),
        ("10.0.0.1", "10.0.0.1", "[2001:db8::7]:4711", "2001:db8::/64"),
        ("10.0.0.1", "10.0.0.1", "", "10.0.0.1"),
    ],
)
def test_the_rightmost_hop_that_is_not_trusted_counts(trusted: str, peer: str, forwarded: str, counted: str) -> None:
    assert ClientAddress(trusted).of(scope(peer, x_forwarded_for=forwarded)) == counted


def test_forwarded_is_read_before_x_forwarded_for() -> None:
    hops = scope("10.0.0.1", forwarded='for=203.0.113.5;proto=https, for="[2001:db8::7]:80"', x_forwarded_for="6.6.6.6")
    assert ClientAddress("10.0.0.0/8").of(hops) == "2001:db8::/64"


def test_header_lines_of_several_proxies_are_joined_in_order() -> None:
    lines = [(b"x-forwarded-for", b"6.6.6.6"), (b"x-forwarded-for", b"203.0.113.5")]
    assert ClientAddress("10.0.0.1").of({"client": ("10.0.0.1", 1), "headers": lines}) == "203.0.113.5"
