"""The directory in Redis: a hash for each entry, in the partition of the address or host that proves the entry.

The id of an entry is derived from the address and the agent's name, or from the host and the posted URL, so that
posting an agent again renews its entry. Lists over all partitions are in `lists.py`.
"""

from collections.abc import Mapping, Sequence
from typing import cast

from node.agents import steps
from node.agents.entry import AgentRow, Listing, StoredAgent, stored_agent
from node.agents.findings import CheckResult, Probe
from node.agents.steps import EntryKeys
from node.common.refusal import Refused
from node.store import Store, ids, keys
from node.store.clock import now_ms
from node.store.decoding import code_of, fields_of, flat_of
from node.store.due import TakenNames, take_due
from node.store.errors import StoreUnavailable
from node.store.idempotency import IdempotencyKey, Once
from node.store.limits import DAY_MS
from node.store.long_poll import wait_for_change
from node.store.replay import FirstUse
from node.store.unreadable import read_reachable

AGENT_LIFE_MS = 30 * DAY_MS
"""Life of an entry after its last posting."""

SPARE_MS = DAY_MS
"""How long after its end Redis drops an entry, if no worker has removed and announced it before."""

UNLISTED_KEPT_MS = DAY_MS
"""How long the reason why an agent was not listed can be read."""

HOLDS_MS = 10 * 60_000
"""How long an agent that is being checked counts among the entries of its host: longer than a check takes."""

MAX_ENTRIES = 20
"""Maximum number of entries of one address or host."""

HIDDEN_MS = 60_000
"""Visibility timeout of an entry that a worker has taken: longer than a check takes (`checks.py`)."""

PROBES_TO_CHANGE = 3
"""Consecutive probes that must agree before the liveness of an agent changes (NETWORK 2)."""

CALM = 7
"""Consecutive probes with the same result after which the pause between probes grows by a day."""

MAX_PAUSE_DAYS = 3
"""Maximum number of days between two probes."""

HIDES_MS = 7 * DAY_MS
"""An agent unreachable for this long is no longer shown (NETWORK 2)."""

AGAIN_MS = 30 * 60_000
"""Pause before the next attempt if an agent could not be probed because its host or network was called too often."""

INBOX_CLOSED = ""
"""Used in place of the proof of an owner: the inbox at the address no longer exists."""

REFUSALS = {
    b"gone": "inbox.unknown",
    b"token": "inbox.token",
    b"full": "agents.host_full",
    b"unknown": "agent.unknown",
    b"signature": "signature.replayed",
    b"conflict": "idempotency.conflict",
}
"""Refusal codes by the first word of a script's reply."""


class AgentStore:
    """Lists, reads, checks and removes entries. Every method raises StoreUnavailable."""

    def __init__(self, store: Store, idempotency_ttl: int) -> None:
        self._store = store
        self._idempotency_ms = idempotency_ttl * 1000

    async def put(self, listing: Listing, idempotency: IdempotencyKey | None) -> tuple[int, bool]:
        """List an agent or renew its entry. Returns when the entry ends (ms), and whether this is a replay.

        Raises Refused `inbox.unknown`, `inbox.token`, `agents.host_full`, `idempotency.conflict`, `signature.replayed`.
        """
        partition = ids.partition_of(listing.address)
        agent = keys.agent(listing.id)
        reply = await self._store.run(
            steps.agent_list(
                entry=EntryKeys.of(listing.id, listing.address),
                inbox=keys.inbox(listing.address),
                once=Once.of(idempotency, partition, agent, self._idempotency_ms),
                first_use=FirstUse.of(listing.replay_id, partition, agent),
                proof=listing.proven_by,
                life=AGENT_LIFE_MS,
                spare=SPARE_MS,
                most=MAX_ENTRIES,
                client=listing.client,
                fields=flat_of(listing.fields),
            )
        )
        match reply:
            case [b"listed" | b"replayed" as word, int(ends_at)]:
                return ends_at, word == b"replayed"
            case _:
                raise _refused(reply)

    async def has_room(self, address: str, agent_id: str) -> bool:
        """Whether an address has this entry, or room for one more. Entries that have ended do not count."""
        listed = keys.agents_of(address)
        now = await now_ms(self._store, listed)
        names = cast("list[bytes]", await self._store.command("ZRANGE", listed, f"({now}", "+inf", "BYSCORE"))
        return agent_id.encode() in names or len(names) < MAX_ENTRIES

    async def submit(
        self, host: str, fields: Mapping[str, str], *, agent_id: str, client: str, idempotency: IdempotencyKey | None
    ) -> bool:
        """Schedule a check of the agent at a URL. Returns whether this is a replay.

        Raises Refused `agents.host_full`, `idempotency.conflict`.
        """
        partition = ids.partition_of(host)
        agent = keys.agent(agent_id)
        reply = await self._store.run(
            steps.agent_submit(
                entry=EntryKeys.of(agent_id, host),
                once=Once.of(idempotency, partition, agent, self._idempotency_ms),
                most=MAX_ENTRIES,
                kept=UNLISTED_KEPT_MS,
                holds=HOLDS_MS,
                spare=SPARE_MS,
                client=client,
                fields=flat_of(fields),
            )
        )
        match reply:
            case [b"checking" | b"replayed" as word]:
                return word == b"replayed"
            case _:
                raise _refused(reply)

    async def take(self, partitions: Sequence[int]) -> dict[int, TakenNames]:
        """Take entries that are due for a check, exclusively for this worker. Returns their ids by partition.

        Partitions that are out of reach are left for later. Raises StoreUnavailable if all are.
        """
        due = {partition: keys.agents_due(partition) for partition in partitions}
        return await take_due(self._store, due, HIDDEN_MS)

    async def settle(self, agent: StoredAgent, found: CheckResult, again: int) -> str:
        """Record the result of the check of a posted URL. `again`: ms until the next probe if the agent stays listed.

        Returns `listed`, `stays`, `rejected`, or `stale` if another worker was faster or the entry is gone.
        """
        reply = await self._store.run(
            steps.agent_settle(
                entry=EntryKeys.of(agent.id, agent.address),
                posted=agent.posted_at,
                verdict="gone" if found.is_gone else "rejected" if found.reason else "listed",
                reason=found.reason,
                life=AGENT_LIFE_MS,
                spare=SPARE_MS,
                kept=UNLISTED_KEPT_MS,
                again=again,
                fields=flat_of(found.fields),
            )
        )
        return code_of(reply)

    async def unschedule(self, agent_id: str) -> None:
        """Remove an entry that is gone from the schedule of checks, unless it exists again."""
        due = keys.agents_due(ids.partition_of_id(agent_id))
        await self._store.run(steps.agent_unschedule(agent=keys.agent(agent_id), due=due, agent_id=agent_id))

    async def probed(self, agent: StoredAgent, probe: Probe, day: int) -> str:
        """Record what a probe found, and schedule the next probe in one `day` (ms) or more.

        Returns the liveness of the agent, or `later`, `removed`, `unknown`, `asked` or `stale` as in
        `lua/agent_probed.lua`.
        """
        card = probe.card
        reply = await self._store.run(
            steps.agent_probed(
                entry=EntryKeys.of(agent.id, agent.address),
                found=probe.found or "",
                tolerated=PROBES_TO_CHANGE if agent.is_remote else 1,  # the node's own records need no confirmation
                day=day,
                calm=CALM,
                longest=MAX_PAUSE_DAYS * day,
                again=AGAIN_MS,
                hides=HIDES_MS,
                posted=agent.posted_at,
                checked=agent.checked_at or 0,
                reason=card.reason if card else "*",
                fields=flat_of(card.fields) if card else [],
            )
        )
        match reply:
            case [b"probed", bytes(liveness), int()]:
                return liveness.decode()
            case _:
                return code_of(reply)

    async def read(self, agent_ids: Sequence[str]) -> list[StoredAgent | None]:
        """Return entries, with what their inboxes tell about them; None for an entry that does not exist."""
        agents: list[StoredAgent | None] = []
        for agent_id, row in zip(agent_ids, await self.rows(agent_ids), strict=True):
            if isinstance(row, StoreUnavailable):
                raise row
            agents.append(stored_agent(agent_id, row) if row else None)
        return agents

    async def rows(self, agent_ids: Sequence[str]) -> list[AgentRow | StoreUnavailable | None]:
        """Return entries as stored, with what their inboxes tell about them; None for an entry that does not exist.

        If the server of an entry or of its inbox cannot be reached but others can, the value is the error.
        """
        found = await self._store.run_reachable([("HGETALL", keys.agent(each)) for each in agent_ids])
        entries = [each if isinstance(each, StoreUnavailable) else fields_of(each) for each in found]
        addresses = list({address for each in entries if (address := _inbox_of(each))})
        seen = await self._store.run_reachable([("HGET", keys.inbox(each), "seen") for each in addresses])
        seen_at = dict(zip(addresses, seen, strict=True))
        return [_row(each, seen_at.get(_inbox_of(each))) for each in entries]

    async def readable(self, agent_ids: Sequence[str]) -> tuple[dict[str, AgentRow | None], list[str]]:
        """Return the `rows` that can be read by id, and the ids of those out of reach."""
        return await read_reachable(agent_ids, self.rows)

    async def wait(self, agent_id: str, seconds: float) -> StoredAgent | None:
        """Return an entry as soon as it is checked, or after `seconds`."""

        async def read() -> StoredAgent | None:
            [found] = await self.read([agent_id])
            return found

        return await wait_for_change(
            self._store.wakeups,
            keys.agent(agent_id),
            seconds,
            read,
            lambda found: not found or found.status != "checking",
        )

    async def remove(self, agent_id: str, address: str, proven_by: str, replay_id: str) -> None:
        """Remove an entry for its owner. The script compares `proven_by` with the inbox (`lua/agent_remove.lua`).

        Raises Refused `agent.unknown`, `inbox.token`, `signature.replayed`.
        """
        partition = ids.partition_of(address)
        agent = keys.agent(agent_id)
        reply = await self._store.run(
            steps.agent_remove(
                entry=EntryKeys.of(agent_id, address),
                inbox=keys.inbox(address),
                first_use=FirstUse.of(replay_id, partition, agent),
                proof=proven_by,
            )
        )
        if reply != [b"removed"]:
            raise _refused(reply)


def _refused(reply: object) -> Refused:
    """Return the refusal for a script's reply."""
    return Refused(REFUSALS[cast("list[bytes]", reply)[0]])


def _inbox_of(fields: Mapping[bytes, bytes] | StoreUnavailable) -> str:
    """Return the address of the inbox through which an agent is reached; empty if there is none."""
    if isinstance(fields, StoreUnavailable) or fields.get(b"proof", b"domain") == b"domain":
        return ""
    return fields[b"address"].decode()


def _row(fields: Mapping[bytes, bytes] | StoreUnavailable, seen: object) -> AgentRow | StoreUnavailable | None:
    """Build the row of an entry from its fields and from the `seen` field of its inbox."""
    if isinstance(fields, StoreUnavailable):
        return fields
    if isinstance(seen, StoreUnavailable):
        return seen
    return AgentRow.of(fields, cast("bytes | None", seen)) if b"status" in fields else None
