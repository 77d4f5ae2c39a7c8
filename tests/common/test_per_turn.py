"""What the requests of one turn of the event loop want done, done together."""

import asyncio
from collections.abc import Sequence

from node.common.per_turn import PerTurn


async def test_items_of_one_turn_are_acted_on_together_in_the_next() -> None:
    acted: list[list[str]] = []

    def act(items: Sequence[str]) -> None:
        acted.append([*items])
        if items == ["a", "b"]:
            of_turns.add("c")  # as a later turn's

    of_turns = PerTurn(act)
    of_turns.add("a")
    of_turns.add("b")
    assert acted == []
    await asyncio.sleep(0)
    assert acted == [["a", "b"]]
    await asyncio.sleep(0)
    assert acted == [["a", "b"], ["c"]]
