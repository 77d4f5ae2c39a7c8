"""Contract steps on a Redis at its limits (lua/task_*.lua)."""

from pathlib import Path

import pytest

from node.sign.signed import UNSIGNED
from node.store import StoreUnavailable, connect
from node.tasks.model import NewClaim, NewTask, TaskPageQuery
from tests.support.servers import RedisServer
from tests.tasks.calls import tasks_on


async def test_reading_goes_on_when_redis_is_out_of_memory(tmp_path: Path) -> None:
    with RedisServer(tmp_path, "--maxmemory-policy", "noeviction") as server:
        async with await connect(server.url, timeout=5, max_in_flight=64, required=True) as store:
            tasks = tasks_on(store)
            task, _ = await tasks.create(NewTask("desk", "Count the panels", lease_seconds=30), UNSIGNED, None, "")
            assert [found.id for found in (await tasks.page(TaskPageQuery())).tasks] == [task.id]
            server.do("CONFIG", "SET", "maxmemory", 1)
            for refused in (
                tasks.create(NewTask("desk", "Count the panels"), UNSIGNED, None, ""),
                tasks.claim(task.id, NewClaim("agent"), UNSIGNED, None),
            ):
                with pytest.raises(StoreUnavailable):
                    await refused
            assert (await tasks.get(task.id)).status == "offered"
            assert [found.id for found in (await tasks.page(TaskPageQuery())).tasks] == [task.id]
            assert await tasks.sweep() == 0
