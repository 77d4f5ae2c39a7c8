"""The rules of the directory: who may list what, and how it is found (NETWORK 2)."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import cast

import msgspec

from node.agents.card import card_targets, has_one_spelling, readable_card
from node.agents.entry import AgentRow, Listing, StoredAgent, id_of, posting_fields, stored_agent
from node.agents.hits import AgentHits, AgentSearchQuery
from node.agents.lists import AgentLists
from node.agents.model import Agent, AgentPage, AgentPageQuery, ListedCard, RemovedAgent, SubmittedAgent
from node.agents.store import AgentStore
from node.callbacks.owners import publisher_of
from node.callbacks.target import Target
from node.callbacks.target_check import TargetCheck
from node.common.prepared_rows import PreparedRows
from node.common.refusal import Invalid, Refused
from node.common.shared_reads import SharedReads
from node.common.timestamps import optional_timestamp, timestamp
from node.common.unreadable import show_each
from node.inbox.model import InboxProof
from node.inbox.service import Inboxes
from node.search.model import SUGGESTED_THRESHOLD, SearchQuery
from node.search.service import Charge, Search, lower_threshold
from node.store import ids
from node.store.errors import StoreUnavailable
from node.store.idempotency import IdempotencyKey

__all__ = ["AgentSearchQuery", "Agents"]

BY_OPERATOR = "*"
"""Used in place of the proof of an owner."""

MAX_HITS = 50
"""Hits that a search for live agents examines first: the maximum that a search may return."""


class Agents:
    """The service behind /api/v1/agents."""

    def __init__(
        self, store: AgentStore, lists: AgentLists, inboxes: Inboxes, search: Search, targets: TargetCheck
    ) -> None:
        self._store = store
        self._lists = lists
        self._inboxes = inboxes
        self._search = search
        self._targets = targets
        self._rows = PreparedRows(self._agent_in)
        self._pages = SharedReads(self._page_json)

    def named(self, proof: InboxProof) -> str:
        """Return the address that a request proves. Raises Refused `inbox.proof`, `inbox.token`."""
        return self._inboxes.proven(proof).address

    async def register(
        self, client: str, card: ListedCard, proof: InboxProof, idempotency: IdempotencyKey | None
    ) -> tuple[SubmittedAgent, bool]:
        """List an agent by its card, or renew its entry. The second value says whether this is a replay.

        Raises Invalid, Refused `inbox.proof`, `inbox.token`, `inbox.unknown`, `agents.host_full`,
        `language.not_english`, `idempotency.conflict`, `signature.replayed`, StoreUnavailable.
        """
        owner = self._inboxes.proven(proof)
        kept = readable_card(card)
        listing = Listing(
            id=id_of(owner.address, kept.name),
            address=owner.address,
            proof="inbox" if proof.token is not None else "key",
            proven_by=owner.proven_by,
            replay_id=owner.replay_id,
            client=client,
            card=kept,
        )
        ends_at, replayed = await self._store.put(listing, idempotency)
        await self._project_now(listing.id)
        return SubmittedAgent(listing.id, "listed", None, timestamp(ends_at)), replayed

    async def require_room(self, address: str, name: str) -> None:
        """Raise Refused `agents.host_full` if the address has no room for an agent of this name.

        Raises StoreUnavailable.
        """
        if not await self._store.has_room(address, id_of(address, name)):
            raise Refused("agents.host_full")

    def target(self, url: str) -> Target:
        """Check and parse the posted URL of an agent, which must be in its normal form. Raises Invalid."""
        if "?" in url:
            raise Invalid.field("body", "url", msg="must not have a query string")
        target = self._targets.check(url, "url")
        if not has_one_spelling(target.resource):
            raise Invalid.field(
                "body", "url", msg="must not contain //, /./, /../, unnecessary %-escapes, or %-escapes in lower case"
            )
        return target

    async def submit(
        self, client: str, target: Target, idempotency: IdempotencyKey | None
    ) -> tuple[SubmittedAgent, bool]:
        """Have a worker fetch the card at a URL and list the agent, or renew its entry.

        The second value says whether this is a replay. Raises Refused `agents.host_full`, `idempotency.conflict`,
        StoreUnavailable.
        """
        # An agent gets the same id whether it is posted by its own URL or by the URL of its card.
        agent_id = id_of(target.host, card_targets(target)[-1].url)
        fields = posting_fields(target.url, target.host, publisher_of(client))
        replayed = await self._store.submit(
            target.host, fields, agent_id=agent_id, client=client, idempotency=idempotency
        )
        return SubmittedAgent(agent_id, "checking", None, None), replayed

    async def get(self, agent_id: str, wait: float = 0) -> Agent:
        """Return an entry, waiting for its check if asked to. Raises Refused `agent.unknown`, StoreUnavailable."""
        ids.require_id(agent_id, "agent.unknown")
        found = await self._store.wait(agent_id, wait)
        if found is None:
            raise Refused("agent.unknown")
        return self._agent(found)

    async def shown(self, agent_ids: Sequence[str]) -> dict[str, Agent | None]:
        """Return entries by id, without those that cannot be decoded; None for an agent that is not shown.

        Raises StoreUnavailable.
        """
        rows, lacking = await self._store.readable(agent_ids)
        if lacking:
            raise StoreUnavailable("a part of the directory is out of reach")
        return show_each(rows.items(), lambda name, row: self._agent_in(name, row) if row and row.is_shown else None)

    async def page(self, query: AgentPageQuery) -> AgentPage:
        """Return a page of entries, newest first. Raises StoreUnavailable."""
        return await self._page(query, self._agent_in)

    async def page_json(self, query: AgentPageQuery) -> bytes:
        """Return `page` as JSON. Raises StoreUnavailable.

        Concurrent requests for the same page share a read, and rows that have not changed are not encoded again.
        """
        return await self._pages.get(query)

    async def find(self, query: AgentSearchQuery, client: str, charge: Charge) -> AgentHits:
        """Find agents by what they can do, best first. Raises Invalid, Refused `limit.waiting`, StoreUnavailable."""
        found = await self._find(query, client, charge)
        if not query.live or found.hits or query.threshold <= SUGGESTED_THRESHOLD:
            return found
        # The search does not know the liveness, so the hits below the threshold are examined for live agents.
        below = await self._find(msgspec.structs.replace(query, threshold=SUGGESTED_THRESHOLD), client, charge)
        found.lower_threshold = lower_threshold([each.score for each in below.hits], query.limit)
        found.incomplete = found.incomplete or below.incomplete
        return found

    async def _find(self, query: AgentSearchQuery, client: str, charge: Charge) -> AgentHits:
        found, looked_at = await self._hits(query, client, charge)
        if query.live and len(found.hits) < query.limit and looked_at == MAX_HITS:
            # Better matches that are not live may hide those that are.
            live, _ = await self._hits(query, client, charge, await self._lists.newest_live(MAX_HITS))
            known = {hit.agent_id for hit in found.hits}
            found.hits += [hit for hit in live.hits if hit.agent_id not in known][: query.limit - len(known)]
            found.incomplete = found.incomplete or live.incomplete
        return found

    async def _hits(
        self, query: AgentSearchQuery, client: str, charge: Charge, among: Sequence[str] | None = None
    ) -> tuple[AgentHits, int]:
        """Return hits, and the number of matches examined for them."""
        wanted = SearchQuery(query.query, MAX_HITS if query.live else query.limit, query.threshold)
        found, (rows, _) = await self._search.search_with(wanted, client, charge, self._store.readable, among)
        agent_ids = [each.entity_id for each in found.entities]
        read = {each: rows[each] for each in agent_ids if each in rows}
        agents = show_each(_shown(read), self._agent_in)
        hits = AgentHits.of(found, [agents.get(each) for each in agent_ids], query, lacks=len(read) < len(agent_ids))
        return hits, len(agent_ids)

    async def remove(self, agent_id: str, proof: InboxProof) -> RemovedAgent:
        """Remove an entry for its owner.

        Raises Refused `agent.unknown`, `inbox.proof`, `inbox.token`, `signature.replayed`, StoreUnavailable.
        """
        agent = await self.get(agent_id)
        owner = self._inboxes.proven(proof)
        if owner.address != agent.address:
            raise Refused("inbox.token")
        await self._remove(agent_id, owner.address, owner.proven_by, owner.replay_id)
        return RemovedAgent(agent_id)

    async def end(self, agent_id: str) -> Agent:
        """Remove an entry for the operator, and return it. Raises Refused `agent.unknown`, StoreUnavailable."""
        agent = await self.get(agent_id)
        await self._remove(agent_id, agent.address, BY_OPERATOR, "")
        return agent

    async def project(self, *agent_ids: str) -> None:
        """Put entries into the lists where they belong, and remove them from all others. Raises StoreUnavailable."""
        await self._lists.project(agent_ids)

    async def sweep(self) -> int:
        """Remove entries whose time is over, and return how many were examined. Raises StoreUnavailable."""
        looked_at = await self._lists.sweep()
        await self._lists.project(looked_at)
        return len(looked_at)

    async def _page_json(self, query: AgentPageQuery) -> bytes:
        return msgspec.json.encode(await self._page(query, self._rows.of))

    async def _page(self, query: AgentPageQuery, show: Callable[[str, AgentRow], Agent | msgspec.Raw]) -> AgentPage:
        agent_ids, total = await self._lists.newest(query.limit, query.offset, query.liveness)
        found, lacking = await self._store.readable(agent_ids)
        shown = _shown(found)
        if not lacking and (gone := found.keys() - dict(shown).keys()):
            with suppress(StoreUnavailable):  # the list is out of date, and is corrected by the request that notices
                await self._lists.correct(list(gone))
        wanted = ((agent_id, row) for agent_id, row in shown if query.liveness in (None, row.liveness))
        agents = cast("list[Agent]", list(show_each(wanted, show).values()))
        total -= len(agent_ids) - len(agents) - len(lacking)
        return AgentPage(agents, total, query.limit, query.offset, bool(lacking) or msgspec.UNSET)

    def _agent_in(self, agent_id: str, row: AgentRow) -> Agent:
        return self._agent(stored_agent(agent_id, row))

    async def _remove(self, agent_id: str, address: str, proven_by: str, replay_id: str) -> None:
        await self._store.remove(agent_id, address, proven_by, replay_id)
        await self._project_now(agent_id)

    async def _project_now(self, agent_id: str) -> None:
        """Update the lists for an entry at once."""
        with suppress(StoreUnavailable):  # the worker does so, too
            await self._lists.project([agent_id])

    def _agent(self, stored: StoredAgent) -> Agent:
        card = stored.card
        inbox = stored.address if stored.has_inbox else None
        url, card_url, binding = stored.url, stored.card_url, stored.binding
        if inbox:
            url = self._inboxes.a2a_url(inbox)
            card_url, binding = f"{url}/.well-known/agent-card.json", "HTTP+JSON"
        reason = stored.reason
        if stored.status == "listed" and not stored.is_shown:
            reason = (
                "not shown in lists and searches, because it was unreachable for 7 days; post it again when it is back"
            )
        return Agent(
            id=stored.id,
            status=stored.status,
            reason=reason or None,
            name=card.name if card else None,
            description=card.description if card else None,
            skills=card.skills if card else [],
            url=url or None,
            card_url=card_url or None,
            binding=binding or None,
            proof=stored.proof,
            address=stored.address,
            inbox=inbox,
            liveness=stored.liveness,
            checked_at=optional_timestamp(stored.checked_at),
            listed_at=timestamp(stored.listed_at) if card else None,
            expires_at=timestamp(stored.ends_at) if card else None,
        )


def _shown(rows: Mapping[str, AgentRow | None]) -> list[tuple[str, AgentRow]]:
    """Return the entries that lists and searches show."""
    return [(agent_id, row) for agent_id, row in rows.items() if row and row.is_shown]
