"""The worker's part in the directory: it fetches the cards of posted URLs, and probes listed agents.

The schedule of checks is in Redis, in the partition of each entry. One worker takes an entry that is due, and another
worker takes it if that one dies (`AgentStore.take`). The lists are updated from the events of the steps.
"""

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress

import msgspec
import structlog

from node.agents.entry import StoredAgent
from node.agents.fetch import CardFetcher
from node.agents.findings import Probe
from node.agents.lists import AgentLists
from node.agents.probe import Prober
from node.agents.store import INBOX_CLOSED, AgentStore
from node.callbacks.fair import FairCaller
from node.common.refusal import Refused
from node.common.stalls import StallDetector
from node.store import Store, StoreUnavailable, keys
from node.store.limits import DAY_MS
from node.store.outbox import Event
from node.store.partition_schedule import PartitionSchedule, run_due

log = structlog.get_logger()

POLL_SECONDS = 5.0
"""Pause between two reads of a partition's schedule for entries that other processes have added."""

MAX_UNDER_WAY = 500
"""Maximum entries that this process checks at a time. Most wait for their turn (`node.callbacks.concurrency`)."""

INBOX_PAUSE_MS = 3600_000
"""Pause between two checks of when the owner of an inbox was last seen. Such a check sends no request, so the pause is
shorter than between probes."""

JITTER = 0.1
"""Largest share by which a pause is made longer or shorter, so that agents listed together are not probed together."""


class AgentChecks:
    """Checks entries that are due."""

    def __init__(
        self, store: Store, entries: AgentStore, lists: AgentLists, calls: FairCaller, public_url: str
    ) -> None:
        self._store = store
        self._entries = entries
        self._lists = lists
        self._fetcher = CardFetcher(calls, public_url)
        self._prober = Prober(calls, self._fetcher)
        self._schedule = PartitionSchedule(POLL_SECONDS)
        self._stalls = StallDetector()
        self.outcomes: defaultdict[str, int] = defaultdict(int)
        """Number of checks by outcome, for the metrics."""

    def hear(self, events: Sequence[Event]) -> None:
        """Read the schedule of a partition at once if an event says that something is due there."""
        for event in events:
            if event.kind in ("check.asked", "agent.listed"):
                self._schedule.due_in(event.partition)

    async def run(self, stop: asyncio.Event) -> None:
        """Check entries until `stop` is set. Checks under way then get `partition_schedule.STOP_SECONDS` to end."""
        with suppress(StoreUnavailable):
            await self._note_check(only_first=True)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._stalls.watch(stop))
            await run_due(self._schedule, self._take, self._check, most=MAX_UNDER_WAY, stop=stop)

    async def _take(self, partitions: Sequence[int]) -> list[str]:
        """Take entries that are due, and return their ids. Raises StoreUnavailable."""
        taken = await self._entries.take(partitions)
        for partition, found in taken.items():
            if found.next_seconds is not None:
                self._schedule.due_in(partition, found.next_seconds)
        return [name for found in taken.values() for name in found.names]

    async def _check(self, agent_id: str) -> None:
        """Check an entry. A failure affects no other entry, and the entry becomes due again by itself."""
        try:
            [agent] = await self._entries.read([agent_id])
            if agent is None:
                await self._entries.unschedule(agent_id)
                return
            outcome = await (self._fetch(agent) if agent.status == "checking" else self._probe(agent))
            self.outcomes[outcome] += 1
            await self._note_check()
        except StoreUnavailable:
            pass  # the connection logs it
        except Exception:
            log.exception("agent not checked", agent=agent_id)

    async def _fetch(self, agent: StoredAgent) -> str:
        began = time.monotonic()
        found = await self._fetcher.fetch(agent.posted_url, agent.publisher, agent.card_url)
        if found.reason and self._stalls.was_held_up(began):
            return "later"  # it becomes due again by itself
        found = msgspec.structs.replace(found, fields={**agent.of_posting, **found.fields})
        outcome = await self._entries.settle(agent, found, _jittered(DAY_MS))
        await self._lists.project([agent.id])  # the event does so, too, but after a waiting client looks
        return outcome

    async def _probe(self, agent: StoredAgent) -> str:
        if agent.proof == "inbox" and not agent.has_inbox:
            with suppress(Refused):  # the inbox was opened again by its key, or the entry was removed
                await self._entries.remove(agent.id, agent.address, INBOX_CLOSED, "")
            return "gone"
        began = time.monotonic()
        probe = await self._prober.probe(agent) if agent.is_remote else Probe(agent.liveness)
        if probe.found == "unreachable" and self._stalls.was_held_up(began):
            probe = Probe(None)
        await self._entries.probed(agent, probe, _jittered(DAY_MS if agent.is_remote else INBOX_PAUSE_MS))
        return probe.found or "later"

    async def _note_check(self, *, only_first: bool = False) -> None:
        """Record that a check has just ended. The operator is alerted if none ends for an hour (`overdue`)."""
        now = await self._lists.now()
        await self._store.command("SET", keys.LAST_CHECK, now, *(["NX"] if only_first else []))


def _jittered(pause: int) -> int:
    return round(pause * random.uniform(1 - JITTER, 1 + JITTER))
