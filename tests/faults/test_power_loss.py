"""A power failure loses what was not fsynced, and RELAY_DURABILITY says what that may be (DESIGN 10).

The embedded Redis runs on a disk that forgets what was not fsynced (`losing_disk.py`).
"""

import os
import time
from pathlib import Path

import pytest

from node.run.embedded_redis import EmbeddedRedis
from tests.artifacts.blobs import DATA, ID, BlobServer, grant_for
from tests.faults.losing_disk import LosingDisk, needs_fuse
from tests.faults.report import ROWS, Row
from tests.faults.writers import Writers, kept, unlimited
from tests.support.effort import FULL
from tests.support.node_under_test import running, until

TIMES = 5 if FULL else 1
WRITES = 1_500 if FULL else 200


pytestmark = needs_fuse


def test_the_disk_keeps_what_was_synced_and_forgets_the_rest(disk: LosingDisk) -> None:
    with (disk.mount / "log").open("wb", buffering=0) as log:
        log.write(b"kept")
        os.fsync(log.fileno())
        assert disk.unsynced == 0
        log.write(b", lost")
        log.seek(0)
        log.write(b"KEPT")
        log.truncate(2)
    with (disk.mount / "never synced").open("wb") as other:
        other.write(b"lost")
    (disk.mount / "log").rename(disk.mount / "renamed")
    disk.lose_power()
    assert (disk.backing / "renamed").read_bytes() == b"kept"
    assert (disk.backing / "never synced").read_bytes() == b""
    with pytest.raises(OSError, match="Input/output error"):
        (disk.mount / "renamed").read_bytes()


async def test_the_bytes_of_a_finished_upload_are_on_the_disk(disk: LosingDisk) -> None:
    store = BlobServer(disk.mount / "blobs").store
    await store.write(grant_for(), DATA)
    disk.lose_power()
    assert (disk.backing / store.path(ID).relative_to(disk.mount)).read_bytes() == DATA


@pytest.mark.parametrize("durability", ["always", "everysec"])
async def test_a_power_loss_costs_what_the_setting_says_and_no_more(tmp_path: Path, durability: str) -> None:
    acknowledged = refused = lost = twice = 0
    longest = 0.0
    for number in range(TIMES):
        row, last = await power_lost(tmp_path / str(number), durability)
        acknowledged, refused = acknowledged + row.acknowledged, refused + row.refused
        lost, twice, longest = lost + row.lost, twice + row.twice, max(longest, last)
    ROWS.append(
        Row(
            f"power lost, {durability}: last fsynced write {longest:.2f} s before",
            TIMES,
            acknowledged,
            refused,
            None,
            lost,
            twice,
        )
    )
    assert twice == 0
    assert durability == "everysec" or lost == 0


async def power_lost(folder: Path, durability: str) -> tuple[Row, float]:
    """Return what one power loss cost, and how many seconds before it the last fsynced write began."""
    with LosingDisk(folder) as disk:
        with EmbeddedRedis(disk.mount / "data", durability) as redis:
            process = redis.start()
            async with running(unlimited(redis.url)) as node, Writers(node) as writers:
                await writers.further(WRITES)

                async def something_to_lose() -> bool:
                    return disk.unsynced > 0

                await until(something_to_lose)
                process.kill()
                process.wait()
                safe, gone = disk.synced, time.monotonic()
                dropped = disk.lose_power()
                await writers.failing(1)
        assert dropped > 0, "else this shows nothing"
        with EmbeddedRedis(disk.backing / "data", durability) as redis:
            redis.start()
            async with running(unlimited(redis.url)) as node:
                found = await kept(node, writers)
    assert not [name for name in found.lost if writers.at[name] < safe], "an fsync keeps all acknowledged before it"
    return Row("", 1, writers.acknowledged, writers.answers[503], None, len(found.lost), found.twice), gone - safe
