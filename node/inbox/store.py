"""Inboxes in Redis: a hash each, in the partition of the address. Their messages are in `message_store`.

A hash lives until its owner has not been there for INBOX_LIFE_MS. Nothing of an inbox is kept longer, except the number
of its last message if a key can open it anew, and the receipts that senders still may read.
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
"""How long the number of the last message outlives an inbox that its key can open anew, so that counting goes on where
it stopped. It takes 100 bytes."""

MAX_HELD = 256
"""Unsettled messages of one inbox."""

MAX_HELD_BYTES = 1024 * 1024
"""Bytes of their texts together."""

QUOTA = "inbox"
"""The kind of quota that inboxes count in."""

REFUSALS = {
    b"gone": "inbox.unknown",
    b"token": "inbox.token",
    b"signature": "signature.replayed",
    b"conflict": "idempotency.conflict",
}
"""Codes for what the scripts refuse."""

SHOWN = ("label", "description", "policy", "encryption_key", "seen", "opened_at", "ends_at", "callback_url")
"""Fields of an inbox that anybody, or the operator, may see."""

CARD = ("label", "description", "card", "policy", "changed")
"""Fields of which an agent card is made, and when any of them was last changed (ms)."""


class Opening(msgspec.Struct, frozen=True):
    """How a request to open or renew an inbox ended."""

    address: str
    epoch: str
    ends_at: int
    """Milliseconds since 1970."""
    is_new: bool
    replayed_at: tuple[int, int] | None = None
    """If it is an earlier answer, given again: when that was given, and the time now (ms)."""


class StoredInbox(msgspec.Struct, frozen=True):
    """An inbox as it was at the time `now` (ms)."""

    now: int
    waiting: int
    """Unsettled messages."""
    size: int
    """Bytes that they take."""
    fields: Mapping[str, str]
    """Those that were asked for and are set."""

    @property
    def has_room(self) -> bool:
        """Whether a small message would be taken."""
        return self.waiting < MAX_HELD and self.size < MAX_HELD_BYTES


class _Life(NamedTuple):
    """How long an inbox lives, as `lua/lib/prolong.lua` has found it; times in milliseconds."""

    ends_at: int
    place: Quota
    """What would have to last until `until`, so that the inbox could live longer; without a name, nothing."""
    until: int

    @classmethod
    def of(cls, reply: Sequence[Any]) -> "_Life":
        ends_at, client, place, until = reply
        return cls(ends_at, Quota(QUOTA, client.decode(), place.decode()), until)


class InboxStore:
    """Opens, renews, shows and closes. Every method raises StoreUnavailable."""

    def __init__(self, store: Store, limits: LimitStore, idempotency_ttl: int) -> None:
        self._store = store
        self._limits = limits
        self._idempotency_ms = idempotency_ttl * 1000

    def new_address(self, partition: int | None) -> str:
        """An address that nobody has, in the partition if one is given."""
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
        """Open the inbox, with its `place` in a quota, or renew it, with a new epoch if `rotate`.

        Without a place it is renewed only: one that was closed a moment ago stays so, or no quota would count it.
        Raises Refused `inbox.unknown`, `inbox.token`, `idempotency.conflict`, `signature.replayed`.
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
                if ends_at < int(at) + INBOX_LIFE_MS:  # the first time, it was not prolonged as far as it was to be
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
        """An inbox as everybody may see it. Raises Refused `inbox.unknown`."""
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
        """Let an inbox live on, because its owner is there: when it ends (ms). Raises Refused `inbox.unknown`."""
        return await self._with_place(address, await self._prolong(address, 0))

    async def close(self, owner: Owner) -> None:
        """Close an inbox. Its place in the quota of its client is free then, and senders who wait are woken.

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
                with suppress(StoreUnavailable):  # otherwise the place counts until its time is over
                    await self._limits.release(Quota(QUOTA, client.decode(), place.decode()))
                receipts = [keys.inbox_receipt(address, each.decode()) for each in ended]
                with suppress(StoreUnavailable):  # otherwise a message seems to end when its receipt is read
                    await self._store.run_all([("HSET", receipt, "ended_at", at) for receipt in receipts])
                with suppress(StoreUnavailable):  # otherwise who waits for a receipt waits until the time is up
                    await self._store.run_all([("SPUBLISH", receipt, "expired") for receipt in receipts])
            case _:
                raise refused(reply)

    async def _prolong(self, address: str, lasts: int) -> _Life:
        """`prolong`, as far as the place of the inbox in a quota lasts: until `lasts` (ms), if it was prolonged."""
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
        """When an inbox ends (ms), once its place in a quota has been prolonged as far as it must be.

        The place first, which is in another partition: an inbox that outlived its place would count for nobody.
        """
        ends_at = life.ends_at
        if life.place.name:
            with suppress(StoreUnavailable):  # it lives as long as its place does, or until its owner is there again
                await self._limits.extend(life.place, life.until)
                ends_at = (await self._prolong(address, life.until)).ends_at
        return ends_at


def last_seq_kept(address: str) -> int:
    """Milliseconds for which the counter of an inbox outlives it."""
    return LAST_SEQ_KEPT_MS if ids.is_of_key(address) else 0


def refused(reply: object) -> Refused:
    """The refusal in a script's reply."""
    return Refused(REFUSALS[cast("list[bytes]", reply)[0]])
