"""One scenario a file; `ALL` is the order of `python -m bench all`."""

from bench.scenario import Scenario
from bench.scenarios import (
    board,
    claim,
    growth,
    held,
    idle,
    mcp,
    message,
    mixed,
    neighbours,
    overload,
    relay,
    search,
    session,
)

ALL: tuple[Scenario, ...] = (
    relay.SCENARIO,
    session.SCENARIO,
    message.SCENARIO,
    mcp.SCENARIO,
    claim.SCENARIO,
    board.SCENARIO,
    search.SCENARIO,
    mixed.SCENARIO,
    held.SCENARIO,
    idle.SCENARIO,
    overload.SCENARIO,
    neighbours.SCENARIO,
    growth.SCENARIO,
)
