"""For any given URL and any answer of a receiver, there is a verdict and no stray exception."""

from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address
from urllib.parse import urlsplit

from hypothesis import given
from hypothesis import strategies as st

from node.callbacks.attempt import MAX_RETRY_AFTER, retry_after
from node.callbacks.public_addresses import is_public
from node.callbacks.target import WEB_PORTS, TargetPolicy, TargetRefused, parse

POLICY = TargetPolicy.of("https://node.example")
SCRAPS = (
    *("http", "https", "://", ":", "/", "//", "\\", "@", "#", "?", "%", "%2e", "%00", "[", "]", "::", ".", "..", "-"),
    *("127.0.0.1", "8.8.8.8", "0x7f", "0177", "1", "::1", "2606:4700::1", "agent.example", "localhost", "nip.io"),
    *(
        "xn--",
        "443",
        "80",
        "0",
        " ",
        "\t",
        "\n",
        "\r\n",
        "\x00",
        "\u3002",
        "\uff11",
        "\u017f",
        "\ud800",
        "a" * 64,
        "a" * 300,
    ),
)
MIXED = st.lists(st.one_of(st.sampled_from(SCRAPS), st.text(max_size=3)), max_size=12).map("".join)
URLS = st.one_of(
    MIXED,
    st.builds("{}://{}{}".format, st.sampled_from(("http", "https")), MIXED, st.sampled_from(("", "/", "/x?y=z"))),
    st.builds("https://{}/".format, st.one_of(st.ip_addresses(v=4).map(str), st.ip_addresses(v=6).map("[{}]".format))),
)


@given(URLS)
def test_a_url_is_refused_or_means_the_same_to_the_parser_of_the_standard_library(url: str):
    try:
        target = parse(url, POLICY)
    except TargetRefused as refusal:
        assert str(refusal)
        return
    other = urlsplit(target.url)
    assert (other.scheme, other.hostname, other.username) == (target.scheme, target.host.strip("[]"), None)
    assert (other.port or {"http": 80, "https": 443}[target.scheme]) == target.port
    assert target.port in WEB_PORTS
    assert target.address is None or is_public(target.address)
    assert target.url.isascii()
    assert target.url.isprintable()
    assert parse(target.url, POLICY) == target


@given(
    st.one_of(st.ip_addresses(), st.integers(0, 2**32 - 1).map(lambda v4: IPv6Address((0x2002 << 112) + (v4 << 80))))
)
def test_what_python_knows_to_be_local_is_never_public(address: IPv4Address | IPv6Address):
    if address.is_private or address.is_multicast or address.is_link_local or address.is_reserved:
        assert not is_public(address)


@given(
    st.one_of(
        st.text(),
        st.from_regex(r"[0-9]+"),
        st.from_regex(r"[A-Z][a-z]{2}, \d\d? [A-Z][a-z]{2} \d{1,6} \d\d:\d\d:\d\d .*"),
    )
)
def test_retry_after_is_none_or_within_a_day(value: str):
    with suppress(UnicodeEncodeError):
        value.encode("latin-1")
        after = retry_after(value, 1767225600.0)
        assert after is None or 0 <= after <= MAX_RETRY_AFTER
