"""Lists inboxes that were opened with a card as agents (`node.inbox.listing`)."""

from contextlib import suppress

import msgspec

from node.agents.card import readable_card
from node.agents.entry import id_of
from node.agents.model import ListedCard
from node.agents.service import Agents
from node.common.refusal import Invalid, Refused
from node.inbox.model import InboxCard, InboxProof


class InboxCards:
    """Lists the card of an inbox in the directory."""

    def __init__(self, agents: Agents) -> None:
        self._agents = agents

    async def judge(self, address: str, card: InboxCard) -> None:
        listed = readable_card(_listed(card))
        if address:
            await self._agents.require_room(address, listed.name)

    async def enter(self, client: str, card: InboxCard, proof: InboxProof) -> str | None:
        # The inbox is already open. If two cards compete for its last place, one of them is not listed.
        with suppress(Refused):
            entry, _ = await self._agents.register(client, _listed(card), proof, None)
            return entry.id
        return None

    async def leave(self, address: str, name: str, proof: InboxProof) -> None:
        with suppress(Refused):  # the entry has ended, or was removed
            await self._agents.remove(id_of(address, name), proof)


def _listed(card: InboxCard) -> ListedCard:
    """Convert a card to the form of the directory. Raises Invalid."""
    try:
        return msgspec.convert(msgspec.to_builtins(card), ListedCard)
    except msgspec.ValidationError as error:
        raise Invalid.field("body", "card", msg=f"cannot be listed in the directory: {error}") from None
