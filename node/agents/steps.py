"""The atomic steps of the directory, typed (lua/README.md)."""

import msgspec

from node.store import ids, keys
from node.store.idempotency import Once
from node.store.replay import FirstUse
from node.store.steps import Key, Rest, step


class EntryKeys(msgspec.Struct, frozen=True, gc=False):
    """What the steps on an entry take: keys of the entry, its address and its partition, and the id of the entry."""

    agent: Key
    listed: Key
    due: Key
    events: Key
    agent_id: str

    @classmethod
    def of(cls, agent_id: str, address: str) -> "EntryKeys":
        """Build the keys of an entry. `address` is the address of an inbox, or a host."""
        partition = ids.partition_of(address)
        listed, due = keys.agents_of(address), keys.agents_due(partition)
        return cls(keys.agent(agent_id), listed, due, keys.events(partition), agent_id)


@step
def agent_list(
    *,
    entry: EntryKeys,
    inbox: Key,
    once: Once,
    first_use: FirstUse,
    proof: str,
    life: int,
    spare: int,
    most: int,
    client: str,
    fields: Rest,
) -> None:
    """List an agent by its card, or renew its entry."""


@step
def agent_submit(
    *, entry: EntryKeys, once: Once, most: int, kept: int, holds: int, spare: int, client: str, fields: Rest
) -> None:
    """Schedule a check of the agent at a URL."""


@step
def agent_settle(
    *,
    entry: EntryKeys,
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
    entry: EntryKeys,
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
    """Record what a probe found, and schedule the next one."""


@step
def agent_unschedule(*, agent: Key, due: Key, agent_id: str) -> None:
    """Remove an agent that is gone from the schedule of checks."""


@step
def agent_remove(*, entry: EntryKeys, inbox: Key, first_use: FirstUse, proof: str) -> None:
    """Remove an entry."""


@step
def agent_expire(*, agent: Key, events: Key, agent_id: str, dropped: int, spare: int, kept: int) -> None:
    """Remove an entry if its time is over."""
