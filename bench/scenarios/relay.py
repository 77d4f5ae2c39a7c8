"""POST /api/v1/relay: the acknowledgement on its own, while the worker embeds, and beside every peer.

The ceilings are measured on one web process with a Redis and nothing else, like those of the peers. The latencies
are measured on a whole node, whose worker embeds the board threads that the messages become.
"""

from bench.entities import relay_messages
from bench.lab import Lab, Peer
from bench.peers import bare_granian, nats, plain_fastapi, webdis
from bench.scenario import Scenario

PEERS: tuple[Peer, ...] = (bare_granian.PEER, bare_granian.RSGI, webdis.PEER, plain_fastapi.PEER, nats.PEER)

START = "web process answers after"
CEILING = "ceiling"
PRIVATE = "ceiling, public=false"
SAME_RATE = "at half of the node's ceiling"
HALF = "half of the ceiling, worker embedding"
SHARES = (0.1, 0.25, 0.5, 0.75, 0.9)
SWEEP = "whole node, {share:.0%} of the ceiling"


async def run(lab: Lab) -> None:
    messages = relay_messages(lab)
    if lab.alone:
        async with lab.node() as node:
            await lab.at_asked_rate(node, messages)
        return
    async with lab.node("web") as node, lab.peers(PEERS) as peers:
        lab.point(START, node.start_seconds, "s")
        ceiling, *others = await lab.side_by_side([(node, messages), *peers], CEILING)
        half = ceiling.requests_per_s / 2
        able = {row.subject for row in others if row.requests_per_s > half}
        able_peers = [(server, calls) for server, calls in peers if server.name in able]
        await lab.side_by_side([(node, messages), *able_peers], SAME_RATE, half)
        await lab.at_ceiling(node, relay_messages(lab, public=False), PRIVATE)
    async with lab.node() as node:
        await lab.at_rate(node, messages, HALF, half)
        for share in SHARES:
            await lab.at_rate(node, messages, SWEEP.format(share=share), 2 * half * share, runs=1)


SCENARIO = Scenario("relay", "acknowledge a relay message; Webdis, bare Granian, FastAPI, NATS beside it", run)
