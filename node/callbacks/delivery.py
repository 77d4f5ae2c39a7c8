"""Delivery status of the callbacks of an entity, for whoever gave their URL.

The scripts that enqueue and settle a callback note its status in a record of the entity (`lua/lib/note_callback.lua`).
So the queue is not read, and delivered callbacks can still be seen for a day.
"""

import math
from collections.abc import Awaitable, Callable
from typing import Annotated, Literal, TypeAlias, cast

import msgspec
from msgspec import Meta

from node.common.timestamps import timestamp
from node.store import Store, keys
from node.store.decoding import fields_of
from node.store.long_poll import wait_for_change
from node.store.steps import Key

ENDED = (b"closed", b"destroyed", b"forgotten", b"hidden", b"purged", b"rotated")
"""What scripts say on the channel of an entity when it ends or is hidden, or when the token of its owner ends."""

EVER = 2**53  # far more changes than a record can have

DeliveryStatus = Literal["pending", "delivered", "dropped", "dead"]

Entity = Literal["task", "session", "thread", "inbox"]

_KEYS: dict[Entity, Callable[[str], Key]] = {
    "task": keys.task,
    "session": keys.session,
    "thread": keys.thread,
    "inbox": keys.inbox,
}

Require: TypeAlias = Callable[[], Awaitable[float | None]]
"""Raises Refused if an entity is gone or is not the client's. Returns the seconds after which it ends by itself."""


class DeliveryQuery(msgspec.Struct):
    """The query of GET /api/v1/.../{id}/callbacks."""

    wait: Annotated[float, Meta(ge=0, le=30, description="Seconds to wait for a change after `since`")] = 0
    since: Annotated[int, Meta(ge=0, le=EVER, description="`next_since` of the last answer")] = 0


class Delivery(msgspec.Struct):
    """The delivery status of one callback."""

    id: Annotated[str, Meta(description="The webhook-id header of the callback", examples=["msg_05_1767225600000_0"])]
    type: Annotated[str, Meta(examples=["task.claimed"])]
    host: Annotated[str, Meta(description="The host of your callback_url", examples=["hooks.example"])]
    status: Annotated[
        DeliveryStatus,
        Meta(
            description="`pending`: another attempt follows. `delivered`: answered with 2xx. `dropped`: given up, "
            "as no further attempt could succeed. `dead`: given up after the last attempt",
            examples=["pending"],
        ),
    ]
    attempts: Annotated[int, Meta(description="Number of attempts that have ended", examples=[1])]
    last_error: Annotated[
        str | None,
        Meta(description="Why the last attempt failed, or why none could be made", examples=["answered 503"]),
    ]
    created_at: Annotated[str, Meta(description="When the event happened that the callback reports")]
    next_attempt_at: Annotated[
        str | None, Meta(description="When the next attempt is due; null unless pending. In the past: under way")
    ]


class DeliveryPage(msgspec.Struct):
    """The last 20 callbacks about an entity, newest first; they are shown for a day after the last one."""

    callbacks: list[Delivery]
    next_since: Annotated[
        int, Meta(description="Send it as `since`, with `wait`, to wait for the next change", examples=[3])
    ]


class DeliveryRecords:
    """Reads the delivery records that the scripts keep."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def of(self, kind: Entity, name: str, query: DeliveryQuery, require: Require) -> DeliveryPage:
        """`read` for the entity with this id, or the inbox with this address."""
        await require()  # first, since what is not an id has no key
        return await self.read(_KEYS[kind](name), query, require)

    async def read(self, key: Key, query: DeliveryQuery, require: Require) -> DeliveryPage:
        """Return the last callbacks of an entity; with `query.wait`, wait for a change first, or for its end.

        `key`: that of the entity. Raises StoreUnavailable, and what `require` raises, which is called before each read.
        """
        record = keys.callback_record_of(key)

        async def read() -> tuple[DeliveryPage, float]:
            life = await require()
            page = _page(fields_of(await self._store.command("HGETALL", record)))
            return page, math.inf if life is None else life

        page, _ = await wait_for_change(
            self._store.wakeups,
            record,
            query.wait,
            read,
            lambda found: found[0].next_since != query.since,
            lambda found: found[1],
            (key, ENDED),
        )
        return page


def _page(fields: dict[bytes, bytes]) -> DeliveryPage:
    changes = int(fields.pop(b"changes", 0))
    noted = sorted((_noted(name, value) for name, value in fields.items()), reverse=True)
    return DeliveryPage([delivery for _, _, delivery in noted], changes)


def _noted(name: bytes, value: bytes) -> tuple[int, str, Delivery]:
    """Return when the event happened and the callback's id, to sort by, and the delivery to show."""
    status, attempts, due_at, at, kind, host, reason = value.decode().split(" ", 6)
    delivery = Delivery(
        id=name.decode(),
        type=kind,
        host=host,
        status=cast("DeliveryStatus", status),
        attempts=int(attempts),
        last_error=reason or None,
        created_at=timestamp(int(at)),
        next_attempt_at=timestamp(int(due_at)) if status == "pending" else None,
    )
    return int(at), delivery.id, delivery
