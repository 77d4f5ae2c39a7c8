"""A searchable entity, with its terms and vectors, takes no more memory than its client is charged for."""

from typing import Any, cast

from node.run.corpora import corpora_of
from node.share.cost import COSTS
from node.store import ids
from tests.support.limits import every_limit
from tests.support.node_under_test import NodeUnderTest, running, settings_for, until
from tests.support.servers import RedisServer
from tests.tasks.calls import TASKS

GROUPS = ("lists", "index", "hooks", "artifacts", "feed")  # groups of workers that read the outboxes
SENTENCE = "The crew counts the panels on each roof, and writes down what the owner says about the weather. "


def held(server: RedisServer) -> int:
    """Return the number of bytes that a server uses for its data."""
    memory = server.info("memory")
    return memory["used_memory"] - memory["mem_clients_normal"] - memory["used_memory_scripts_eval"]


async def is_at_work(node: NodeUnderTest) -> bool:
    """Return whether the worker reads all outboxes and answers all searches. What it needs for that is not charged to
    offers.
    """
    readers = 0
    for name in await node.names("events:*"):
        for group in cast("list[list[Any]]", await node.store.command("XINFO", "GROUPS", name)):
            readers += group[group.index(b"consumers") + 1]
    answering = await node.names("search:*workers:vectors:*")
    return readers >= len(GROUPS) * ids.PARTITIONS and len(answering) == len(corpora_of(node.store))


async def test_a_long_offer_takes_no_more_memory_than_its_client_is_charged(engine_redis: RedisServer) -> None:
    engine_redis.do("FLUSHALL")
    offers, kept, charged = 16, 0, 0
    async with running(settings_for(engine_redis.url, limits=every_limit(100, 1))) as node, node.worker():

        async def are_indexed(number: int) -> bool:
            indexed = await node.names("search:tasks:passages:*")
            waiting = await node.names("search:tasks:pending:*")
            return len(indexed) == number and not waiting

        await until(lambda: is_at_work(node))
        for number in range(1, offers + 1):
            text = SENTENCE * 60 + f"It is roof number {number}."
            offer = {"publisher_id": "crew", "title": "Count the panels", "description": text}
            response = await node.client.post(TASKS, json=offer)
            assert response.status_code == 201, response.text
            await until(lambda number=number: are_indexed(number))
            if number == 1:  # the first offer creates the indexes
                kept = held(engine_redis)
            else:
                charged += COSTS["task"].of(len(response.request.content))
        kept = held(engine_redis) - kept
    assert kept < charged
