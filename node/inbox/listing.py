"""Interface for listing an inbox with a card in the directory, which is another feature (NETWORK 2)."""

from typing import Protocol

from node.inbox.model import InboxCard, InboxProof


class CardListing(Protocol):
    """Lists inboxes as agents, with the cards that their owners give."""

    async def judge(self, address: str, card: InboxCard) -> None:
        """Raise Invalid, Refused `language.not_english`, `agents.host_full` if this address cannot list the card.

        `address` is empty for an inbox that does not exist yet. Raises StoreUnavailable.
        """
        ...

    async def enter(self, client: str, card: InboxCard, proof: InboxProof) -> str | None:
        """List a card that was judged, or renew its entry, for the owner of the inbox.

        Returns the id of the entry, or None if there was no room for it. Raises StoreUnavailable.
        """
        ...

    async def leave(self, address: str, name: str, proof: InboxProof) -> None:
        """Remove the entry of an earlier card of the inbox, which had this name. Raises StoreUnavailable."""
        ...
