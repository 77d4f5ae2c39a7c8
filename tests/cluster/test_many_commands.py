"""Many commands in one round trip to each server, one of which may be sent no more calls."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from node.store import StoreUnavailable
from node.store.errors import StoreBusy
from node.store.keys import PARTITIONS, tag
from node.store.slots import slot_of
from node.store.store import SHARE_OF_CALLS
from tests.cluster.conftest import TIMEOUT
from tests.store.conftest import Opener
from tests.support.servers import Cluster

T = TypeVar("T")


async def test_commands_for_one_server_too_many_lose_no_reply_of_another(cluster: Cluster, open_store: Opener) -> None:
    keys = [f"many:{tag(partition)}" for partition in range(PARTITIONS)]
    first = cluster.primary_of(slot_of(keys[0]))
    admitted = [key for key in keys if cluster.primary_of(slot_of(key)) is first][:3]
    refused = [key for key in keys if cluster.primary_of(slot_of(key)) is not first]
    store = await open_store(cluster.url, timeout=TIMEOUT, max_in_flight=4 * SHARE_OF_CALLS)  # four calls at a time
    commands = [("INCR", key) for key in admitted]
    one_more = ("INCR", refused[0])

    async def run_where_three_fit(run: Callable[[list[tuple[str, str]]], Awaitable[T]]) -> T:
        others = [store.command("GET", admitted[0]) for _ in range(store.max_in_flight - len(admitted))]
        _, replies = await asyncio.gather(asyncio.gather(*others), run([*commands, one_more]))
        return replies

    replies = await run_where_three_fit(store.run_reachable)
    assert replies[: len(admitted)] == [1] * len(admitted)
    assert isinstance(replies[-1], StoreUnavailable)
    with pytest.raises(StoreBusy):
        await run_where_three_fit(store.run_all)
    assert await store.run_all(commands) == [3] * len(admitted), "those that were sent have run each time"
    assert store.stats.in_flight == 0
