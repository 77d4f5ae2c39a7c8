"""The lists of the directory, which several processes derive from the entries at the same time (NETWORK 2)."""

from collections.abc import Iterable, Sequence

import pytest

from node.agents.lists import AgentLists
from node.store import Arg, RedisReply, Store, keys
from node.store.bulk import bulk
from tests.agents.calls import card_of
from tests.inbox.calls import bearer, opened
from tests.support.node_under_test import NodeUnderTest


async def test_a_projection_that_read_an_entry_before_it_changed_does_not_undo_the_one_after(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    inbox = await opened(node)
    posted = {"card": card_of("Report desk")}
    agent = (await node.client.post("/api/v1/agents", json=posted, headers=bearer(inbox["inbox_token"]))).json()
    lists = AgentLists(node.store)

    async def changed_after(store: Store, commands: Iterable[Sequence[Arg]]) -> list[RedisReply]:
        monkeypatch.undo()
        rows = await bulk(store, commands)
        await node.store.command("HSET", keys.agent(agent["id"]), "liveness", "open")
        await lists.project([agent["id"]])
        return rows

    monkeypatch.setattr("node.agents.lists.bulk", changed_after)
    await lists.project([agent["id"]])
    assert await lists.newest(10, 0, "open") == ([agent["id"]], 1)
    assert await lists.newest(10, 0, "unknown") == ([], 0)
