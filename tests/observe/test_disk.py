"""A nearly full disk does not bring a node down suddenly: requests that begin something are refused first, those that
finish something never.
"""

from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from node.admin.check import room
from node.config import Settings
from node.observe.disk import DiskSpace, disks, space
from node.observe.memory import MemoryAlarm, RedisMemory
from node.observe.metrics.gauges import disk_figures
from node.share.capacity import Capacity
from node.share.cost import Alarm, refused_from
from node.store import StoreUnavailable, connect
from tests.support.node_under_test import NodeUnderTest, running, settings_for, until
from tests.support.servers import RedisServer
from tests.support.users import shut

Nodes = AsyncIterator[NodeUnderTest]

QUESTION = {"title": "Where is the room?", "body": "Is there anybody who knows how much room is left on this disk?"}


@pytest.fixture
def embedded(tmp_path: Path) -> Path:
    """A data directory as an embedded Redis leaves it."""
    (tmp_path / "data" / "redis" / "appendonlydir").mkdir(parents=True)
    return tmp_path / "data"


@pytest_asyncio.fixture
async def short(tmp_path: Path, embedded: Path, request: pytest.FixtureRequest) -> Nodes:
    """A node with this share of its disk reserve left. It uses a single server, since a cluster is never embedded."""
    free = space("redis", embedded).free
    with RedisServer(tmp_path / "server") as server:
        settings = settings_for(server.url, data_dir=embedded, disk_reserve=int(free / request.param))
        async with running(settings) as node:
            yield node


def test_the_disk_of_a_log_that_is_another_users_is_not_looked_at(embedded: Path) -> None:
    settings = Settings(data_dir=embedded)
    assert [disk.use for disk in disks(settings)] == ["redis", "blobs"]
    with shut(embedded / "redis"):
        assert [disk.use for disk in disks(settings)] == ["blobs"]


async def health(node: NodeUnderTest) -> Any:
    return (await node.client.get("/health")).json()


async def code(node: NodeUnderTest, path: str, body: dict[str, Any]) -> str:
    answer = await node.client.post(path, json=body)
    return answer.headers.get("X-Error-Code", "")


def test_the_disk_of_artifacts_is_where_their_setting_says(tmp_path: Path) -> None:
    def watched(**given: Any) -> list[Path]:
        return [disk.directory for disk in disks(settings_for("redis://localhost", data_dir=tmp_path, **given))]

    (tmp_path / "elsewhere").mkdir()
    assert watched() == [tmp_path]
    assert watched(blob_url=f"file://{tmp_path}/elsewhere") == [tmp_path / "elsewhere"]
    assert watched(blob_url=f"file://{tmp_path}/elsewhere/new/one") == [tmp_path / "elsewhere"]
    assert watched(blob_url="s3://bucket") == []


@pytest.mark.parametrize(("short", "refused"), [(0.8, 1), (0.4, 2), (0.1, 3)], indirect=["short"])
async def test_writes_are_refused_in_stages_as_the_disk_fills(short: NodeUnderTest, refused: int) -> None:
    async def is_low() -> bool:
        return (await health(short))["disk"] == "low"

    await until(is_low)
    assert (await health(short))["memory"] == "ok"
    task = {"title": "Count the lines", "publisher_id": "p"}
    feedback = {"feedback_text": "There is little room left on your disk, I think."}
    codes = [
        await code(short, "/api/v1/board", QUESTION),
        await code(short, "/api/v1/tasks", task),
        await code(short, "/api/v1/feedback", feedback),
    ]
    assert codes == ["disk.low"] * refused + [""] * (3 - refused)


async def test_a_stage_ends_only_some_way_above_where_it_begins(
    node: NodeUnderTest, embedded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = msgspec.structs.replace(node.settings, redis_url="", data_dir=embedded, disk_reserve=1000)
    capacity = Capacity()
    alarm = MemoryAlarm(node.store, settings, capacity)
    free = 0

    def space_left(*_: object) -> DiskSpace:
        return DiskSpace("redis", embedded, free, 10_000)

    monkeypatch.setattr("node.observe.memory.space", space_left)
    for free, is_low in ((1020, False), (990, True), (1020, True), (1060, False), (1020, False)):
        await alarm.look()
        assert capacity.is_disk_low is is_low, free


async def test_a_node_that_is_short_of_both_says_so_of_memory_too_and_its_alarm_does_not_flutter(
    node: NodeUnderTest, embedded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request refused for both reasons has the code of one of them."""
    settings = msgspec.structs.replace(node.settings, redis_url="", data_dir=embedded, disk_reserve=1000)
    capacity = Capacity()
    alarm = MemoryAlarm(node.store, settings, capacity)
    used = 0

    async def memory(*_: object) -> list[RedisMemory]:
        return [RedisMemory(used, used, 100)]

    def space_left(*_: object) -> DiskSpace:
        return DiskSpace("redis", embedded, 990, 10_000)

    monkeypatch.setattr("node.observe.memory.redis_memory", memory)
    monkeypatch.setattr("node.observe.memory.space", space_left)
    for used, is_low in ((78, False), (82, True), (78, True), (72, False)):
        await alarm.look()
        assert (capacity.is_memory_low, capacity.is_disk_low) == (is_low, True), used
        assert capacity.refused == dict.fromkeys(refused_from(Alarm.FIRST), "disk.low")


async def test_where_the_log_of_redis_is_gone_there_is_no_room(node: NodeUnderTest, embedded: Path) -> None:
    settings = msgspec.structs.replace(node.settings, redis_url="", data_dir=embedded, disk_reserve=1)
    capacity = Capacity()
    alarm = MemoryAlarm(node.store, settings, capacity)
    moved = embedded.with_name("moved")
    for source, target, refused in (
        (embedded, moved, dict.fromkeys(refused_from(Alarm.THIRD), "disk.low")),
        (moved, embedded, {}),
    ):
        source.rename(target)
        await alarm.look()
        assert capacity.refused == refused


async def test_the_disk_is_looked_at_while_redis_is_gone(embedded: Path) -> None:
    """When the disk is full, the embedded Redis is gone most of the time."""
    settings, capacity = Settings(data_dir=embedded, disk_reserve=2**60), Capacity()
    gone = await connect(f"unix://{embedded}/redis/redis.sock", timeout=1, max_in_flight=1)
    with pytest.raises(StoreUnavailable):
        await MemoryAlarm(gone, settings, capacity).look()
    await gone.close()
    assert capacity.refused == dict.fromkeys(refused_from(Alarm.THIRD), "disk.low")


async def test_a_disk_with_room_refuses_nothing(node: NodeUnderTest) -> None:
    assert (await health(node))["disk"] == "ok"


def test_what_is_kept_for_root_is_not_free(embedded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def statvfs(_path: Path) -> SimpleNamespace:
        return SimpleNamespace(f_bavail=2, f_bfree=3, f_blocks=10, f_frsize=4096)

    monkeypatch.setattr("os.statvfs", statvfs)
    assert space("redis", embedded) == DiskSpace("redis", embedded, 2 * 4096, 10 * 4096)


def test_each_disk_is_reported_with_its_reserve(embedded: Path) -> None:
    """The alert compares free space and reserve: a fixed threshold would be too late for an operator with a larger
    reserve.
    """
    told = disk_figures(Settings(data_dir=embedded, disk_reserve=3 * 2**30, blob_reserve=2**30))
    kept = {figure.labels: figure.value for figure in told if figure.family == "relay_disk_reserve_bytes"}
    assert kept == {("redis",): 3 * 2**30, ("blobs",): 2**30}


@pytest.mark.parametrize(("use", "setting"), [("redis", "disk_reserve"), ("blobs", "blob_reserve")])
def test_check_names_each_disk_with_less_than_its_reserve(embedded: Path, use: str, setting: str) -> None:
    """A disk must not be called fine if every artifact would be refused for lack of space."""
    settings = Settings(data_dir=embedded, disk_reserve=0, blob_reserve=0)
    assert [finding.mark for finding in room(settings)] == ["ok", "ok"]
    (short,) = [f for f in room(msgspec.structs.replace(settings, **{setting: 2**50})) if f.mark == "missing"]
    assert f"MiB free for {use}: less than RELAY_{setting.upper()}, so" in short.sentence


def test_check_looks_at_the_disk_of_a_redis_that_was_never_started(tmp_path: Path) -> None:
    """Otherwise a new node could start without a warning, and refuse all writes."""
    settings = Settings(data_dir=tmp_path / "new", disk_reserve=2**50, blob_reserve=0)
    assert [(finding.mark, "RELAY_DISK_RESERVE" in finding.sentence) for finding in room(settings)] == [
        ("missing", True),
        ("ok", False),
    ]


def test_only_disks_of_this_machine_are_looked_at(embedded: Path) -> None:
    assert [disk.use for disk in disks(Settings(data_dir=embedded))] == ["redis", "blobs"]
    elsewhere = Settings(data_dir=embedded, redis_url="redis://127.0.0.1", blob_url="s3://bucket")
    assert list(disks(elsewhere)) == []
