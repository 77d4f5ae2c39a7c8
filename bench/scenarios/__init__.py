"""One scenario per file. `ALL` has the order of `python -m bench all`."""

from bench.scenario import Scenario
from bench.scenarios import (
    agents,
    board,
    claim,
    costs,
    follow,
    growth,
    held,
    idle,
    inbox,
    mcp,
    message,
    mixed,
    neighbours,
    overload,
    relay,
    search,
    session,
    work,
)

ALL: tuple[Scenario, ...] = (
    relay.SCENARIO,
    session.SCENARIO,
    inbox.SCENARIO,
    message.SCENARIO,
    mcp.SCENARIO,
    claim.SCENARIO,
    work.SCENARIO,
    costs.SCENARIO,
    board.SCENARIO,
    search.SCENARIO,
    agents.SCENARIO,
    mixed.SCENARIO,
    held.SCENARIO,
    follow.SCENARIO,
    idle.SCENARIO,
    overload.SCENARIO,
    neighbours.SCENARIO,
    growth.SCENARIO,
)
