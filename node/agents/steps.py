"""The atomic steps of the directory, typed (lua/README.md)."""

from node.store.idempotency import Once
from node.store.replay import FirstUse
from node.store.steps import Key, Rest, step


@step
def agent_list(
    *,
    agent: Key,
    listed: Key,
    inbox: Key,
    due: Key,
    once: Once,
    first_use: FirstUse,
    events: Key,
    proof: str,
    agent_id: str,
    life: int,
    spare: int,
    most: int,
    site: str,
    client: str,
    fields: Rest,
) -> None:
    """List an agent by its card, or renew its entry."""


@step
def agent_submit(
    *,
    agent: Key,
    listed: Key,
    due: Key,
    once: Once,
    events: Key,
    agent_id: str,
    most: int,
    kept: int,
    holds: int,
    spare: int,
    client: str,
    fields: Rest,
) -> None:
    """Have the agent at a URL checked."""


@step
def agent_settle(
    *,
    agent: Key,
    listed: Key,
    due: Key,
    events: Key,
    agent_id: str,
    posted: int,
    verdict: str,
    reason: str,
    life: int,
    spare: int,
    kept: int,
    again: int,
    fields: Rest,
) -> None:
    """Record what the check of a posted URL found."""


@step
def agent_probed(
    *,
    agent: Key,
    listed: Key,
    due: Key,
    events: Key,
    agent_id: str,
    found: str,
    tolerated: int,
    day: int,
    calm: int,
    longest: int,
    again: int,
    hides: int,
    posted: int,
    checked: int,
    reason: str,
    fields: Rest,
) -> None:
    """Record what a probe found, and plan the next one."""


@step
def agent_undue(*, agent: Key, due: Key, agent_id: str) -> None:
    """Take an agent that is gone off the schedule of checks."""


@step
def agent_remove(
    *,
    agent: Key,
    listed: Key,
    inbox: Key,
    due: Key,
    first_use: FirstUse,
    events: Key,
    proof: str,
    agent_id: str,
) -> None:
    """Remove an entry."""


@step
def agent_expire(*, agent: Key, events: Key, agent_id: str, dropped: int, spare: int, kept: int) -> None:
    """Remove an entry if its time is over."""
