"""What a machine knows of a name: from its hosts file, and from a DNS server that is quick, slow, silent, broken or
verbose.
"""

import socket
from asyncio import DatagramTransport
from ipaddress import ip_address
from itertools import pairwise
from pathlib import Path
from typing import Any

import dns.message
import pytest

from node.callbacks.dns_answer import MAX_LABELS
from node.callbacks.lookup import (
    LOOKUP_SECONDS,
    MAX_ADDRESSES,
    MAX_ANSWER,
    Lookup,
    LookupResult,
    NotLookedUp,
    NotResolved,
)
from tests.callbacks.dns_server import FAILS, SILENT, DnsServer
from tests.callbacks.test_dns_answer import LONG, answer
from tests.support.servers import PATIENCE

V4, V6 = "93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946"
FORGED = answer((b"\0", 5, LONG))
"""An answer that would take long to parse."""


async def addresses(lookup: Lookup, host: str) -> set[str]:
    return {str(address) for address in (await lookup(host)).addresses}


async def test_a_name_has_the_addresses_of_both_families_and_the_least_of_their_times(tmp_path: Path) -> None:
    async with DnsServer({"agent.example": [f"300 A {V4}", f"60 AAAA {V6}"]}) as server:
        lookup = server.lookup(tmp_path)
        assert await addresses(lookup, "agent.example") == {V4, V6}
        assert (await lookup("agent.example")).ttl == 60


async def test_aliases_are_followed_and_their_times_count_too(tmp_path: Path) -> None:
    aliases = {"agent.example": ["5 CNAME a.host.example"], "a.host.example": ["60 CNAME b.host.example"]}
    async with DnsServer(aliases | {"b.host.example": [f"300 A {V4}"]}) as server:
        assert await server.lookup(tmp_path)("agent.example") == LookupResult([ip_address(V4)], 5)


async def test_a_name_that_does_not_exist_or_has_no_address_is_not_resolved(tmp_path: Path) -> None:
    async with DnsServer({"mail.example": ["60 MX 10 agent.example."]}) as server:
        for name in ("agent.example", "mail.example", "a..b", f"{'a' * 64}.example"):
            with pytest.raises(NotResolved, match="has no address") as failure:
                await server.lookup(tmp_path)(name)
            assert not isinstance(failure.value, NotLookedUp)


async def test_a_name_whose_servers_are_broken_or_silent_is_not_resolved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with DnsServer({"broken.example": FAILS, "silent.example": SILENT}) as server:
        for name, seconds, why in (
            ("broken.example", PATIENCE, "has no address"),
            ("silent.example", 0.2, "was not resolved within"),
        ):
            monkeypatch.setattr("node.callbacks.lookup.LOOKUP_SECONDS", seconds)
            with pytest.raises(NotResolved, match=why) as failure:
                await server.lookup(tmp_path)(name)
            assert not isinstance(failure.value, NotLookedUp)


async def test_a_query_that_is_lost_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("node.callbacks.lookup.TRY_SECONDS", 0.1)
    async with DnsServer({"agent.example": [f"60 A {V4}"]}) as server:
        server.to_lose = 2
        assert await addresses(server.lookup(tmp_path), "agent.example") == {V4}
        assert server.asked["agent.example"] > 2


async def test_one_family_that_is_not_answered_does_not_hide_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some servers drop queries of types that they do not know, above all AAAA."""
    monkeypatch.setattr("node.callbacks.lookup.TRY_SECONDS", LOOKUP_SECONDS)  # no query is repeated
    async with DnsServer({"agent.example": [f"60 A {V4}"]}) as server:
        server.to_lose = 1  # the query for AAAA is the first one
        assert await addresses(server.lookup(tmp_path), "agent.example") == {V4}


async def test_an_answer_too_long_for_a_datagram_is_fetched_over_tcp_and_only_its_beginning_is_taken(
    tmp_path: Path,
) -> None:
    async with DnsServer({"agent.example": [f"60 A 192.0.2.{n}" for n in range(200)]}) as server:
        found = await server.lookup(tmp_path)("agent.example")
        assert len(found.addresses) == MAX_ADDRESSES


async def test_an_answer_over_tcp_to_another_question_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with DnsServer({"agent.example": [f"60 A 192.0.2.{n}" for n in range(50)]}) as server:
        answer_truly = server.answer

        async def answer_another(query: bytes, most: int) -> bytes | None:
            wire = await answer_truly(query, most)
            return wire if wire is None or most == server.most else bytes([wire[0] ^ 1]) + wire[1:]

        monkeypatch.setattr(server, "answer", answer_another)
        with pytest.raises(NotResolved, match="has no address"):
            await server.lookup(tmp_path)("agent.example")


async def test_an_answer_that_takes_long_to_parse_is_not_parsed(tmp_path: Path) -> None:
    many = [f"60 A 192.0.{n // 250}.{n % 250}" for n in range(MAX_ANSWER // 16)]
    async with DnsServer({"agent.example": many}) as server:
        with pytest.raises(NotResolved, match="has no address") as failure:
            await server.lookup(tmp_path)("agent.example")
        assert not isinstance(failure.value, NotLookedUp)


@pytest.mark.parametrize("most", [512, MAX_ANSWER])  # over TCP, and in a datagram
async def test_an_answer_with_names_of_many_labels_is_not_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """Twelve aliases of 120 labels and 200 addresses would hold up the event loop for 70 ms."""
    monkeypatch.setattr("node.callbacks.lookup.TRY_SECONDS", 20.0)  # this server takes long to write such names
    monkeypatch.setattr("node.callbacks.lookup.LOOKUP_SECONDS", 20.0)
    long = ".".join(["a"] * 117) + ".example"
    names = ["agent.example", *(f"{first}.{long}" for first in "bcd")]
    records = {name: [f"5 CNAME {after}"] for name, after in pairwise(names)}
    records[names[-1]] = [f"5 A 192.0.2.{n}" for n in range(50)]
    parsed: list[int] = []
    parse = dns.message.from_wire

    def noted(wire: bytes, **how: Any) -> dns.message.Message:
        parsed.append(len(wire))
        return parse(wire, **how)

    async with DnsServer(records) as server:
        server.most = most
        monkeypatch.setattr("dns.message.from_wire", noted)
        with pytest.raises(NotResolved, match="has no address") as failure:
            await server.lookup(tmp_path)("agent.example")
    assert not isinstance(failure.value, NotLookedUp)
    assert max(parsed) < 100, "queries and truncated answers only"


async def test_what_strangers_send_in_the_place_of_a_server_is_neither_parsed_nor_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sender that does not know the query's number, or sends from another address, cannot keep a name from being
    found.
    """
    parsed: list[bytes] = []
    parse = dns.message.from_wire

    def noted(wire: bytes, **how: Any) -> dns.message.Message:
        parsed.append(wire)
        return parse(wire, **how)

    async with DnsServer({"agent.example": [f"60 A {V4}"]}) as server:
        take = server.take

        def take_and_forge(query: bytes, transport: DatagramTransport, sender: tuple[str, int]) -> None:
            transport.sendto(bytes([query[0] ^ 1, query[1]]) + FORGED[2:], sender)
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as elsewhere:
                elsewhere.sendto(dns.message.make_response(parse(query)).to_wire(), sender)
            take(query, transport, sender)

        monkeypatch.setattr(server, "take", take_and_forge)
        monkeypatch.setattr("dns.message.from_wire", noted)
        assert await addresses(server.lookup(tmp_path), "agent.example") == {V4}
    assert not any(wire.endswith(FORGED[2:]) for wire in parsed)


async def test_a_host_of_many_labels_is_not_asked_for(tmp_path: Path) -> None:
    async with DnsServer({}) as server:
        longest = ".".join(["a"] * MAX_LABELS)
        for host, asked in ((longest, 2), (f"a.{longest}", 0)):
            with pytest.raises(NotResolved):
                await server.lookup(tmp_path)(host)
            assert server.asked[host] == asked


async def test_a_machine_without_a_way_to_its_servers_learns_nothing_of_the_name(tmp_path: Path) -> None:
    conf = tmp_path / "resolv.conf"
    conf.write_text("nameserver 255.255.255.255\n")  # sending a datagram to it is not permitted
    with pytest.raises(NotLookedUp):
        await Lookup(hosts=tmp_path / "hosts", resolv_conf=conf)("agent.example")


async def test_the_hosts_file_comes_before_the_dns_and_is_read_again_when_it_changes(tmp_path: Path) -> None:
    async with DnsServer({"agent.example": [f"60 A {V4}"]}) as server:
        hosts = (
            "# hosts\n\n10.0.0.1 a AGENT.example # a note\nrubbish c.example\n10.0.0.2 agent.example agent.example\n"
        )
        lookup = server.lookup(tmp_path, hosts=hosts)
        listed = [ip_address("10.0.0.1"), ip_address("10.0.0.2")]
        assert await lookup("agent.example") == LookupResult(listed, 0), "kept by nobody"
        assert not server.asked
        with pytest.raises(NotResolved):
            await lookup("c.example")
        (tmp_path / "hosts").write_bytes(b"10.0.0.3 caf\xe9 # Latin-1\n10.0.0.4 agent.example\n")
        assert await addresses(lookup, "agent.example") == {"10.0.0.4"}
        (tmp_path / "hosts").write_text("")
        assert await addresses(lookup, "agent.example") == {V4}
        (tmp_path / "hosts").unlink()
        assert await addresses(lookup, "agent.example") == {V4}


async def test_a_name_is_never_looked_up_in_the_search_list_of_this_machine(tmp_path: Path) -> None:
    """Otherwise in a pod, `kubernetes` or `api.other` would be a service of the cluster."""
    names = {"hooks.corp.example": [f"60 A {V4}"], "api.other.corp.example": [f"60 A {V4}"], "a.b": [f"60 AAAA {V6}"]}
    async with DnsServer(names) as server:
        lookup = server.lookup(tmp_path, "search corp.example\noptions ndots:5\n")
        for name in ("hooks", "api.other"):
            with pytest.raises(NotResolved):
                await lookup(name)
            assert not server.asked[f"{name}.corp.example"]
        assert await addresses(lookup, "a.b") == {V6}


async def test_resolv_conf_is_read_again_when_it_changes(tmp_path: Path) -> None:
    async with DnsServer({"hooks.example": [f"60 A {V4}"]}) as server:
        lookup = server.lookup(tmp_path)
        (tmp_path / "resolv.conf").write_bytes(b"# caf\xe9\nnameserver rubbish\nsearch a..b\nnameserver 127.0.0.2\n")
        with pytest.raises(NotResolved):
            await lookup("hooks.example")
        (tmp_path / "resolv.conf").write_text("# there again\nnameserver 127.0.0.1\n")
        assert await addresses(lookup, "hooks.example") == {V4}


@pytest.mark.parametrize("conf", [None, "", "nameserver rubbish\n"])
async def test_where_resolv_conf_names_no_server_the_one_on_this_machine_is_asked(
    tmp_path: Path, conf: str | None
) -> None:
    async with DnsServer({"agent.example": [f"60 A {V4}"]}) as server:
        path = tmp_path / "resolv.conf"
        if conf is not None:
            path.write_text(conf)
        assert await addresses(Lookup(hosts=tmp_path / "hosts", resolv_conf=path, port=server.port), "agent.example")


@pytest.mark.skipif(not Path("/proc/net/if_inet6").exists(), reason="this machine has no IPv6")
async def test_an_address_without_a_route_comes_last(tmp_path: Path) -> None:
    # No datagram may be sent to the broadcast address, so on any machine it counts as having no route.
    async with DnsServer({}) as server:
        # A link-local address leads nowhere either, unless its link is named.
        hosts = "255.255.255.255 v6 v4\n::1 v6\nfe80::1 v4-only\n127.0.0.1 v4-only\n"
        lookup = server.lookup(tmp_path, hosts=hosts)
        assert [str(each) for each in (await lookup("v6")).addresses] == ["::1", "255.255.255.255"]
        assert [str(each) for each in (await lookup("v4-only")).addresses] == ["127.0.0.1", "fe80::1"]
        assert await addresses(lookup, "v4") == {"255.255.255.255"}
