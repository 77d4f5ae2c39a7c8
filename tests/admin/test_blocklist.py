"""Blocked clients are refused by every web process, at once and without asking Redis for each request."""

import asyncio
import json
from typing import Any

import pytest

from node.share.origin import ClientOrigin, contains
from node.share.site import network_of
from node.store import Arg, RedisReply, keys
from node.store.blocked import Blocklist
from node.web.blocklist import BlockedClients
from tests.admin.conftest import Admin
from tests.support.node_under_test import NodeUnderTest, until

ADDRESS = "203.0.113.7"  # the address of node.client


async def is_refused(node: NodeUnderTest, address: str) -> bool:
    async with node.client_at(address) as client:
        response = await client.get("/api/v1/board")
    if response.status_code == 403:
        assert response.headers["x-error-code"] == "client.blocked"
    return response.status_code == 403


async def commands(node: NodeUnderTest) -> int:
    """Return how many commands Redis has run so far."""
    info: Any = await node.store.command("INFO", "stats")
    return int(info.decode().partition("total_commands_processed:")[2].split()[0])


async def test_a_blocked_client_is_refused_everything_but_health(node: NodeUnderTest, admin: Admin) -> None:
    assert (await admin("clients", "block", ADDRESS, "--reason", "floods the board")).status == 0
    await until(lambda: is_refused(node, ADDRESS))
    for method, path in [
        ("POST", "/api/v1/relay"),
        ("POST", "/api/v1/mcp"),
        ("GET", "/"),
        ("GET", "/nothing"),
        ("HEAD", "/api/v1/board"),
        ("OPTIONS", "/api/v1/relay"),
        ("PUT", "/blobs/x"),
        ("GET", "/health/"),
    ]:
        response = await node.client.request(method, path)
        assert (response.status_code, response.headers["x-error-code"]) == (403, "client.blocked"), path
        assert bool(response.content) == (method != "HEAD")
        assert response.headers["x-request-id"]
    assert (await node.client.get("/health")).status_code == 200
    assert not await is_refused(node, "203.0.113.8")


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("POST", "/api/v1/message:send", {}),
        ("POST", "/api/v1/a2a/tasks", {}),
        ("GET", "/api/v1/tasks/any", {"a2a-version": "1.0"}),
        ("POST", "/api/v1/tasks/any:cancel", {}),
        ("DELETE", "/api/v1/tasks/any/pushNotificationConfigs/c", {}),
    ],
)
async def test_a_blocked_client_is_told_so_as_its_protocol_says_it(
    node: NodeUnderTest, admin: Admin, method: str, path: str, headers: dict[str, str]
) -> None:
    await admin("clients", "block", ADDRESS)
    await until(lambda: is_refused(node, ADDRESS))
    a2a = await node.client.request(method, path, headers=headers)
    error = a2a.json()["error"]
    assert (a2a.status_code, error["code"], error["status"]) == (403, 403, "PERMISSION_DENIED")
    assert error["details"][0]["reason"] == "CLIENT_BLOCKED"
    mcp = (await node.client.post("/api/v1/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "ping"})).json()
    assert (mcp["jsonrpc"], mcp["error"]["message"]) == ("2.0", error["message"])
    contracts = await node.client.get("/api/v1/tasks/any")
    assert contracts.json() == {"error": error["message"]}


async def test_an_unblocked_client_is_served_again(node: NodeUnderTest, admin: Admin) -> None:
    await admin("clients", "block", ADDRESS)
    await until(lambda: is_refused(node, ADDRESS))
    dry = await admin("clients", "unblock", ADDRESS, "--dry-run", "--json")
    assert (dry.status, dry.data[0]["outcome"]) == (0, "dry run")
    assert await node.store.command("HLEN", keys.BLOCKED) == 1
    ran = await admin("clients", "unblock", ADDRESS, "--json")
    assert (ran.status, ran.data[0]["outcome"]) == (0, "unblocked")

    async def is_served() -> bool:
        return not await is_refused(node, ADDRESS)

    await until(is_served)


async def test_a_prefix_blocks_all_its_addresses(node: NodeUnderTest, admin: Admin) -> None:
    await admin("clients", "block", "198.51.100.0/24", "2001:db8:1::/48", "2001:db8:2::7")
    # Three networks are three writes, and a process may read the list between them.
    for address in ("198.51.100.200", "2001:db8:1:ffff::9", "2001:db8:2::8"):  # the last: in a blocked address' /64
        await until(lambda address=address: is_refused(node, address))
    assert not await is_refused(node, "198.51.101.1")
    assert not await is_refused(node, "2001:db8:2:1::7")


async def test_a_block_ends_by_itself(node: NodeUnderTest) -> None:
    blocked = BlockedClients(Blocklist(node.store))
    await Blocklist(node.store).block(network_of(ADDRESS), 60, "", "olivia")
    await blocked.refresh()
    assert ADDRESS in blocked
    ended = {"since": 1, "until": 2, "reason": "", "who": "olivia"}
    await node.store.command("HSET", keys.BLOCKED, f"{ADDRESS}/32", json.dumps(ended))
    await blocked.refresh()
    assert ADDRESS not in blocked


async def test_who_was_judged_before_is_judged_anew_by_another_list(node: NodeUnderTest) -> None:
    blocklist = Blocklist(node.store)
    blocked = BlockedClients(blocklist)
    block = await blocklist.block(network_of("32.1.13.0/24"), 60, "", "olivia")  # 0x20010d
    assert block.until == block.since + 60_000
    await blocked.refresh()
    assert [each in blocked for each in ("32.1.13.9", "2001:db8::/64", ADDRESS)] == [True, False, False]
    await blocklist.block(network_of(ADDRESS), None, "", "olivia")
    await blocked.refresh()
    assert ADDRESS in blocked
    assert [await blocklist.unblock(network_of(ADDRESS)) for _ in range(2)] == [True, False]
    await blocked.refresh()
    assert ADDRESS not in blocked


class TestPublished:
    """Processes learn of a change at once, not only when they read the list again."""

    @pytest.fixture
    def overrides(self, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
        monkeypatch.setattr("node.web.blocklist.REFRESH_SECONDS", 3600.0)
        return {}

    async def test_a_block_and_its_end(self, node: NodeUnderTest) -> None:
        blocklist = Blocklist(node.store)
        await node.listened_to(keys.BLOCKED)
        await blocklist.block(network_of(ADDRESS), None, "", "olivia")
        await until(lambda: is_refused(node, ADDRESS))
        await blocklist.unblock(network_of(ADDRESS))

        async def is_served() -> bool:
            return not await is_refused(node, ADDRESS)

        await until(is_served)


async def test_what_has_ended_is_not_listed_and_is_cleared_by_the_next_block(node: NodeUnderTest, admin: Admin) -> None:
    ended = {"since": 1, "until": 2, "reason": "", "who": "olivia"}
    await node.store.command("HSET", keys.BLOCKED, "192.0.2.1/32", json.dumps(ended))
    assert (await admin("clients", "list", "--json")).data == []
    await admin("clients", "block", "192.0.2.2", "--for", "3600", "--reason", "floods")
    (entry,) = (await admin("clients", "list", "--json")).data
    assert (entry["network"], entry["reason"], entry["who"]) == ("192.0.2.2/32", "floods", "olivia")
    assert entry["until"] > entry["since"]
    assert await node.store.command("HKEYS", keys.BLOCKED) == [b"192.0.2.2/32"]


async def test_an_entry_that_cannot_be_read_spoils_no_other(node: NodeUnderTest, admin: Admin) -> None:
    await node.store.command("HSET", keys.BLOCKED, "nonsense", "{}", "192.0.2.1/32", "nonsense", b"\xff", "{}")
    await admin("clients", "block", ADDRESS)
    await until(lambda: is_refused(node, ADDRESS))


async def test_what_one_operator_blocks_while_another_clears_the_list_stays(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocklist = Blocklist(node.store)
    await node.store.command("HSET", keys.BLOCKED, "192.0.2.1/32", json.dumps({"since": 1, "until": 2}))
    command = node.store.command

    async def interrupted(*args: Arg, key: Arg | None = None) -> RedisReply:
        reply = await command(*args, key=key)
        if args[0] == "HGETALL":
            monkeypatch.undo()
            await blocklist.block(network_of(ADDRESS), None, "", "olivia")
        return reply

    monkeypatch.setattr(node.store, "command", interrupted)
    await blocklist.forget_expired()
    assert await node.store.command("HKEYS", keys.BLOCKED) == [f"{ADDRESS}/32".encode()]


async def test_the_list_is_in_the_order_of_addresses(node: NodeUnderTest, admin: Admin) -> None:
    ordered = ["A" * 43, "192.0.2.0/24", "192.0.2.0/30", "203.0.113.0/24", "203.0.113.9/32", "2001:db8::/48"]
    await admin("clients", "block", *reversed(ordered))
    listed = (await admin("clients", "list", "--json")).data
    assert [each["network"] for each in listed] == ordered


async def test_unblocking_says_what_still_blocks(node: NodeUnderTest, admin: Admin) -> None:
    await admin("clients", "block", "203.0.113.0/24", "198.51.100.0/24")
    ran = await admin("clients", "unblock", ADDRESS)
    assert ran.status == 1
    _, row, *wider = ran.out.splitlines()
    assert row.split(maxsplit=1) == ["203.0.113.7/32", "not blocked"]
    assert wider == ["203.0.113.7/32 stays blocked by 203.0.113.0/24"]
    await admin("clients", "block", ADDRESS)
    ran = await admin("clients", "unblock", ADDRESS, "203.0.113.0/24")
    assert (ran.status, "stays blocked" in ran.out) == (0, False), "neither is blocked any more"


async def test_a_process_keeps_to_what_it_read_while_redis_says_nothing(node: NodeUnderTest) -> None:
    await Blocklist(node.store).block(network_of(ADDRESS), None, "", "olivia")
    blocked = BlockedClients(Blocklist(node.store))
    await blocked.refresh()
    await node.store.close()
    run = asyncio.create_task(blocked.run())
    await asyncio.sleep(0)
    assert ADDRESS in blocked
    run.cancel()
    await asyncio.wait([run])


async def test_judging_a_request_costs_redis_nothing(node: NodeUnderTest) -> None:
    await Blocklist(node.store).block(network_of(ADDRESS), None, "", "olivia")
    await until(lambda: is_refused(node, ADDRESS))
    before = await commands(node)
    for _ in range(50):
        assert await is_refused(node, ADDRESS)
    assert await commands(node) - before < 10  # what the connections' own upkeep may use


@pytest.mark.parametrize(
    ("name", "network"),
    [
        ("192.0.2.1", "192.0.2.1/32"),
        (" 192.0.2.77/24 ", "192.0.2.0/24"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8::/65", "2001:db8::/64"),
        ("2001:db8::/32", "2001:db8::/32"),
        ("128.0.0.0/1", "128.0.0.0/1"),
        ("::ffff:0:0/95", "::/64"),
        ("::ffff:192.0.2.1", "192.0.2.1/32"),
        ("::ffff:192.0.2.77/120", "192.0.2.0/24"),
    ],
)
def test_a_network_has_one_name(name: str, network: str) -> None:
    assert str(network_of(name)) == network


@pytest.mark.parametrize(
    "name", ["", "example.com", "192.0.2", "192.0.2.1/33", "unix", "0.0.0.0/0", "::/0", "::ffff:0:0/96"]
)
def test_what_is_no_network_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"is not an IP address .* thumbprint of a key|covers every address"):
        network_of(name)


@pytest.mark.parametrize(
    ("wider", "name", "does"),
    [
        ("192.0.2.0/24", "192.0.2.7", True),
        ("192.0.2.7", "192.0.2.0/24", False),
        ("2001:db8::/32", "2001:db8:1:2::/64", True),
        ("2001:db8::/32", "192.0.2.7", False),
        ("192.0.2.0/24", "2001:db8::/64", False),
    ],
)
def test_a_network_contains_those_of_its_kind(wider: str, name: str, does: bool) -> None:
    assert contains(network_of(wider), network_of(name)) is does
    assert ClientOrigin(network_of(wider)).covers(str(network_of(name)), None) is does


@pytest.mark.parametrize(
    ("name", "client"),
    [("192.0.2.7", "192.0.2.7"), ("192.0.2.0/31", ""), ("2001:db8::7", "2001:db8::/64"), ("2001:db8::/63", "")],
)
def test_only_a_network_of_one_client_names_it(name: str, client: str) -> None:
    assert ClientOrigin(network_of(name)).client == client
