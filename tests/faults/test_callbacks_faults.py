"""Callbacks while workers and Redis are killed: none is lost, and duplicates are counted (DESIGN 8).

`make faults` runs it in full: 3,000 callbacks, six workers and Redis killed, all pauses as in production except those
of the retry schedule. Otherwise a small run follows, in which the test itself makes a dead worker's share due.
"""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, cast

import httpx2
import msgspec
import pytest
import pytest_asyncio

from node.sign.node_key import NodeKey
from node.store import ids, keys
from tests.callbacks.receiver import Receiver
from tests.support.effort import FULL
from tests.support.limits import NO_LIMITS
from tests.support.node_under_test import SECRET, SIGNING_KEY, NodeUnderTest, running, settings_for
from tests.support.nodes import ROOT
from tests.support.servers import PATIENCE, RedisServer, eventually

PUBLIC = NodeKey.parse(SIGNING_KEY).public.raw
HOSTS = [f"127.0.0.{n}" for n in range(1, 17)]  # enough receivers that the limits per host do not matter
PUBLISHERS = 8  # concurrent publishers
WORKERS = 2


class Plan(msgspec.Struct, frozen=True):
    """The size of a run."""

    callbacks: int
    worker_kills: int
    patience: float
    """Seconds within which all callbacks must have arrived."""
    moved: bool
    """Whether the test makes a dead worker's share due at once."""


LARGE = Plan(3000, 6, 240, moved=False)
SMALL = Plan(300, 2, PATIENCE, moved=True)
PLAN = LARGE if FULL else SMALL


class Worker:
    """A worker process, as an operator runs it."""

    def __init__(self, redis_url: str, folder: Path) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RELAY_")}
        settings = {
            "RELAY_REDIS_URL": redis_url,
            "RELAY_DATA_DIR": str(folder),
            "RELAY_BASE_URL": "http://node.example",
            "RELAY_SECRET": SECRET,
            "RELAY_SIGNING_KEY": SIGNING_KEY,
            "RELAY_EMBEDDING_MODEL": "none",
            "RELAY_LIMIT_CALLBACK": "0",
            "RELAY_CALLBACK_ALLOW_PRIVATE": "1",
            "RELAY_CALLBACK_SCHEDULE": "0.2,0.5,1,2,4,8",
            "RELAY_LOG": "warning",
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "node", "worker"], cwd=ROOT, env=environment | settings, stdin=subprocess.DEVNULL
        )

    def kill(self) -> None:
        """Kill it with SIGKILL, if it still runs."""
        self._process.kill()
        self._process.wait()

    def beats(self, redis: RedisServer) -> bool:
        """Return whether it has begun to work. Before that, SIGTERM may kill it like any other process."""
        names = cast("list[bytes]", redis.do("ZRANGE", keys.WORKERS, 0, -1))
        return any(f"-{self._process.pid}-" in name.decode() for name in names)

    def stop(self) -> int:
        """Return its exit status after SIGTERM. Raises TimeoutExpired."""
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(PATIENCE)


@pytest.fixture
def workers(own_redis: RedisServer, tmp_path: Path) -> Iterator[list[Worker]]:
    """A list of running workers, all of which are killed at the end of the test."""
    workers = [Worker(own_redis.url, tmp_path / "data") for _ in range(WORKERS)]
    yield workers
    for worker in workers:
        worker.kill()


@pytest_asyncio.fixture
async def node(own_redis: RedisServer) -> AsyncIterator[NodeUnderTest]:
    async with running(settings_for(own_redis.url, limits=NO_LIMITS, callback_allow_private=True)) as node:
        yield node


class Publishers:
    """Offer, claim, start and complete contracts until enough changes have been acknowledged."""

    def __init__(self, node: NodeUnderTest, urls: list[str], wanted: int) -> None:
        self.acknowledged: set[tuple[str, str]] = set()
        """Contract and type of each callback that is due to be sent."""
        self._client = node.client
        self._urls = urls
        self._wanted = wanted

    async def run(self) -> None:
        await asyncio.gather(*(self._publish(number) for number in range(PUBLISHERS)))

    async def _publish(self, number: int) -> None:
        count = number
        while len(self.acknowledged) < self._wanted:
            url = self._urls[count % len(self._urls)]
            await self._one({"publisher_id": "p", "title": "Translate a memo", "callback_url": url}, f"{count}")
            count += PUBLISHERS

    async def _one(self, offer: dict[str, Any], key: str) -> None:
        task = (await self._post("/api/v1/tasks", offer, key)).json()
        path = f"/api/v1/tasks/{task['id']}"
        claim = (await self._post(f"{path}/claim", {"assignee_id": "w"}, key)).json()
        self.acknowledged.add((task["id"], "task.claimed"))
        if (await self._post(f"{path}/transition", {"actor_id": "w"}, key)).status_code == 200:
            self.acknowledged.add((task["id"], "task.in_progress"))
        await self._post(f"{path}/complete", {"claim_token": claim["claim_token"]}, key)
        self.acknowledged.add((task["id"], "task.completed"))

    async def _post(self, path: str, body: dict[str, Any], key: str) -> httpx2.Response:
        """Return the answer, once Redis is available. A 409 means that an earlier try took effect."""
        while True:
            response = await self._client.post(path, json=body, headers={"idempotency-key": key})
            if response.status_code != 503:
                assert response.status_code < 300 or response.status_code == 409, response.text
                return response
            await asyncio.sleep(0.05)


def move_times(server: RedisServer) -> None:
    """Make all waiting callbacks and events due."""
    for partition in range(ids.PARTITIONS):
        for name in server.do("ZRANGE", keys.callbacks_due(partition), 0, -1):
            server.do("ZADD", keys.callbacks_due(partition), "XX", 0, name)
        stream = keys.events(partition)
        script = """
            local held = redis.pcall('XPENDING', KEYS[1], 'hooks', '-', '+', 1000)
            if held.err then return end -- no worker has joined yet
            for _, row in ipairs(held) do
              redis.call('XCLAIM', KEYS[1], 'hooks', row[2], 0, row[1], 'IDLE', 60000, 'JUSTID')
            end"""
        if server.do("EXISTS", stream):
            server.do("EVAL", script, 1, stream)


async def test_no_callback_is_lost_while_workers_and_redis_are_killed(
    node: NodeUnderTest,
    own_redis: RedisServer,
    workers: list[Worker],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    began = time.monotonic()
    # Each host fails every tenth request, so its URLs' breakers never see enough failures in a row to open.
    async with Receiver(PUBLIC, lambda n: 500 if n % 10 == 9 else 204, HOSTS) as receiver:
        publishers = Publishers(node, receiver.urls, PLAN.callbacks)
        publishing = asyncio.create_task(publishers.run())
        for kill in range(PLAN.worker_kills):
            await receiver.until(PLAN.callbacks * (kill + 1) // (PLAN.worker_kills + 2), PLAN.patience)
            workers.pop(0).kill()
            if kill == PLAN.worker_kills // 2:
                own_redis.kill()
                own_redis.start()
            workers.append(Worker(own_redis.url, tmp_path / "data"))
        await publishing

        def lost() -> set[tuple[str, str]]:
            return publishers.acknowledged - {(body["data"]["task_id"], body["type"]) for _, body in receiver.messages}

        try:
            async with asyncio.timeout(PLAN.patience):
                while lost():
                    if PLAN.moved:
                        move_times(own_redis)
                    await asyncio.sleep(1)
        except TimeoutError:
            pytest.fail(f"{lost()} did not come. Open breakers: {own_redis.do('KEYS', 'rate:*:callback-open:*')}")
        await eventually(lambda: under_way(own_redis) == 0, PLAN.patience)
        await eventually(lambda: all(worker.beats(own_redis) for worker in workers))
        assert [worker.stop() for worker in workers] == [0] * WORKERS
    assert receiver.forged == 0
    times = Counter(message_id for message_id, _ in receiver.messages)
    twice = sum(count - 1 for count in times.values())
    with capsys.disabled():
        sys.stdout.write(
            f"\n{len(publishers.acknowledged)} callbacks owed, {len(times)} delivered, {len(lost())} lost, "
            f"{twice} repeats in {receiver.requests} requests; {PLAN.worker_kills} workers and Redis killed; "
            f"{time.monotonic() - began:.0f} s\n"
        )


def under_way(server: RedisServer) -> int:
    return sum(server.do("ZCARD", keys.callbacks_due(partition)) for partition in range(ids.PARTITIONS))
