"""What a step of the breaker costs Redis."""

from node.callbacks.breaker import Breaker
from node.callbacks.owners import publisher_of, site_part
from node.config import Limit
from node.share.site import SITE_SHARE
from node.store import ids, keys
from tests.support.node_under_test import NodeUnderTest
from tests.support.servers import RedisServer

LIMIT = Limit(300, 60)


async def test_thousands_of_attempts_that_are_over_at_once_are_forgotten_in_a_few_commands(
    node: NodeUnderTest, empty_redis: RedisServer
) -> None:
    breaker = Breaker(node.store, Limit(60, 60), LIMIT)
    client = publisher_of("2001:db8:1:1::/64")
    site = site_part(client)
    partition = ids.partition_of(site)
    logs = [keys.rate(partition, "callback-site", site), keys.rate(partition, "callback-client", client)]
    now = int(empty_redis.do("TIME")[0]) * 1000
    for log, count in zip(logs, (LIMIT.count * SITE_SHARE, LIMIT.count), strict=True):
        times = [now - LIMIT.milliseconds - number for number in range(count, 0, -1)]
        await node.store.command("LPUSH", log, *times, key=log)
        await node.store.command("PEXPIRE", log, LIMIT.milliseconds, key=log)
    empty_redis.do("CONFIG", "RESETSTAT")
    await breaker.allow(client)
    stats = empty_redis.info("commandstats")
    assert sum(each["calls"] for each in stats.values()) < 100
    assert [await node.store.command("LLEN", log, key=log) for log in logs] == [1, 1]
