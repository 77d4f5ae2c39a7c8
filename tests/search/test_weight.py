"""What is searched takes no more memory, terms and vectors included, than its client is charged."""

from node.share.cost import COSTS
from tests.support.limits import every_limit
from tests.support.node_under_test import running, settings_for, until
from tests.support.servers import PATIENCE, RedisServer
from tests.tasks.calls import TASKS

SENTENCE = "The crew counts the panels on each roof, and writes down what the owner says about the weather. "


async def test_a_long_offer_takes_no_more_memory_than_its_client_is_charged(engine_redis: RedisServer) -> None:
    engine_redis.do("FLUSHALL")
    offers, kept, charged = 8, 0, 0
    async with running(settings_for(engine_redis.url, limits=every_limit(100, 1))) as node, node.worker():

        async def are_indexed(number: int) -> bool:
            indexed = await node.names("search:tasks:passages:*")
            waiting = await node.names("search:tasks:pending:*")
            return len(indexed) == number and not waiting

        for number in range(1, offers + 1):
            text = SENTENCE * 60 + f"It is roof number {number}."
            offer = {"publisher_id": "crew", "title": "Count the panels", "description": text}
            response = await node.client.post(TASKS, json=offer)
            assert response.status_code == 201, response.text
            await until(lambda number=number: are_indexed(number), PATIENCE)
            if number == 1:  # with the first come the indexes
                kept = engine_redis.info("memory")["used_memory"]
            else:
                charged += COSTS["task"].of(len(response.request.content))
        kept = engine_redis.info("memory")["used_memory"] - kept
    assert kept < charged
