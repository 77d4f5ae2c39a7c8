"""Processes, Redis and a primary are killed (-9) while messages of an inbox are sent and settled (NETWORK 1).

`make faults` runs it in full: some 50,000 messages. None is lost, duplicated or settled twice, and their order is kept.
"""

import asyncio
import os
import signal
from pathlib import Path

import httpx2

from node.store import ids, keys
from node.store.slots import slot_of
from tests.faults.inbox_traffic import SETTLED_AT_ONCE, InboxTraffic
from tests.faults.report import ROWS, Row
from tests.faults.test_processes import kill_and_replace
from tests.faults.test_redis_faults import ALWAYS
from tests.faults.writers import unlimited
from tests.support.effort import FULL
from tests.support.limits import NO_LIMITS_GIVEN
from tests.support.node_under_test import running
from tests.support.nodes import PATIENCE, NodeProcess
from tests.support.servers import Cluster

TIMES = 10 if FULL else 1
MESSAGES = 1_600 if FULL else 60
"""Number of messages settled after each kill."""

SENDERS = 8

OFF = {
    **NO_LIMITS_GIVEN,
    "RELAY_CLIENT_INBOXES": "0",
    "RELAY_CLIENT_BYTES": "0",
}


async def report(fault: str, times: int, traffic: InboxTraffic, most: int = 0) -> None:
    """Compare what was settled with what was acknowledged. Up to `most` messages may be lost or duplicated."""
    lost = await traffic.lost()
    ROWS.append(Row(fault, times, traffic.acknowledged, traffic.answers[503], None, lost, traffic.twice))
    assert max(lost, traffic.twice) <= most
    if not lost and not traffic.twice:
        traffic.check_order()


async def test_no_death_of_a_process_loses_a_message_or_settles_it_twice(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "data") as node:
        node.start(**OFF)
        await asyncio.to_thread(node.ready)
        async with httpx2.AsyncClient(base_url=node.url, timeout=PATIENCE) as client:
            async with InboxTraffic(client) as traffic:
                await traffic.further(MESSAGES)
                for _ in range(TIMES):
                    os.kill(node.web_process(2), signal.SIGKILL)
                    await traffic.further(MESSAGES)
                    for child in ("worker", "redis"):
                        await asyncio.to_thread(kill_and_replace, node, child)
                        await traffic.further(MESSAGES)
            await report("inbox: web, worker, embedded Redis killed (-9)", 3 * TIMES, traffic)


async def test_the_death_of_a_primary_costs_no_more_than_what_its_replica_did_not_have_yet(tmp_path: Path) -> None:
    with Cluster(tmp_path / "cluster", 3, *ALWAYS, node_timeout=1.0) as cluster:
        async with running(unlimited(cluster.url)) as node:
            async with InboxTraffic(node.client, SENDERS) as traffic:
                await traffic.further(MESSAGES)
                slot = slot_of(keys.tag(ids.partition_of(traffic.inbox["address"])))
                cluster.primary_of(slot).kill()
                await traffic.further(MESSAGES)
            # A cluster replicates after it has answered (docs/durability.md), so writes under way may be lost.
            await report("inbox: its primary killed (-9)", 1, traffic, most=SENDERS + SETTLED_AT_ONCE)
