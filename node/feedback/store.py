"""Feedback in Redis: one stream a partition, read by the operators."""

from collections.abc import Sequence
from typing import Literal, cast

import msgspec

from node.config import Limit
from node.store import Store, ids, keys
from node.store.decoding import code_of, fields_of
from node.store.idempotency import IdempotencyKey
from node.store.limits import Taken, window
from node.store.scripts import script

ADD = script("feedback_add")

Fields = dict[bytes, bytes]

KEPT = 2000
"""Reports kept in each partition, about; the oldest go first."""


class Received(msgspec.Struct, frozen=True):
    """How a report ended."""

    kind: Literal["received", "replayed", "limited", "conflict"]
    taken: Taken
    id: str


class FeedbackStore:
    """Adds and lists reports."""

    def __init__(self, store: Store, idempotency_ttl: int) -> None:
        self._store = store
        self._idempotency_ms = idempotency_ttl * 1000

    async def add(
        self, client: str, limit: Limit, idempotency: IdempotencyKey | None, fields: Sequence[str]
    ) -> Received:
        """Keep a report in the client's partition. Raises StoreUnavailable."""
        partition = ids.home_of(client)
        stream = keys.feedback(partition)
        feedback_id = ids.new_id(partition)
        reply = cast(
            "list[bytes | int]",
            await self._store.run(
                ADD,
                [
                    keys.rate(partition, "feedback", client),
                    keys.idempotency(partition, idempotency.scope) if idempotency else stream,
                    stream,
                ],
                [
                    *window(limit),
                    idempotency.digest if idempotency else "",
                    self._idempotency_ms,
                    feedback_id,
                    KEPT,
                    *fields,
                ],
            ),
        )
        kind = code_of(reply)
        original = cast("bytes", reply[4]).decode() if kind == "replayed" else feedback_id
        return Received(cast("Literal['received']", kind), Taken.of(*reply[1:4]), original)

    async def newest(self, partition: int, before: str | None, count: int) -> list[tuple[str, Fields]]:
        """Reports of a partition that came before that entry, newest first. Raises StoreUnavailable."""
        end = f"({before}" if before else "+"
        reply = await self._store.command("XREVRANGE", keys.feedback(partition), end, "-", "COUNT", count)
        return [(entry.decode(), fields_of(flat)) for entry, flat in cast("list[tuple[bytes, object]]", reply)]
