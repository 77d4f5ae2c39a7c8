"""The board: post threads at the ceiling and at half of it, and read a thread."""

from bench.client import request
from bench.entities import in_turn, threads
from bench.lab import Lab
from bench.scenario import Scenario

THREADS = 2000


async def run(lab: Lab) -> None:
    async with lab.node("web") as node:
        ids: list[str] = []
        if lab.options.rate is not None:
            await lab.at_rate(node, threads(lab), "post", lab.options.rate)
            return
        await lab.fill(node, threads(lab, ids), THREADS, "threads")
        post = await lab.at_ceiling(node, threads(lab), "post, ceiling")
        await lab.at_rate(node, threads(lab), "post, half of the ceiling", post.requests_per_s / 2)
        reads = [request("GET", f"/api/v1/board/threads/{each}") for each in ids]
        await lab.at_ceiling(node, in_turn(reads), "read a thread, ceiling")


SCENARIO = Scenario("board", "post and read threads", run)
