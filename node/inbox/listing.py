"""How an inbox opened with a card is listed in the directory, which is another feature (NETWORK 2)."""

from typing import Protocol

from node.inbox.model import InboxCard, InboxProof


class CardListing(Protocol):
    """Lists an inbox as an agent by the card that its owner gives."""

    async def judge(self, address: str, card: InboxCard) -> None:
        """Raise Invalid, Refused `language.not_english`, `agents.host_full` if that address cannot list the card.

        `address` is empty for one that is yet to be made. Raises StoreUnavailable.
        """
        ...

    async def enter(self, client: str, card: InboxCard, proof: InboxProof) -> str | None:
        """List the card that was judged, or renew its entry, for the owner of the inbox: the id of the entry, None if
        it found no place. Raises StoreUnavailable.
        """
        ...

    async def leave(self, address: str, name: str, proof: InboxProof) -> None:
        """Remove the entry with the name of a card that the inbox no longer has. Raises StoreUnavailable."""
        ...
