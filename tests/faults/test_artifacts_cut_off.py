"""A worker or an operator's command dies between any two steps of an artifact's verification, end or removal.

The next process must leave the state that would have been left without the death: the same manifest, no orphaned bytes,
and nothing that is counted for ever.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from node.artifacts.blobs.disk import DiskStore
from node.artifacts.service import Artifacts
from node.artifacts.store import ArtifactStore
from node.artifacts.verify import Verifier
from node.run.blobs import blobs_of
from node.store import ids, keys
from node.store.connection import Call, CallResult, Connection
from node.store.outbox import Event
from tests.artifacts.calls import complete, node_on, read, registered, upload
from tests.support.limits import every_limit
from tests.support.node_under_test import NodeUnderTest
from tests.support.servers import RedisServer

LIMITS = every_limit(1000, 60)

Work = Callable[["Worker", str], Awaitable[object]]


class Killed(BaseException):
    """Simulates the death of the process."""


STEPS_LEFT: ContextVar[list[int] | None] = ContextVar("steps_left", default=None)
"""A list with one number: how many more calls to Redis or the blob store the current process makes before it dies."""


def step() -> None:
    left = STEPS_LEFT.get()
    if left is not None:
        if not left[0]:
            raise Killed
        left[0] -= 1


@pytest.fixture(autouse=True)
def mortal(monkeypatch: pytest.MonkeyPatch) -> None:
    submit, delete = Connection.submit, DiskStore.delete

    def submitted(connection: Connection, call: Call) -> "asyncio.Future[CallResult]":
        step()
        return submit(connection, call)

    async def deleted(store: DiskStore, artifact_id: str) -> None:
        step()
        await delete(store, artifact_id)

    monkeypatch.setattr(Connection, "submit", submitted)
    monkeypatch.setattr(DiskStore, "delete", deleted)


async def survives(steps: int, work: Awaitable[object]) -> bool:
    """Return whether the work ends within this many steps. Otherwise it is killed after them."""
    token = STEPS_LEFT.set([steps])
    try:
        await work
    except Killed:
        return False
    finally:
        STEPS_LEFT.reset(token)
    return True


class Worker:
    """The artifact services of a worker and of the operator's commands."""

    def __init__(self, node: NodeUnderTest) -> None:
        self.manifests = ArtifactStore(node.store, 60, node.settings.artifact_ttl)
        self.artifacts = Artifacts(self.manifests, blobs_of(node.settings), node.settings)
        self.verifier = Verifier(self.manifests, blobs_of(node.settings))


async def verify(worker: Worker, artifact_id: str) -> None:
    event = Event("1-0", ids.partition_of_id(artifact_id), "artifact.completed", artifact_id, {"attempt": "1"})
    await worker.verifier.handle([event])


async def remove(worker: Worker, artifact_id: str) -> None:
    await worker.artifacts.purge(artifact_id)


async def sweep(worker: Worker, artifact_id: str) -> None:
    await worker.artifacts.sweep()


@pytest_asyncio.fixture
async def node(empty_redis: RedisServer, tmp_path: Path) -> AsyncIterator[NodeUnderTest]:
    async with node_on(empty_redis, data_dir=tmp_path, limits=LIMITS) as node:
        yield node


async def let_end(node: NodeUnderTest, artifact_id: str) -> None:
    """Let the artifact's time be over."""
    record = keys.artifact(artifact_id)
    if await node.store.command("HEXISTS", record, "expires_at"):
        await node.store.command("HSET", record, "expires_at", 1)
    due = keys.artifacts(ids.partition_of_id(artifact_id))
    await node.store.command("ZADD", due, "XX", 1, artifact_id)


async def sums(node: NodeUnderTest, artifact_id: str) -> list[int]:
    """Return the counts of the artifact's partition."""
    found: Any = await node.store.command("HVALS", keys.artifact_bytes(ids.partition_of_id(artifact_id)))
    return [int(value) for value in found]


@pytest.mark.parametrize(
    ("work", "media_type", "status"),
    [(verify, "text/csv", "available"), (verify, "image/png", "rejected"), (remove, "text/csv", "rejected")],
    ids=["verified", "rejected", "removed"],
)
@pytest.mark.parametrize("ended", [False, True], ids=["alone", "and its end"])
async def test_whoever_follows_does_the_rest(
    node: NodeUnderTest, work: Work, media_type: str, status: str, ended: bool
) -> None:
    worker, dying = Worker(node), sweep if ended else work
    steps, survived = 0, False
    while not survived:
        artifact = await registered(node, media_type=media_type)
        await upload(node, artifact)
        await complete(node, artifact)
        if ended:
            await work(worker, artifact["id"])
            await let_end(node, artifact["id"])
        survived = await survives(steps, dying(worker, artifact["id"]))
        await dying(worker, artifact["id"])
        last = "expired" if ended and status == "available" else status
        assert (await read(node, artifact))["status"] == last, f"killed after {steps} steps"
        await let_end(node, artifact["id"])
        await worker.artifacts.sweep()
        assert not list(node.settings.data_dir.rglob(artifact["id"])), f"killed after {steps} steps"
        assert set(await sums(node, artifact["id"])) <= {0}, f"killed after {steps} steps"
        life: Any = await node.store.command("PTTL", keys.artifact(artifact["id"]))
        assert life > 0, f"killed after {steps} steps"
        steps += 1
    assert steps > 2
