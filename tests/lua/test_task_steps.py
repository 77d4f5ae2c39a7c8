"""The steps of contracts on a Redis at its limits, and in a cluster (lua/task_*.lua)."""

from pathlib import Path

import pytest

from node.store import StoreUnavailable, connect
from node.tasks.model import Cancellation, Completion, Holding, NewClaim, NewTask, TaskPageQuery
from tests.support.servers import Cluster, RedisServer
from tests.tasks.calls import tasks_on, told, uncharged

CONTRACTS = 12  # enough to meet every primary


async def test_reading_goes_on_when_redis_is_out_of_memory(tmp_path: Path) -> None:
    with RedisServer(tmp_path, "--maxmemory-policy", "noeviction") as server:
        async with await connect(server.url, timeout=5, max_in_flight=64, required=True) as store:
            tasks = tasks_on(store)
            task, _ = await tasks.create(NewTask("desk", "Count the panels", lease_seconds=30), None, None, "")
            assert [found.id for found in (await tasks.page(TaskPageQuery())).tasks] == [task.id]
            server.do("CONFIG", "SET", "maxmemory", 1)
            for refused in (
                tasks.create(NewTask("desk", "Count the panels"), None, None, ""),
                tasks.claim(task.id, NewClaim("agent"), None, None),
            ):
                with pytest.raises(StoreUnavailable):
                    await refused
            assert (await tasks.get(task.id)).status == "offered"
            assert [found.id for found in (await tasks.page(TaskPageQuery())).tasks] == [task.id]
            assert await tasks.sweep() == 0


async def test_every_step_stays_in_one_slot(tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        async with await connect(cluster.url, timeout=5, max_in_flight=1000, required=True) as store:
            tasks = tasks_on(store)
            for _ in range(CONTRACTS):
                new = NewTask("desk", "Count the panels", lease_seconds=30)
                task, _ = await tasks.create(new, None, None, "")
                claim, _ = await tasks.claim(task.id, NewClaim("agent"), None, None)
                await tasks.extend(task.id, Holding(claim.claim_token))
                await tasks.release(task.id, Holding(claim.claim_token))
                claim, _ = await tasks.claim(task.id, NewClaim("agent"), None, None)
                await tasks.complete(task.id, Completion(claim.claim_token), uncharged)
                other, _ = await tasks.create(new, None, None, "")
                await tasks.cancel(other.id, Cancellation(other.publisher_token), None)
                assert len(await told(store, task.id)) == 5
            assert await tasks.sweep() == 0
            assert (await tasks.page(TaskPageQuery("completed"))).total == CONTRACTS
            assert (await tasks.page(TaskPageQuery("canceled"))).total == CONTRACTS
