"""Relayed messages in Redis: public ones are threads, private ones are kept in a buffer and expire."""

from collections.abc import Sequence

import msgspec

from node.common.refusal import Refused
from node.config import Limit
from node.store import Store, ids, keys
from node.store.decoding import fields_of, number
from node.store.idempotency import IdempotencyKey, Once
from node.store.limits import RateLimit, counted
from node.store.steps import Key, Rest, step


@step
def relay_accept(
    *,
    rate: Key,
    copies: Key,
    once: Once,
    entity: Key,
    events: Key,
    limit: Limit,
    message_id: str,
    ttl: int,
    client: str,
    fields: Rest,
) -> None:
    """Count a client's message and keep it once."""


class StoredMessage(msgspec.Struct, frozen=True):
    """A relayed message as kept in Redis; times in milliseconds."""

    raw: bytes
    """The payload as the client sent it."""
    is_json: bool
    is_hidden: bool
    """Whether the operator has hidden it from readers."""
    received_at: int
    ttl_ms: int | None
    """Time for which it is kept; None for a public message, which is a board thread."""


class RelayStore:
    """Accepts and reads relay messages."""

    def __init__(self, store: Store, idempotency_ttl: int) -> None:
        self._store = store
        self._idempotency_ms = idempotency_ttl * 1000

    async def accept(
        self,
        rate: RateLimit,
        payload_digest: str,
        idempotency: IdempotencyKey | None,
        ttl_ms: int,
        fields: Sequence[str | bytes],
    ) -> tuple[str | None, bool]:
        """Keep one message in the client's partition. Returns its id (None for a loop), and whether it is a replay.

        The third message of a client with the same `payload_digest` within a minute is a loop. A message with `ttl_ms`
        0 becomes a board thread. Raises Refused `limit.exceeded`, `idempotency.conflict`, StoreUnavailable.
        """
        client = rate.client
        partition = ids.home_of(client)
        message_id = ids.unlisted_id(partition) if ttl_ms else ids.new_id(partition)
        entity = keys.relay(message_id) if ttl_ms else keys.thread(message_id)
        reply = await self._store.run(
            relay_accept(
                rate=keys.rate(partition, "relay", client),
                copies=keys.copies(partition, payload_digest),
                once=Once.of(idempotency, partition, entity, self._idempotency_ms),
                entity=entity,
                events=keys.events(partition),
                limit=rate.limit,
                message_id=message_id,
                ttl=ttl_ms,
                client=client,
                fields=fields,
            )
        )
        kind, original = counted(rate, reply)
        match kind:
            case b"kept":
                return message_id, False
            case b"loop":
                return None, False
            case b"replayed":
                return original[0].decode(), True
            case _:
                raise Refused("idempotency.conflict")

    async def read(self, message_id: str) -> StoredMessage | None:
        """Return a message, private or public; None if the id is unknown. Raises StoreUnavailable."""
        private, public = map(
            fields_of,
            await self._store.run_all([("HGETALL", keys.relay(message_id)), ("HGETALL", keys.thread(message_id))]),
        )
        fields = private or public
        if not private and public.get(b"source") != b"relay":  # another thread of the board, or nothing
            return None
        return StoredMessage(
            raw=fields.get(b"payload") or fields[b"body"],
            is_json=b"json" in fields,
            is_hidden=fields.get(b"status") == b"hidden",
            received_at=int(fields[b"created_at"]),
            ttl_ms=number(fields.get(b"ttl")),
        )
