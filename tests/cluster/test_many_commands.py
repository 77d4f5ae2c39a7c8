"""Many commands in one trip to each server, of which one may be sent no more calls."""

import pytest

from node.store import StoreUnavailable
from node.store.errors import StoreBusy
from node.store.keys import PARTITIONS, tag
from node.store.slots import slot_of
from tests.cluster.conftest import TIMEOUT
from tests.store.conftest import Opener
from tests.support.servers import Cluster


async def test_commands_for_one_server_too_many_lose_no_reply_of_another(cluster: Cluster, open_store: Opener) -> None:
    keys = [f"many:{tag(partition)}" for partition in range(PARTITIONS)]
    first = cluster.primary_of(slot_of(keys[0]))
    admitted = [key for key in keys if cluster.primary_of(slot_of(key)) is first][:3]
    refused = [key for key in keys if cluster.primary_of(slot_of(key)) is not first]
    store = await open_store(cluster.url, timeout=TIMEOUT, max_in_flight=len(admitted))
    commands = [("INCR", key) for key in admitted]
    one_more = ("INCR", refused[0])
    replies = await store.reachable([*commands, one_more])
    assert replies[: len(admitted)] == [1] * len(admitted)
    assert isinstance(replies[-1], StoreUnavailable)
    with pytest.raises(StoreBusy):
        await store.commands([*commands, one_more])
    assert await store.commands(commands) == [3] * len(admitted), "those that were sent have run each time"
    assert store.stats.in_flight == 0
