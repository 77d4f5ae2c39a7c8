"""An entry of the directory as Redis has it, and the ids of entries."""

import time
from collections.abc import Mapping
from typing import cast

import msgspec

from node.agents.model import AgentProof, EntryStatus, ListedCard, Liveness
from node.callbacks.owners import publisher_of
from node.store import ids
from node.store.decoding import number
from node.store.limits import DAY_MS

PRESENT_MS = 7 * DAY_MS
"""An agent is `unreachable` if its inbox was not read for longer than this."""


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """An agent to be listed with the card that its owner posted."""

    id: str
    address: str
    proof: AgentProof
    proven_by: str
    """Proof that the script compares with the inbox of the address (`lua/agent_list.lua`)."""
    replay_id: str
    """Identifies the signature of the request, the same each time it is used; empty if the request is not signed."""
    client: str
    card: ListedCard

    @property
    def fields(self) -> dict[str, str]:
        """The fields of the entry in Redis."""
        return {
            "card": msgspec.json.encode(self.card).decode(),
            "proof": self.proof,
            "address": self.address,
            "by": publisher_of(self.client),
        }


class AgentRow(msgspec.Struct, frozen=True):
    """An entry as read from Redis, and what its inbox tells about it. Equal rows are shown alike."""

    fields: Mapping[bytes, bytes]
    has_inbox: bool
    """Whether the agent has an open inbox."""
    liveness: Liveness
    """The liveness when the entry was read."""

    @classmethod
    def of(cls, fields: Mapping[bytes, bytes], seen: bytes | None) -> "AgentRow":
        """Build a row. `seen` is when the owner of the agent's inbox was last seen (ms); None without an open inbox."""
        proof = fields.get(b"proof", b"").decode()
        if proof == "domain":
            return cls(fields, False, cast("Liveness", fields.get(b"liveness", b"unknown").decode()))
        return cls(fields, seen is not None, _through_inbox(proof, seen))

    @property
    def is_shown(self) -> bool:
        """Whether lists and searches show the entry: it is listed, and not unreachable for long."""
        return b"shown" in self.fields


class StoredAgent(msgspec.Struct, frozen=True):
    """An entry. Times are milliseconds since 1970."""

    id: str
    status: EntryStatus
    reason: str
    """Why the agent is not listed, or why its last check changed nothing; empty if neither is so."""
    proof: AgentProof
    address: str
    """The address of a key or inbox, or the host, that proves the entry."""
    publisher: str
    """Who listed the agent (`node.callbacks.owners`)."""
    posted_url: str
    """Empty if the agent was posted as a card."""
    posted_at: int
    card: ListedCard | None
    """None if the agent is not listed."""
    card_url: str
    """Where the card was fetched; empty if the card was posted."""
    url: str
    """Where the agent is called by `binding`, according to its card."""
    binding: str
    version: str
    """Version of the protocol at `url`; empty if the card does not say."""
    listed_at: int
    ends_at: int
    liveness: Liveness
    checked_at: int | None
    is_shown: bool
    """Whether lists and searches show the entry: it is listed, and not unreachable for long."""
    has_inbox: bool
    """Whether the agent has an open inbox."""

    @property
    def is_remote(self) -> bool:
        """Whether the agent is called at its host, not through an inbox."""
        return self.proof == "domain"

    @property
    def of_posting(self) -> dict[str, str]:
        """The fields that say which URL was posted, and by whom."""
        return posting_fields(self.posted_url, self.address, self.publisher)

    @property
    def of_card(self) -> dict[str, str]:
        """The fields that were taken from the card."""
        return card_fields(self.card, self.card_url, self.url, self.binding, self.version) if self.card else {}


def posting_fields(url: str, host: str, publisher: str) -> dict[str, str]:
    """Return the fields of an entry that are known from the posting of a URL, before the card is."""
    return {"given": url, "proof": "domain", "address": host, "by": publisher}


def card_fields(card: ListedCard, card_url: str, url: str, binding: str, version: str) -> dict[str, str]:
    """Return the fields of an entry that are taken from a fetched card."""
    return {
        "card": msgspec.json.encode(card).decode(),
        "card_url": card_url,
        "url": url,
        "binding": binding,
        "version": version,
    }


def id_of(address: str, name: str) -> str:
    """Return the id of the entry that an address or host has under a name: a UUID in the partition of the address."""
    text = ids.digest("agent", address, name)
    last = int(text[-2:], 16) & ~(ids.PARTITIONS - 1) | ids.partition_of(address)
    return f"{text[:8]}-{text[8:12]}-8{text[13:16]}-a{text[17:20]}-{text[20:30]}{last:02x}"


def stored_agent(agent_id: str, row: AgentRow) -> StoredAgent:
    """Convert a row to an entry."""
    fields = row.fields

    def text(name: bytes) -> str:
        return fields.get(name, b"").decode()

    card = fields.get(b"card")
    return StoredAgent(
        id=agent_id,
        status=cast("EntryStatus", text(b"status")),
        reason=text(b"reason"),
        proof=cast("AgentProof", text(b"proof")),
        address=text(b"address"),
        publisher=text(b"by"),
        posted_url=text(b"given"),
        posted_at=int(fields.get(b"posted", 0)),
        card=msgspec.json.decode(card, type=ListedCard) if card else None,
        card_url=text(b"card_url"),
        url=text(b"url"),
        binding=text(b"binding"),
        version=text(b"version"),
        listed_at=int(fields.get(b"listed_at", 0)),
        ends_at=int(fields.get(b"ends_at", 0)),
        liveness=row.liveness,
        checked_at=number(fields.get(b"checked_at")),
        is_shown=row.is_shown,
        has_inbox=row.has_inbox,
    )


def _through_inbox(proof: str, seen: bytes | None) -> Liveness:
    """Return the liveness of an agent that is reached through its inbox."""
    if seen is None:  # a key can open its inbox at any time; an inbox known by its token alone never opens again
        return "unknown" if proof == "key" else "unreachable"
    return "open" if time.time() * 1000 - int(seen) < PRESENT_MS else "unreachable"
