"""Sessions in Redis: a hash and a stream that expire together, in the partition of the session's id."""

from collections.abc import Sequence
from typing import Literal, cast

import msgspec

from node.config import Limit
from node.sessions.model import Owner
from node.store import Store, WakeUps, ids, keys
from node.store.decoding import code_of, fields_of, text
from node.store.idempotency import IdempotencyKey
from node.store.limits import Taken, window
from node.store.scripts import script

CREATE = script("session_create")
SEND = script("session_send")
POLL = script("session_poll")
DESTROY = script("session_destroy")

StreamEntry = tuple[bytes, list[bytes]]


class Opened(msgspec.Struct, frozen=True):
    """How a create ended."""

    kind: Literal["created", "replayed", "conflict"]
    id: str
    expires_at: int = 0
    now: int = 0
    """When it was answered again (ms), by Redis' clock."""


class WrittenLine(msgspec.Struct, frozen=True):
    """How a send ended; `taken` is None when the session is gone."""

    kind: Literal["sent", "replayed", "gone", "limited", "full", "conflict"]
    taken: Taken | None
    seq: int = 0
    received_at: int = 0


class LinePage(msgspec.Struct, frozen=True):
    """Lines of a live session, and the highest sequence number it holds: their number, for there is no gap."""

    expires_at: int
    left: int
    """Milliseconds that the session had to live when it was read."""
    epoch: str
    label: str | None
    last: int
    lines: list[tuple[int, dict[bytes, bytes]]]


class SessionStore:
    """Opens, appends, reads and destroys."""

    def __init__(self, store: Store, idempotency_ttl: int, max_lines: int, max_bytes: int) -> None:
        self._store = store
        self._idempotency_ms = idempotency_ttl * 1000
        self._caps = (max_lines, max_bytes)

    @property
    def wakeups(self) -> WakeUps:
        """Where waiting pollers are woken."""
        return self._store.wakeups

    async def create(self, idempotency: IdempotencyKey | None, ttl_ms: int, fields: Sequence[str]) -> Opened:
        """Open a session. Raises StoreUnavailable."""
        session_id = ids.unlisted_id(idempotency.partition if idempotency else None)
        session = keys.session(session_id)
        reply = await self._store.run(
            CREATE,
            [session, keys.idempotency(idempotency.partition, idempotency.scope) if idempotency else session],
            [idempotency.digest if idempotency else "", self._idempotency_ms, session_id, ttl_ms, *fields],
        )
        match code_of(reply), reply:
            case "created", [_, int(expires)]:
                return Opened("created", session_id, expires)
            case "replayed", [_, bytes(original), int(expires), int(now)]:
                return Opened("replayed", original.decode(), expires, now)
            case kind, _:
                return Opened(cast("Literal['conflict']", kind), session_id)

    async def send(
        self,
        session_id: str,
        client: str,
        limit: Limit,
        idempotency: IdempotencyKey | None,
        size: int,
        fields: Sequence[str],
    ) -> WrittenLine:
        """Append a line of `size` bytes. Raises StoreUnavailable."""
        partition = ids.partition_of_id(session_id)
        session = keys.session(session_id)
        reply = cast(
            "list[bytes | int]",
            await self._store.run(
                SEND,
                [
                    session,
                    keys.lines(session_id),
                    keys.rate(partition, f"line:{session_id}", client),
                    keys.idempotency(partition, idempotency.scope) if idempotency else session,
                    keys.events(partition),
                ],
                [
                    *window(limit),
                    idempotency.digest if idempotency else "",
                    self._idempotency_ms,
                    *self._caps,
                    size,
                    session_id,
                    *fields,
                ],
            ),
        )
        kind = cast("Literal['sent']", code_of(reply))
        if len(reply) == 1:
            return WrittenLine(kind, None)
        seq, received_at = cast("list[int]", reply[4:]) or (0, 0)
        return WrittenLine(kind, Taken.of(*reply[1:4]), seq, received_at)

    async def poll(self, session_id: str, since: int, limit: int) -> LinePage | None:
        """Lines after `since`, or None if the session is gone. Raises StoreUnavailable."""
        reply = await self._store.run(POLL, [keys.session(session_id), keys.lines(session_id)], [since, limit])
        if code_of(reply) == "gone":
            return None
        _, expires_at, left, epoch, label, last, entries = cast(
            "tuple[bytes, int, int, bytes, bytes, int, list[StreamEntry]]", tuple(cast("list[object]", reply))
        )
        lines = [(int(entry[2:]), fields_of(fields)) for entry, fields in entries]
        return LinePage(expires_at, left, epoch.decode(), text(label), last, lines)

    async def destroy(self, session_id: str) -> Owner | None:
        """Whom the session counted for; None if it was gone already. Raises StoreUnavailable."""
        reply = await self._store.run(DESTROY, [keys.session(session_id), keys.lines(session_id)])
        if code_of(reply) == "gone":
            return None
        _, client, held = cast("list[bytes]", reply)
        return Owner(client.decode(), held.decode())

    async def exists(self, session_id: str) -> bool:
        """Whether the session lives. Raises StoreUnavailable."""
        return await self._store.command("EXISTS", keys.session(session_id)) == 1
