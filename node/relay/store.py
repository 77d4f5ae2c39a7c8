"""Relay messages in Redis: one script to accept one, one read for the buffer."""

from asyncio import gather
from collections.abc import Sequence
from typing import Literal, cast

import msgspec

from node.config import Limit
from node.store import Store, keys
from node.store.decoding import fields_of
from node.store.limits import Taken, window
from node.store.scripts import script

ACCEPT = script("relay_accept")


class Acceptance(msgspec.Struct, frozen=True):
    """How an accept ended, and how the client now stands in its limit."""

    kind: Literal["kept", "limited", "loop", "conflict", "replayed"]
    taken: Taken
    id: str


class RelayStore:
    """Accepts and reads relay messages."""

    def __init__(self, store: Store, idempotency_ttl: int) -> None:
        self._store = store
        self._idempotency_ms = str(idempotency_ttl * 1000)

    async def accept(
        self,
        client: str,
        limit: Limit,
        payload: str,
        idempotency: tuple[str, str] | None,
        ttl_ms: int,
        fields: Sequence[str | bytes],
    ) -> Acceptance:
        """Keep one message in the client's partition; `ttl_ms` 0 makes it a board thread.

        `payload` is a digest of what was sent, `idempotency` the scope of a key and the digest of
        the body under it. Raises StoreUnavailable.
        """
        partition = keys.home_of(client)
        message_id = keys.unlisted_id(partition) if ttl_ms else keys.new_id(partition)
        entity = keys.relay(message_id) if ttl_ms else keys.thread(message_id)
        scope, digest = idempotency or ("", "")
        reply = cast(
            "list[bytes | int]",
            await self._store.run(
                ACCEPT,
                [
                    keys.rate(partition, "relay", client),
                    keys.loop(partition, payload),
                    keys.idempotency(partition, scope) if scope else entity,
                    entity,
                    keys.events(partition),
                ],
                [
                    *window(limit),
                    digest,
                    self._idempotency_ms,
                    message_id,
                    str(ttl_ms),
                    keys.site_name(client),
                    *fields,
                ],
            ),
        )
        kind = cast("bytes", reply[0]).decode()
        found = cast("bytes", reply[4]).decode() if kind == "replayed" else message_id
        return Acceptance(cast("Literal['kept']", kind), Taken.of(*reply[1:4]), found)

    async def read(self, message_id: str) -> dict[bytes, bytes] | None:
        """The fields of a message, buffered or public, or None. Raises StoreUnavailable."""
        buffered, public = await gather(
            self._store.command("HGETALL", keys.relay(message_id)),
            self._store.command("HGETALL", keys.thread(message_id)),
        )
        return fields_of(buffered) or fields_of(public) or None
