"""Which client a request counts for (DESIGN 6, Client address)."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from structlog.testing import CapturingLogger

from node.config import Proxies
from node.web import address
from node.web.address import MAX_WARNINGS, SAMPLED_ONE_IN, ClientAddress


def scope(peer: str, **headers: str) -> dict[str, Any]:
    named = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return {"client": (peer, 1), "headers": named}


def test_the_peer_counts_when_no_proxy_is_trusted() -> None:
    assert ClientAddress(Proxies()).of(scope("198.51.100.1", x_forwarded_for="1.2.3.4")) == "198.51.100.1"


@pytest.mark.parametrize(
    ("peer", "counted"),
    [
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("::ffff:198.51.100.1", "198.51.100.1"),
        ("64:ff9b::198.51.100.1", "198.51.100.1"),
        ("64:ff9b::1:0:0", "64:ff9b::/64"),
        ("", "unix"),
    ],
)
def test_an_ipv6_client_has_a_whole_network(peer: str, counted: str) -> None:
    assert ClientAddress(Proxies()).of(scope(peer)) == counted


def test_a_peer_that_the_server_does_not_name_is_on_a_unix_socket() -> None:
    assert ClientAddress(Proxies()).of({"client": None, "headers": []}) == "unix"


@pytest.mark.parametrize(
    ("trusted", "peer", "forwarded", "counted"),
    [
        ("10.0.0.0/8", "10.0.0.1", "203.0.113.5", "203.0.113.5"),
        ("10.0.0.0/8", "10.0.0.1", "6.6.6.6, 203.0.113.5", "203.0.113.5"),
        ("10.0.0.0/8", "10.0.0.1", "203.0.113.5, 10.0.0.2", "203.0.113.5"),
        ("10.0.0.0/8", "10.0.0.1", "6.6.6.6, nonsense", "10.0.0.1"),
        ("10.0.0.0/8", "10.0.0.1", "6.6.6.6, nonsense, 10.0.0.2", "10.0.0.1"),
        ("10.0.0.0/8", "10.0.0.1", "203.0.113.5, , ", "203.0.113.5"),
        ("10.0.0.0/8", "10.0.0.1", "10.0.0.3, 10.0.0.2", "10.0.0.3"),
        ("10.0.0.0/8", "198.51.100.1", "203.0.113.5", "198.51.100.1"),
        ("unix", "", "203.0.113.5", "203.0.113.5"),
        ("10.0.0.1", "10.0.0.1", "203.0.113.5:4711", "203.0.113.5"),
        ("10.0.0.1", "10.0.0.1", "[2001:db8::7]:4711", "2001:db8::/64"),
        ("10.0.0.1", "10.0.0.1", "", "10.0.0.1"),
    ],
)
def test_the_rightmost_hop_that_is_not_trusted_counts(trusted: str, peer: str, forwarded: str, counted: str) -> None:
    assert ClientAddress(Proxies.parse(trusted)).of(scope(peer, x_forwarded_for=forwarded)) == counted


@pytest.mark.parametrize(("header", "counted"), [("forwarded", "2001:db8::/64"), ("x-forwarded-for", "6.6.6.6")])
def test_only_the_header_is_read_that_the_proxy_writes(header: str, counted: str) -> None:
    hops = scope("10.0.0.1", forwarded='for=203.0.113.5;proto=https, for="[2001:db8::7]:80"', x_forwarded_for="6.6.6.6")
    assert ClientAddress(Proxies.parse("10.0.0.0/8"), header).of(hops) == counted
    del hops["headers"][0 if header == "forwarded" else 1]
    assert ClientAddress(Proxies.parse("10.0.0.0/8"), header).of(hops) == "10.0.0.1"


@pytest.mark.parametrize(
    ("forwarded", "counted"),
    [
        ("for=203.0.113.5", "203.0.113.5"),
        ("For=203.0.113.5; Proto=https;by=_hidden", "203.0.113.5"),
        ('proto=https;for="203.0.113.5:4711"', "203.0.113.5"),
        ('for=203.0.113.5, for=10.0.0.2, for="10.0.0.3:80"', "203.0.113.5"),
        ('for=203.0.113.5;host="a,for=6.6.6.6;b="', "203.0.113.5"),
        ('for=203.0.113.5;host="a;for=6.6.6.6"', "203.0.113.5"),
        ('for="[2001:db8::7]"', "2001:db8::/64"),
        ('for="2001:db8::7"', "2001:db8::/64"),
        ('for="[2001:db8::7"', "10.0.0.1"),
        ('for="[2001:db8::7]x"', "10.0.0.1"),
        ('for="[2001:db8::7], for="', "10.0.0.1"),
        ("for=203.0.113.5:4711", "10.0.0.1"),
        ("for=203.0.113.5;for=6.6.6.6", "10.0.0.1"),
        ("for=203.0.113.5 for=6.6.6.6", "10.0.0.1"),
        ("for=203.0.113.5, for=unknown, for=10.0.0.2", "10.0.0.1"),
        ("for=203.0.113.5, for=6.6.6.6 for=6.6.6.6, for=10.0.0.2", "10.0.0.1"),
        ("for=203.0.113.5 , for=10.0.0.2", "203.0.113.5"),
        ("for=10.0.0.3, for=10.0.0.2", "10.0.0.3"),
        ('for="203.0.113.5', "10.0.0.1"),
        ('for="203.0.113.5\\"', "10.0.0.1"),
        ("for=203.0.113.5,", "10.0.0.1"),
        ("for=unknown", "10.0.0.1"),
        ("for=_hidden", "10.0.0.1"),
        ("proto=https", "10.0.0.1"),
        ("203.0.113.5", "10.0.0.1"),
        ("", "10.0.0.1"),
    ],
)
def test_forwarded_is_read_by_its_grammar(forwarded: str, counted: str) -> None:
    assert ClientAddress(Proxies.parse("10.0.0.0/8"), "forwarded").of(scope("10.0.0.1", forwarded=forwarded)) == counted


def test_each_of_thousands_of_hops_is_read_once() -> None:
    # Reading the text before each hop again would take an hour.
    hops = ", ".join(["for=203.0.113.5", *["for=10.0.0.2"] * 50_000])
    asked = scope("10.0.0.1", forwarded=hops)
    assert ClientAddress(Proxies.parse("10.0.0.0/8"), "forwarded").of(asked) == "203.0.113.5"


CLAIMS = st.lists(
    st.sampled_from(
        [*'",;=\\[] \t:', "for=", 'for="', "6.6.6.6", "10.0.0.2", "[2001:dead::1]", 'host="', "host=a", "for=6.6.6.6"]
    )
    | st.text(st.characters(codec="latin-1", exclude_categories=["Cc"]), max_size=8),
    max_size=12,
).map("".join)


@given(
    claims=st.lists(CLAIMS, max_size=3),
    other=CLAIMS,
    joined=st.booleans(),
    added=st.sampled_from(
        [
            ("x-forwarded-for", "203.0.113.5", "203.0.113.5"),
            ("x-forwarded-for", "203.0.113.5:80", "203.0.113.5"),
            ("x-forwarded-for", "2001:db8::1", "2001:db8::/64"),
            ("x-forwarded-for", "[2001:db8::1]:80", "2001:db8::/64"),
            ("x-forwarded-for", "203.0.113.5, 10.0.0.2", "203.0.113.5"),
            ("forwarded", "for=203.0.113.5", "203.0.113.5"),
            ("forwarded", 'for="203.0.113.5:80";proto=https', "203.0.113.5"),
            ("forwarded", 'for="[2001:db8::1]"', "2001:db8::/64"),
            ("forwarded", 'proto=http;for="[2001:db8::1]:80";by="[2001:db8::2]"', "2001:db8::/64"),
            ("forwarded", 'for=203.0.113.5;host="node.example:80", for="10.0.0.2:1"', "203.0.113.5"),
        ]
    ),
)
@example(['for="[2001:dead::1]'], "", True, ("forwarded", 'for="[2001:db8::1]"', "2001:db8::/64"))
@example(['for=6.6.6.6;a="'], "", True, ("forwarded", 'for="[2001:db8::1]"', "2001:db8::/64"))
@example(["for=6.6.6.6"], "for=6.6.6.6", True, ("x-forwarded-for", "203.0.113.5", "203.0.113.5"))
def test_nothing_that_a_client_sends_changes_what_its_proxy_says(
    claims: list[str], other: str, joined: bool, added: tuple[str, str, str]
) -> None:
    header, said, counted = added
    lines = [", ".join([*claims, said])] if joined else [*claims, said]
    unread = "forwarded" if header == "x-forwarded-for" else "x-forwarded-for"
    headers = [
        (unread.encode(), other.encode("latin-1")),
        *((header.encode(), each.encode("latin-1")) for each in lines),
    ]
    asked = {"client": ("10.0.0.1", 1), "headers": headers}
    assert ClientAddress(Proxies.parse("10.0.0.0/8"), header).of(asked) == counted


def test_proxies_may_be_replaced_by_others() -> None:
    address, sent = ClientAddress(Proxies.parse("10.0.0.1")), scope("10.0.0.1", x_forwarded_for="203.0.113.5")
    assert address.of(sent) == "203.0.113.5"
    address.trust(Proxies.parse("10.0.0.2"))
    assert address.of(sent) == "10.0.0.1"


def test_header_lines_of_several_proxies_are_joined_in_order() -> None:
    lines = [(b"x-forwarded-for", b"6.6.6.6"), (b"x-forwarded-for", b"203.0.113.5")]
    assert ClientAddress(Proxies.parse("10.0.0.1")).of({"client": ("10.0.0.1", 1), "headers": lines}) == "203.0.113.5"


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> CapturingLogger:
    log = CapturingLogger()
    monkeypatch.setattr(address, "log", log)
    return log


def test_a_neighbour_that_passes_requests_on_and_is_not_believed_is_told_of_once(log: CapturingLogger) -> None:
    addresses = ClientAddress(Proxies.parse("10.0.0.1"))
    for peer in ("10.0.0.1", "8.8.8.8", "10.0.0.2", "", "10.0.0.2"):
        for _ in range(SAMPLED_ONE_IN):
            addresses.of(scope(peer, x_forwarded_for="203.0.113.5"))
            addresses.of(scope("10.0.0.3"))
    for _ in range(SAMPLED_ONE_IN):
        addresses.of(scope("10.0.0.3"))
    assert [call.kwargs["peer"] for call in log.calls] == ["10.0.0.2", "unix"]


def test_of_many_such_neighbours_only_the_first_are_told_of(log: CapturingLogger) -> None:
    addresses = ClientAddress(Proxies())
    for number in range(MAX_WARNINGS + 2):
        for _ in range(SAMPLED_ONE_IN):
            addresses.of(scope(f"10.0.0.{number}", x_forwarded_for="203.0.113.5"))
    assert len(log.calls) == MAX_WARNINGS
