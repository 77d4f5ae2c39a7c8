"""Real clusters of three primaries with a replica each, on loopback."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from node.store import CommandFailed, Store, StoreUnavailable
from node.store.keys import PARTITIONS, tag
from node.store.slots import slot_of
from tests.store.conftest import Opener, StepOf, open_store
from tests.support.servers import PATIENCE, Cluster

__all__ = ["open_store"]

TIMEOUT = 2.0  # s that a call may take in tests that wait for the timeout or kill a server


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster for tests that change none of its members."""
    with Cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def mortal_cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A cluster with members that a test may kill. A dead member is noticed after a second."""
    with Cluster(tmp_path / "cluster", node_timeout=1.0) as cluster:
        yield cluster


@pytest.fixture
def lenient_cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A cluster that keeps serving the slots it has when a part of it is gone."""
    with Cluster(tmp_path / "cluster", 3, "--cluster-require-full-coverage", "no", node_timeout=1.0) as cluster:
        yield cluster


@pytest_asyncio.fixture
async def store(cluster: Cluster, open_store: Opener) -> Store:
    return await open_store(cluster.url, timeout=PATIENCE)


class Load:
    """Callers that keep counting up in every partition, and remember what was acknowledged."""

    def __init__(self, store: Store, made: StepOf, *names: str) -> None:
        self.acknowledged = dict.fromkeys(range(PARTITIONS), 0)
        self.failures: list[tuple[float, Exception]] = []
        self._store = store
        self._step = made
        self._names = names
        self._stopped = False
        self._loop = asyncio.get_running_loop()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "Load":
        self._tasks = [asyncio.create_task(self._count(partition)) for partition in range(PARTITIONS)]
        return self

    async def __aexit__(self, *ending: object) -> None:
        self._stopped = True
        await asyncio.gather(*self._tasks)

    def keys(self, partition: int) -> list[str]:
        return [f"{name}:{tag(partition)}" for name in self._names]

    @property
    def calls(self) -> int:
        return sum(self.acknowledged.values())

    async def _count(self, partition: int) -> None:
        while not self._stopped:
            try:
                await self._store.run(self._step(*self.keys(partition)))
            except (StoreUnavailable, CommandFailed) as error:
                self.failures.append((self._loop.time(), error))
                await asyncio.sleep(0.01)
            else:
                self.acknowledged[partition] += 1
                await asyncio.sleep(0.001)


def slots_in_use() -> list[int]:
    return [slot_of(tag(partition)) for partition in range(PARTITIONS)]
