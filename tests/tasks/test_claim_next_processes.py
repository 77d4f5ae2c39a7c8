"""claim-next on two web processes, as an operator starts them."""

import asyncio
from pathlib import Path

import httpx2

from tests.support.nodes import PATIENCE
from tests.support.two_processes import process_of, two_processes
from tests.tasks.calls import TASKS

WORKERS, CONTRACTS = 60, 25


async def test_each_contract_goes_to_one_worker_of_two_processes(tmp_path: Path) -> None:
    served_by: set[str] = set()
    got: list[str] = []

    async def work(client: httpx2.AsyncClient, name: str) -> None:
        while len(got) < CONTRACTS:
            claim = await client.post(f"{TASKS}/claim-next", json={"assignee_id": name, "wait": 2})
            served_by.add(process_of(claim.headers["x-request-id"]))
            assert claim.status_code in (200, 204), claim.text
            if claim.status_code == 200:
                got.append(claim.json()["id"])

    with two_processes(tmp_path) as node:
        limits = httpx2.Limits(max_connections=WORKERS + 10)
        async with httpx2.AsyncClient(base_url=node.url, timeout=PATIENCE, limits=limits) as client:
            workers = [asyncio.create_task(work(client, f"agent-{number}")) for number in range(WORKERS)]
            offers = [
                await client.post(TASKS, json={"publisher_id": "desk", "title": f"Count the panels on roof {number}"})
                for number in range(CONTRACTS)
            ]
            async with asyncio.timeout(PATIENCE):
                await asyncio.gather(*workers)
    assert sorted(got) == sorted(offer.json()["id"] for offer in offers)
    assert len(served_by) == 2
