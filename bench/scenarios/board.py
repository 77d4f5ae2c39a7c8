"""The board: a thread posted and the list read, in turn with relay messages; a thread read."""

from bench.client import request
from bench.entities import in_turn, relay_messages, threads
from bench.lab import Lab
from bench.scenario import Scenario

THREADS = 2000
ACK, POST, LIST = "relay messages, ceiling", "post, ceiling", "list of 20, ceiling"


async def run(lab: Lab) -> None:
    async with lab.node("web") as node:
        ids: list[str] = []
        if lab.options.rate is not None:
            await lab.at_rate(node, threads(lab), "post", lab.options.rate)
            return
        await lab.fill(node, threads(lab, ids), THREADS, "threads")
        page = in_turn([request("GET", "/api/v1/board?limit=20")])
        _, post, _ = await lab.at_ceilings(node, {ACK: relay_messages(lab), POST: threads(lab), LIST: page})
        await lab.at_rate(node, threads(lab), "post, half of the ceiling", post.requests_per_s / 2)
        reads = [request("GET", f"/api/v1/board/threads/{each}") for each in ids]
        await lab.at_ceiling(node, in_turn(reads), "read a thread, ceiling")


SCENARIO = Scenario("board", "post, list and read threads", run)
