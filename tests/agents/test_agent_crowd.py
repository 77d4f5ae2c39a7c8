"""A few hundred made-up agents at once, checked by two workers (NETWORK 2)."""

import asyncio
from functools import partial

import pytest

from node.agents.store import HIDDEN_MS
from node.callbacks import call
from tests.agents.calls import AGENTS
from tests.agents.conftest import CALLING
from tests.agents.made_up import LIVENESS, WELL_KNOWN, Json, MadeUpAgents
from tests.support.effort import FULL
from tests.support.node_under_test import NodeUnderTest, until
from tests.support.servers import PATIENCE

REJECTED = ("none", "gone", "redirect", "nonsense", "huge", "failing", "slow", "drip")
KINDS = (*LIVENESS, *REJECTED)
AGENTS_EACH = 13 if FULL else 2
"""Agents of each kind, each on its own host: 299 in all in the full run."""

UNTIL_AGAIN = HIDDEN_MS / 1000 + PATIENCE
"""Seconds until another worker has repeated a check without result: the visibility timeout, and time for the check."""

SECONDS = 4.0
"""Timeout of a request, in seconds. Requests to a slow host reach it; all others must be answered sooner, even on a
busy machine.
"""

pytestmark = CALLING


async def test_each_of_many_is_told_as_it_is_and_probed_by_one_worker(
    node: NodeUnderTest, made_up: MadeUpAgents, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("node.callbacks.call.AttemptTimeouts", partial(call.AttemptTimeouts, total=SECONDS))
    # Each agent has its own path, so that the requests to it can be counted.
    paths = {f"{kind}/{number}": kind for number in range(AGENTS_EACH) for kind in KINDS}

    async def entry(agent_id: str) -> Json:
        return (await node.client.get(f"{AGENTS}/{agent_id}")).json()

    async with node.worker(), node.worker():
        posted = await asyncio.gather(
            *(
                node.client_at(f"203.0.{number % 100}.7").post(AGENTS, json={"url": made_up.url(path, number)})
                for number, path in enumerate(paths)
            )
        )
        assert {response.status_code for response in posted} == {202}
        agent_ids = [response.json()["id"] for response in posted]

        async def all_are_told() -> bool:
            found = await asyncio.gather(*map(entry, agent_ids))
            entries.update(zip(paths, found, strict=True))
            return all(
                each["status"] == "rejected" or (each["status"] == "listed" and each["checked_at"] > each["listed_at"])
                for each in found
            )

        entries: dict[str, Json] = {}
        await until(all_are_told, UNTIL_AGAIN)

        async def all_are_in_the_list() -> bool:
            return (await node.client.get(AGENTS, params={"limit": 1})).json()["total"] == AGENTS_EACH * len(LIVENESS)

        await until(all_are_in_the_list)
    for path, kind in paths.items():
        wanted = ("rejected", "unknown") if kind in REJECTED else ("listed", LIVENESS[kind])
        assert (entries[path]["status"], entries[path]["liveness"]) == wanted, path
        if kind not in REJECTED:
            # The check asks at the URL itself and then below it; the probe asks once more.
            assert (made_up.requests[f"GET /{path}"], made_up.requests[f"GET /{path}{WELL_KNOWN}"]) == (1, 2), path
