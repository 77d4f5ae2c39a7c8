"""A node on a cluster as its clients see it: moving slots cost nothing, a dead primary 503 until its replica serves."""

import asyncio
from collections.abc import Callable

from tests.cluster.conftest import slots_in_use
from tests.faults.report import ROWS, Row
from tests.faults.writers import Writers, kept, unlimited
from tests.support.node_under_test import running
from tests.support.servers import Cluster

WRITES = 300
MOVED = 8  # number of moved slots, of the 64 partitions' slots
PATIENT = 5.0  # s that a Redis call may take, so that nothing fails because the machine is busy

Record = Callable[[str, object], None]


async def test_slots_move_under_load_and_no_request_fails(cluster: Cluster) -> None:
    for server in cluster.servers:
        server.do("CONFIG", "RESETSTAT")
    async with running(unlimited(cluster.url, store_timeout=PATIENT)) as node:
        async with Writers(node) as writers:
            await writers.further(WRITES)
            for slot in slots_in_use()[:MOVED]:
                source = cluster.primary_of(slot)
                target = next(server for server in cluster.servers[: cluster.primaries] if server is not source)
                await asyncio.to_thread(cluster.move, slot, target)
            await writers.further(WRITES)
        found = await kept(node, writers)
    assert set(writers.answers) <= {200, 201}, "no request failed"
    assert (found.lost, found.twice) == ([], 0)
    assert any("errorstat_MOVED" in server.info("errorstats") for server in cluster.servers), "calls had to follow"


async def test_a_killed_primary_costs_503_until_its_replica_has_taken_over(
    mortal_cluster: Cluster, record_property: Record
) -> None:
    primary = mortal_cluster.primary_of(slots_in_use()[0])
    async with running(unlimited(mortal_cluster.url)) as node:
        async with Writers(node) as writers:
            await writers.further(WRITES)
            assert writers.answers[503] == 0
            await asyncio.to_thread(primary.kill)
            longest = await writers.recovered()
            refused = writers.answers[503]
            await writers.further(WRITES)
            assert writers.answers[503] == refused, "none once all are served again"
        found = await kept(node, writers)
    assert refused, "what the dead primary had was refused"
    assert set(writers.answers) <= {200, 201, 503}
    assert found.twice == 0
    # A primary answers before its replica has the write. Writes lost this way are counted, as docs/durability.md says.
    ROWS.append(Row("primary of a cluster killed", 1, writers.acknowledged, refused, longest, len(found.lost), 0))
    record_property("errors_for_s", longest)
    record_property("acknowledged_but_lost_by_asynchronous_replication", len(found.lost))
