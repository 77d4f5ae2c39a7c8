"""A Redis records whose data it holds: a process with another secret, or with an unknown schema, refuses to work on it.

`tests/store/written_by_1_0_0.json` is what version 1.0.0 wrote, key by key.
"""

import base64
import json
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from node.cli import main
from node.config import ConfigError
from node.store import identity, keys
from node.store.identity import OLDEST, SCHEMA, compare, fingerprint, identify
from tests.support.node_under_test import SECRET, NodeUnderTest
from tests.support.nodes import NodeProcess
from tests.support.servers import Cluster, RedisServer, free_port, until

OTHER_SECRET = "Zx9Qw2nQ0f3vX6hT1yLr5uKc9sPz7dGm4bEaWxVoNiR="
FIRST_VERSION: dict[str, Any] = json.loads(Path(__file__).with_name("written_by_1_0_0.json").read_text())
USAGE_ERROR = 2


@pytest.fixture
def kept(empty_redis: RedisServer | Cluster) -> RedisServer | Cluster:
    """A Redis with the data that 1.0.0 wrote."""
    for row in FIRST_VERSION["keys"]:
        empty_redis.do("RESTORE", row["key"], row["ttl"], base64.b64decode(row["dump"]))
    return empty_redis


async def known(node: NodeUnderTest) -> dict[str, str]:
    found = cast("list[bytes]", await node.store.command("HGETALL", keys.IDENTITY))
    texts = [text.decode() for text in found]
    return dict(zip(texts[::2], texts[1::2], strict=True))


async def test_the_first_start_writes_it_and_the_next_ones_find_it(node: NodeUnderTest) -> None:
    await identify(node.store, SECRET)
    first = await known(node)
    assert (first["schema"], first["secret"]) == (str(SCHEMA), fingerprint(SECRET))
    assert SECRET not in first.values()
    await identify(node.store, SECRET)
    assert await known(node) == first


async def test_a_process_without_a_secret_leaves_room_for_one(node: NodeUnderTest) -> None:
    await identify(node.store, "")
    await identify(node.store, SECRET)
    with pytest.raises(ConfigError, match="another RELAY_SECRET"):
        await identify(node.store, OTHER_SECRET)
    await identify(node.store, "")


async def test_a_process_with_another_secret_writes_nothing(node: NodeUnderTest) -> None:
    of_another = {"secret": fingerprint(SECRET)}
    await node.store.command("DEL", keys.IDENTITY)
    await node.store.command("HSET", keys.IDENTITY, "secret", of_another["secret"])
    with pytest.raises(ConfigError, match="another RELAY_SECRET"):
        await identify(node.store, OTHER_SECRET)
    assert await known(node) == of_another


@pytest.mark.parametrize(("number", "said"), [(SCHEMA + 1, "newer versions"), (OLDEST - 1, "older versions")])
async def test_data_of_a_schema_that_is_not_known_is_left_alone(node: NodeUnderTest, number: int, said: str) -> None:
    await node.store.command("HSET", keys.IDENTITY, "schema", number)
    with pytest.raises(ConfigError, match=said):
        await identify(node.store, SECRET)
    assert await known(node) == {"schema": str(number)}


async def test_a_later_version_takes_the_data_over_and_this_one_does_not_go_back(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    await identify(node.store, SECRET)
    with monkeypatch.context() as later:
        later.setattr(identity, "SCHEMA", SCHEMA + 1)
        later.setattr(identity, "VERSION", "7.0.0")
        await identify(node.store, SECRET)
    for judged in (identify, compare):
        with pytest.raises(ConfigError, match=r"newer versions \(since 7\.0\.0\)"):
            await judged(node.store, SECRET)


async def test_a_version_to_which_the_data_is_too_old_leaves_it_alone(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    await identify(node.store, SECRET)
    with monkeypatch.context() as later:
        later.setattr(identity, "SCHEMA", SCHEMA + 2)
        later.setattr(identity, "OLDEST", SCHEMA + 1)
        with pytest.raises(ConfigError, match="older versions"):
            await identify(node.store, SECRET)
    await identify(node.store, SECRET)


@pytest.mark.parametrize("command", ["web", "worker"])
def test_no_part_starts_on_the_data_of_another_node(
    command: str, empty_redis: RedisServer | Cluster, tmp_path: Path
) -> None:
    empty_redis.do("HSET", keys.IDENTITY, "schema", "1", "secret", fingerprint(OTHER_SECRET))
    with NodeProcess(tmp_path, (sys.executable, "-m", "node", command)) as part:
        part.start(RELAY_REDIS_URL=empty_redis.url, RELAY_SECRET=SECRET)
        assert part.wait() == USAGE_ERROR
        assert part.words().startswith("relay-node: this Redis holds the data of a node with another RELAY_SECRET")


def test_a_whole_node_ends_instead_of_starting_its_parts_again_and_again(
    empty_redis: RedisServer | Cluster, tmp_path: Path
) -> None:
    empty_redis.do("HSET", keys.IDENTITY, "schema", SCHEMA + 1)
    with NodeProcess(tmp_path) as node:
        node.start(RELAY_REDIS_URL=empty_redis.url)
        assert node.wait() == USAGE_ERROR
        assert f"this Redis holds data of schema {SCHEMA + 1}" in node.words()


@pytest.mark.parametrize("command", ["web", "worker"])
def test_a_redis_that_comes_later_is_looked_at_then(command: str, tmp_path: Path) -> None:
    part = NodeProcess(tmp_path / "data", (sys.executable, "-m", "node", command))
    with RedisServer(tmp_path / "redis") as server, part:
        server.do("HSET", keys.IDENTITY, "schema", SCHEMA + 1)
        server.do("SAVE")
        server.stop()
        part.start(RELAY_REDIS_URL=server.url, RELAY_SECRET=SECRET)
        part.line("redis is not there yet")
        server.start()
        assert part.wait() == USAGE_ERROR
        assert "written by newer versions" in part.words()


def test_a_node_that_is_given_one_member_of_a_cluster_does_not_start(tmp_path: Path) -> None:
    member = RedisServer(tmp_path / "redis", "--cluster-enabled", "yes", port=free_port())
    with member, NodeProcess(tmp_path / "data") as node:
        member.do("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        until(lambda: "cluster_state:ok" in str(member.do("CLUSTER", "INFO")), "the cluster is whole")
        node.start(RELAY_REDIS_URL=member.url)
        assert node.wait() == USAGE_ERROR
        assert "this Redis is a member of a cluster: write redis+cluster://" in node.words()


@pytest.mark.parametrize("command", [["check"], ["admin", "status"]], ids=" ".join)
def test_commands_of_the_operator_say_so_and_write_nothing(
    command: list[str],
    empty_redis: RedisServer | Cluster,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("RELAY_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("RELAY_REDIS_URL", empty_redis.url)
    monkeypatch.setenv("RELAY_SECRET", SECRET)
    main(command)
    assert empty_redis.do("EXISTS", keys.IDENTITY) == 0
    capsys.readouterr()
    empty_redis.do("HSET", keys.IDENTITY, "schema", "1", "secret", fingerprint(OTHER_SECRET))
    assert main(command) != 0
    said = capsys.readouterr()
    assert "another RELAY_SECRET" in said.out + said.err


async def test_what_the_first_version_wrote_is_served(kept: RedisServer | Cluster, node: NodeUnderTest) -> None:
    made = FIRST_VERSION["made"]
    await identify(node.store, SECRET)
    client = node.client

    async def get(path: str, **headers: str) -> Any:
        answer = await client.get(path, headers=headers)
        assert answer.status_code == 200, (path, answer.text)
        return answer.json()

    thread = await get(f"/api/v1/board/{made['thread']['id']}")
    assert thread["title"] == made["thread"]["title"]
    assert [reply["body"] for reply in thread["replies"]] == [made["reply"]["body"]]
    listed = await get("/api/v1/board")
    assert {each["id"] for each in listed["threads"]} == {made["thread"]["id"], made["relayed"]["reference_id"]}
    assert (await get(f"/api/v1/relay/{made['private']['reference_id']}"))["payload"]["public"] is False
    for state in ("offered", "claimed", "completed"):
        task = await get(f"/api/v1/tasks/{made[state]['id']}")
        assert (task["status"], task["title"]) == (state, made[state]["title"])
    session = made["session"]["session_id"]
    lines = (await get(f"/api/v1/sessions/{session}/messages"))["lines"]
    assert [line["body"] for line in lines] == ["a line of the first version"]


async def test_rights_that_the_first_version_gave_still_hold(kept: RedisServer | Cluster, node: NodeUnderTest) -> None:
    made = FIRST_VERSION["made"]
    done = {"claim_token": made["claimed"]["claim_token"], "result_payload": {"words": 8}}
    completed = await node.client.post(f"/api/v1/tasks/{made['claimed']['id']}/complete", json=done)
    assert completed.status_code == 200, completed.text
    session = made["session"]
    sent = await node.client.post(f"/api/v1/sessions/{session['session_id']}/messages", json={"body": "one more"})
    assert sent.json()["seq"] == made["line"]["seq"] + 1
    right = {"destroy_token": session["destroy_token"]}
    gone = await node.client.post(f"/api/v1/sessions/{session['session_id']}/destroy", json=right)
    assert gone.status_code == 200, gone.text
