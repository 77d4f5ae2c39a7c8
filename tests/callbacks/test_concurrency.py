"""How many attempts one worker makes at a time: in all, for one publisher and at one receiver."""

from contextlib import AsyncExitStack

import pytest

from node.callbacks import concurrency
from node.callbacks.attempt import NotNow
from node.callbacks.concurrency import (
    PLACES,
    PLACES_EACH_DOMAIN,
    PLACES_EACH_HOST,
    PLACES_EACH_SITE,
    PLACES_EACH_SITE_AND_DOMAIN,
    Concurrency,
)

NUMBERS = range(PLACES + 1)
ATTEMPTS = {
    "one site at one domain": ([("ann", f"h{n}.a.example") for n in NUMBERS], PLACES_EACH_SITE_AND_DOMAIN),
    "one site": ([("ann", f"{n}.example") for n in NUMBERS], PLACES_EACH_SITE),
    "one host": ([(f"site {n}", "a.example") for n in NUMBERS], PLACES_EACH_HOST),
    "one domain": ([(f"site {n}", f"h{n}.a.example") for n in NUMBERS], PLACES_EACH_DOMAIN),
    "all": ([(f"site {n}", f"d{n}.example") for n in NUMBERS], PLACES),
}


@pytest.mark.parametrize(("attempts", "most"), ATTEMPTS.values(), ids=ATTEMPTS)
async def test_so_many_attempts_have_a_place_and_the_next_one_when_they_have_ended(
    monkeypatch: pytest.MonkeyPatch, attempts: list[tuple[str, str]], most: int
) -> None:
    worker = Concurrency()
    async with AsyncExitStack() as held:
        for attempt in attempts[:most]:
            await held.enter_async_context(worker.of(*attempt))
        monkeypatch.setattr(concurrency, "TURN_SECONDS", 0.01)
        with pytest.raises(NotNow):
            await held.enter_async_context(worker.of(*attempts[most]))
        monkeypatch.undo()
    async with worker.of(*attempts[most]):
        pass
