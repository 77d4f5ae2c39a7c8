"""Sessions in Redis: a hash and a stream that expire together, in the partition of the session's id."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from node.common.refusal import Refused
from node.common.timestamps import timestamp
from node.config import Limit
from node.sessions.model import Line
from node.share.origin import Attributed, ClientOrigin
from node.store import Store, ids, keys
from node.store.decoding import entries_of, flat_of, text
from node.store.idempotency import IdempotencyKey, Once
from node.store.limits import Quota, RateLimit, counted
from node.store.long_poll import wait_for_next
from node.store.steps import Key, Rest, step

REFUSALS = {b"gone": "session.gone", b"full": "session.full", b"conflict": "idempotency.conflict"}
"""Codes of refusals, by the word in the script's reply."""


@step
def session_create(*, session: Key, once: Once, session_id: str, ttl: int, fields: Rest) -> None:
    """Open a session."""


@step
def session_send(
    *,
    session: Key,
    lines: Key,
    rate: Key,
    once: Once,
    events: Key,
    limit: Limit,
    max_lines: int,
    max_bytes: int,
    size: int,
    session_id: str,
    fields: Rest,
) -> None:
    """Count a client's line and append it once."""


@step
def session_poll(*, session: Key, lines: Key, since: int, limit: int) -> None:
    """Read a session and some of its lines."""


@step
def session_destroy(*, session: Key, lines: Key) -> None:
    """End a session."""


class OpenedSession(msgspec.Struct, frozen=True):
    """A session as `create` returns it; times in milliseconds by the clock of Redis."""

    id: str
    expires_at: int
    replayed_at: int | None = None
    """When the session was replayed; None for a new session."""


class LinePage(msgspec.Struct, frozen=True):
    """Lines of a live session, and the state of the session."""

    expires_at: int
    """Milliseconds since 1970."""
    milliseconds_left: int
    """Remaining life of the session at the time of the read."""
    epoch: str
    """Eight hex digits that change when another server takes over, which may lack the last lines."""
    label: str | None
    last_seq: int
    """Sequence number of the last line. It equals the number of lines, since the numbers have no gaps."""
    lines: list[Line]


class SessionStore:
    """Opens, reads and destroys sessions, and appends lines."""

    def __init__(self, store: Store, idempotency_ttl: int, max_lines: int, max_bytes: int) -> None:
        self._store = store
        self._idempotency_ms = idempotency_ttl * 1000
        self._max_lines = max_lines
        self._max_bytes = max_bytes

    async def create(
        self, place: Quota, idempotency: IdempotencyKey | None, ttl_ms: int, fields: Mapping[str, str]
    ) -> OpenedSession:
        """Open a session. It stores its place in the quota of its client if that place has a name.

        Raises Refused `idempotency.conflict`, StoreUnavailable.
        """
        partition = idempotency.partition if idempotency else self._store.serving_partition()
        session_id = ids.unlisted_id(partition)
        session = keys.session(session_id)
        if place.name:
            fields = {**fields, "client": place.client, "held": place.name}
        reply = await self._store.run(
            session_create(
                session=session,
                once=Once.of(idempotency, ids.partition_of_id(session_id), session, self._idempotency_ms),
                session_id=session_id,
                ttl=ttl_ms,
                fields=flat_of(fields),
            )
        )
        match reply:
            case [b"created", int(expires_at)]:
                return OpenedSession(session_id, expires_at)
            case [b"replayed", bytes(original), int(expires_at), int(now)]:
                return OpenedSession(original.decode(), expires_at, now)
            case _:
                raise Refused("idempotency.conflict")

    async def send(
        self, rate: RateLimit, session_id: str, idempotency: IdempotencyKey | None, size: int, fields: Sequence[str]
    ) -> tuple[int, int, bool]:
        """Append a line of `size` bytes. Returns its sequence number, the time (ms) at which it was received, and
        whether it is a replay.

        Raises Refused `session.gone`, `session.full`, `limit.exceeded`, `idempotency.conflict`, StoreUnavailable.
        """
        partition = ids.partition_of_id(session_id)
        session = keys.session(session_id)
        reply = await self._store.run(
            session_send(
                session=session,
                lines=keys.lines(session_id),
                rate=keys.rate(partition, f"line:{session_id}", rate.client),
                once=Once.of(idempotency, partition, session, self._idempotency_ms),
                events=keys.events(partition),
                limit=rate.limit,
                max_lines=self._max_lines,
                max_bytes=self._max_bytes,
                size=size,
                session_id=session_id,
                fields=fields,
            )
        )
        kind, outcome = counted(rate, reply)
        if kind in REFUSALS:
            raise Refused(REFUSALS[kind])
        seq, received_at = outcome
        return seq, received_at, kind == b"replayed"

    async def poll(self, session_id: str, since_seq: int, limit: int) -> LinePage | None:
        """Return the lines after `since_seq`; None if the session is gone. Raises StoreUnavailable."""
        session = keys.session(session_id)
        reply = await self._store.run(
            session_poll(session=session, lines=keys.lines(session_id), since=since_seq, limit=limit)
        )
        match cast("list[Any]", reply):
            case [_, expires_at, left, drawn, label, last_seq, entries]:
                lines = [_line(*entry) for entry in entries_of(entries)]
                # The server's id is read after the reply, so it is the id of the server that answered.
                epoch = f"{int(drawn, 16) ^ self._store.server_id(session):08x}"
                return LinePage(expires_at, left, epoch, text(label), last_seq, lines)
            case _:
                return None

    async def wait(self, session_id: str, seconds: float, since_seq: int, limit: int) -> LinePage | None:
        """`poll` once there are lines or the session is gone, after `seconds` at most. Raises StoreUnavailable."""
        return await wait_for_next(
            self._store.wakeups,
            keys.session(session_id),
            seconds,
            since_seq,
            lambda since: self.poll(session_id, since, limit),
            last_of=lambda page: page and page.last_seq,
            is_new=lambda page: page is None or bool(page.lines),
            lasts=lambda page: (page.milliseconds_left + 1) / 1000 if page else 0,
        )

    async def destroy(self, session_id: str) -> Quota | None:
        """End a session. Returns its place in the quota of its client; None if the session was gone already.

        Raises StoreUnavailable.
        """
        reply = await self._store.run(session_destroy(session=keys.session(session_id), lines=keys.lines(session_id)))
        match cast("list[bytes]", reply):
            case [_, client, place]:
                return Quota("session", client.decode(), place.decode())
            case _:
                return None

    async def opened_by(self, origin: ClientOrigin) -> list[Attributed]:
        """Return the live sessions that were opened from `origin`, for the operator, by a scan of all keys.

        Raises StoreUnavailable.
        """
        found: dict[str, Attributed] = {}
        async for names in self._store.names(keys.pattern("session")):
            sessions = [name.rpartition(":")[2] for name in names]
            clients = await self._store.run_all([("HGET", keys.session(each), "client") for each in sessions])
            for session_id, client in zip(sessions, cast("list[bytes | None]", clients), strict=True):
                if client and origin.covers(client.decode(), None):
                    found[session_id] = Attributed("session", session_id, None, client.decode(), None)
        return list(found.values())

    async def seconds_left(self, session_id: str) -> float | None:
        """Return how long the session will live; None if it is gone. Raises StoreUnavailable."""
        left = cast("int", await self._store.command("PTTL", keys.session(session_id)))
        return None if left < 0 else left / 1000


def _line(entry: str, fields: Mapping[bytes, bytes]) -> Line:
    """Decode a line from a stream entry, whose id is 0-<seq>."""
    return Line(int(entry[2:]), fields[b"body"].decode(), text(fields.get(b"author")), timestamp(int(fields[b"at"])))
