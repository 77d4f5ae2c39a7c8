"""Reads agents for the search (`CorpusSource`): the agent's own text is one post, and so is each skill."""

from collections.abc import Sequence
from typing import cast

import msgspec

from node.agents.model import AgentSkill, ListedCard
from node.store import RedisReply, Store, StoreUnavailable, keys
from node.store.lists import UNREACHABLE, ListedEntities


class AgentReader(ListedEntities):
    """Reads cards by post number: 0 is the agent's own text, and its skills are numbered from 1."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, keys.AGENTS)

    async def statuses(self, agent_ids: Sequence[str]) -> list[str]:
        """Return `open` for each agent that is shown, and an empty status for any other. Raises StoreUnavailable."""
        found = await self._store.run_all([("HEXISTS", keys.agent(each), "shown") for each in agent_ids])
        return ["open" if each else "" for each in found]

    async def posts(self, refs: Sequence[tuple[str, int]]) -> list[tuple[str, str, str]]:
        """Return status, name and text of each post; empty for one that does not exist.

        The status is `unreachable` if the server of the entry cannot be reached but others can. Raises
        StoreUnavailable.
        """
        agent_ids = list({agent_id for agent_id, _ in refs})
        found = await self._store.run_reachable(map(_reading, agent_ids))
        cards = {
            agent_id: reply if isinstance(reply, StoreUnavailable) else _card(reply)
            for agent_id, reply in zip(agent_ids, found, strict=True)
        }
        return [_post(cards[agent_id], seq) for agent_id, seq in refs]

    async def newest_replies(self, agent_id: str, most: int) -> list[tuple[int, str]]:
        """Return numbers and texts of the last `most` skills. Raises StoreUnavailable."""
        card = _card(await self._store.command(*_reading(agent_id)))
        return [(number, text_of(skill)) for number, skill in enumerate(card.skills if card else [], 1)][-most:]


def text_of(skill: AgentSkill) -> str:
    """Return the text by which a skill is found."""
    return "\n".join([skill.name, skill.description, *([", ".join(skill.tags)] if skill.tags else []), *skill.examples])


def _reading(agent_id: str) -> tuple[str, str, str, str]:
    return "HMGET", keys.agent(agent_id), "card", "shown"


def _card(reply: RedisReply) -> ListedCard | None:
    """Return the card of an entry; None if the entry is not listed or is hidden."""
    card, is_shown = cast("list[bytes | None]", reply)
    return msgspec.json.decode(card, type=ListedCard) if card and is_shown else None


def _post(card: ListedCard | StoreUnavailable | None, seq: int) -> tuple[str, str, str]:
    if isinstance(card, StoreUnavailable):
        return UNREACHABLE, "", ""
    if card is None:
        return "", "", ""
    if not seq:
        return "open", card.name, card.description
    return "open", "", text_of(card.skills[seq - 1]) if seq <= len(card.skills) else ""
