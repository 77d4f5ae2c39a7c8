"""Inboxes in Redis: a hash each, in the partition of the address. Their messages are in `message_store`.

An inbox ends when its owner has neither read nor renewed it for INBOX_LIFE_MS. What is kept longer is the number of its
last message, if a key can open the inbox again, and the receipts that senders may still read.
"""

import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, cast

import msgspec

from node.common.refusal import Refused
from node.inbox import steps
from node.inbox.rights import Owner
from node.store import Store, StoreUnavailable, ids, keys
from node.store.decoding import flat_of
from node.store.idempotency import IdempotencyKey, Once
from node.store.limits import DAY_MS, LimitStore, Quota
from node.store.replay import FirstUse

INBOX_LIFE_MS = 30 * DAY_MS
"""Life of an inbox after its owner last read or renewed it."""

LAST_SEQ_KEPT_MS = 365 * DAY_MS
"""How long the number of the last message outlives an inbox that its key can open again, so that numbering continues.
The number takes 100 bytes."""

MAX_HELD = 256
"""Maximum number of unsettled messages in one inbox."""

MAX_HELD_BYTES = 1024 * 1024
"""Maximum bytes of the texts of all unsettled messages in one inbox."""

QUOTA = "inbox"
"""Kind of the quota in which inboxes count."""

REFUSALS = {
    b"gone": "inbox.unknown",
    b"token": "inbox.token",
    b"signature": "signature.replayed",
    b"conflict": "idempotency.conflict",
}
"""Refusal codes by the first word of a script's reply."""

SHOWN = ("label", "description", "policy", "encryption_key", "seen", "opened_at", "ends_at", "callback_url")
"""Fields of an inbox that anybody, or the operator, may see."""

CARD = ("label", "description", "card", "policy", "changed")
"""Fields from which an agent card is made, and `changed`, when the inbox was last changed (ms)."""


class Opening(msgspec.Struct, frozen=True):
    """The outcome of a request to open or renew an inbox."""

    address: str
    epoch: str
    ends_at: int
    """Milliseconds since 1970."""
    is_new: bool
    replayed_at: tuple[int, int] | None = None
    """For a replay: when the original answer was given, and the time now (ms). Else None."""


class StoredInbox(msgspec.Struct, frozen=True):
    """An inbox as it was at the time `now` (ms)."""

    now: int
    waiting: int
    """Unsettled messages."""
    size: int
    """Bytes of the unsettled messages."""
    fields: Mapping[str, str]
    """The requested fields that are set."""

    @property
    def has_room(self) -> bool:
        """Whether there is room for a small message."""
        return self.waiting < MAX_HELD and self.size < MAX_HELD_BYTES


class _Life(NamedTuple):
    """How long an inbox lives, as returned by `lua/lib/prolong.lua`; times in milliseconds."""

    ends_at: int
    place: Quota
    """The place that must last until `until` for the inbox to live longer. Without a name, nothing is to be done."""
    until: int

    @classmethod
    def of(cls, reply: Sequence[Any]) -> "_Life":
        ends_at, client, place, until = reply
        return cls(ends_at, Quota(QUOTA, client.decode(), place.decode()), until)


class InboxStore:
    """Opens, renews, shows and closes inboxes. Every method raises StoreUnavailable."""

    def __init__(self, store: Store, limits: LimitStore, idempotency_ttl: int) -> None:
        self._store = store
        self._limits = limits
        self._idempotency_ms = idempotency_ttl * 1000

    def new_address(self, partition: int | None) -> str:
        """Return an unused address, in the given partition if any."""
        return ids.new_address(self._store.serving_partition() if partition is None else partition)

    async def open(
        self,
        owner: Owner,
        fields: Mapping[str, str],
        *,
        rotate: bool,
        place: Quota | None,
        idempotency: IdempotencyKey | None,
    ) -> Opening:
        """Open the inbox with its `place` in a quota, or renew it. With `rotate`, a new epoch begins.

        Without a place, an inbox is only renewed: if it was closed a moment ago it stays closed, because no quota would
        count it. Raises Refused `inbox.unknown`, `inbox.token`, `idempotency.conflict`, `signature.replayed`.
        """
        address = owner.address
        partition, inbox = ids.partition_of(address), keys.inbox(address)
        reply = await self._store.run(
            steps.inbox_open(
                inbox=inbox,
                last_seq=keys.inbox_last_seq(address),
                once=Once.of(idempotency, partition, inbox, self._idempotency_ms),
                first_use=FirstUse.of(owner.replay_id, partition, inbox),
                proof=owner.proven_by,
                address=address,
                epoch=secrets.token_hex(8),
                rotate=int(rotate),
                life=INBOX_LIFE_MS,
                kept=last_seq_kept(address),
                step=DAY_MS,
                client=place.client if place else "",
                place=place.name if place else "",
                renews=int(place is None),
                fields=flat_of(fields),
            )
        )
        match reply:
            case [b"replayed", bytes(original), int(now)]:
                kind, address, began, at = original.decode().split("@")
                stored = await self.show(address)
                ends_at = int(stored.fields["ends_at"])
                if ends_at < int(at) + INBOX_LIFE_MS:  # the original request has not prolonged it fully
                    ends_at = await self.prolong(address)
                return Opening(address, began, ends_at, kind == "opened", (int(at), now))
            case [bytes(kind), bytes(current), *life]:
                ends_at = await self._with_place(address, _Life.of(life))
                return Opening(address, current.decode(), ends_at, kind == b"opened")
            case _:
                raise refused(reply)

    async def exists(self, address: str) -> bool:
        """Whether there is such an inbox."""
        return await self._store.command("EXISTS", keys.inbox(address)) == 1

    async def show(self, address: str, names: Sequence[str] = SHOWN) -> StoredInbox:
        """Return fields of an inbox, and how much it holds. Raises Refused `inbox.unknown`."""
        reply = await self._store.run(
            steps.inbox_show(inbox=keys.inbox(address), ends=keys.inbox_ends(address), names=names)
        )
        match cast("list[Any]", reply):
            case [b"inbox", now, waiting, size, values]:
                named = zip(names, cast("list[bytes | None]", values), strict=True)
                return StoredInbox(now, waiting, size, {name: value.decode() for name, value in named if value})
            case _:
                raise refused(reply)

    async def prolong(self, address: str) -> int:
        """Prolong an inbox because its owner was there. Returns when it ends (ms). Raises Refused `inbox.unknown`."""
        return await self._with_place(address, await self._prolong(address, 0))

    async def close(self, owner: Owner) -> None:
        """Close an inbox, free its place in its client's quota, and wake the senders who wait.

        Raises Refused `inbox.unknown`, `inbox.token`, `signature.replayed`.
        """
        address = owner.address
        partition, inbox = ids.partition_of(address), keys.inbox(address)
        reply = await self._store.run(
            steps.inbox_close(
                inbox=inbox,
                last_seq=keys.inbox_last_seq(address),
                messages=keys.inbox_messages(address),
                ends=keys.inbox_ends(address),
                push_ends=keys.inbox_push_ends(partition),
                first_use=FirstUse.of(owner.replay_id, partition, inbox),
                agents=keys.agents_of(address),
                due=keys.agents_due(partition),
                events=keys.events(partition),
                proof=owner.proven_by,
                kept=last_seq_kept(address),
                address=address,
            )
        )
        match cast("list[Any]", reply):
            case [b"closed", client, place, at, ended]:
                with suppress(StoreUnavailable):  # otherwise the place is taken until its time is over
                    await self._limits.release(Quota(QUOTA, client.decode(), place.decode()))
                receipts = [keys.inbox_receipt(address, each.decode()) for each in ended]
                with suppress(StoreUnavailable):  # otherwise messages seem to end only when their receipts are read
                    await self._store.run_all([("HSET", receipt, "ended_at", at) for receipt in receipts])
                with suppress(StoreUnavailable):  # otherwise a sender who waits for a receipt waits until timeout
                    await self._store.run_all([("SPUBLISH", receipt, "expired") for receipt in receipts])
            case _:
                raise refused(reply)

    async def _prolong(self, address: str, lasts: int) -> _Life:
        """Prolong an inbox, but not beyond its place in a quota. `lasts`: new end of the place (ms); 0 = unchanged."""
        reply = await self._store.run(
            steps.inbox_prolong(
                inbox=keys.inbox(address),
                last_seq=keys.inbox_last_seq(address),
                life=INBOX_LIFE_MS,
                kept=last_seq_kept(address),
                step=DAY_MS,
                lasts=lasts,
            )
        )
        match reply:
            case [b"prolonged", *life]:
                return _Life.of(life)
            case _:
                raise refused(reply)

    async def _with_place(self, address: str, life: _Life) -> int:
        """Prolong the place of an inbox in a quota if necessary, then the inbox. Returns when the inbox ends (ms).

        The place is in another partition and is prolonged first: an inbox that outlived its place would not be counted.
        """
        ends_at = life.ends_at
        if life.place.name:
            with suppress(StoreUnavailable):  # otherwise it ends with its place, unless its owner returns before
                await self._limits.extend(life.place, life.until)
                ends_at = (await self._prolong(address, life.until)).ends_at
        return ends_at


def last_seq_kept(address: str) -> int:
    """Return for how many milliseconds the message counter of an inbox outlives the inbox."""
    return LAST_SEQ_KEPT_MS if ids.is_of_key(address) else 0


def refused(reply: object) -> Refused:
    """Return the refusal for a script's reply."""
    return Refused(REFUSALS[cast("list[bytes]", reply)[0]])
