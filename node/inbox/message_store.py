"""The messages of inboxes in Redis: sent, read, settled, and what became of them.

An inbox holds its unsettled messages in a stream, in the order of their numbers, and their places in a sorted set by
the time at which they expire: what is there and has not expired is held. What became of a message is its receipt, a
hash of its own, which outlives both the message and the inbox.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

import msgspec

from node.common.refusal import Refused
from node.inbox import steps
from node.inbox.model import USUAL_LIFE_SECONDS, InboxMessageStatus, Turn
from node.inbox.origins import sender_name
from node.inbox.sending import Sending
from node.inbox.store import MAX_HELD, MAX_HELD_BYTES, REFUSALS, InboxStore, refused
from node.store import Store, StoreUnavailable, ids, keys
from node.store.bulk import bulk_steps
from node.store.decoding import code_of, fields_of
from node.store.idempotency import digest_of, record_key
from node.store.limits import DAY_MS, Rate, Taken
from node.store.long_poll import wait_for_change, wait_for_next
from node.store.replay import replay_key, replay_ttl
from node.store.steps import Step

MAX_HELD_EACH = 32
"""Unsettled messages that an inbox holds from one client address."""

RECEIPT_MS = 7 * DAY_MS
"""How long a receipt can be read after its message has ended."""

SEEN_STEP_MS = 60_000
"""Least time between two updates of when an owner was last there, so that most polls only read."""

RETRY_SECONDS = 0.5
"""Until a receipt that could not be read is read again, for a sender who waits."""

MAX_CONTEXT_TASKS = 100
"""Tasks that a context lists."""

NO_TURN = Turn()
"""The turn of a message that belongs to no task."""


class Sent(msgspec.Struct, frozen=True):
    """An accepted message; times in milliseconds."""

    id: str
    seq: int
    expires_at: int
    replayed_at: tuple[int, int] | None = None
    """If it was sent before with the same Idempotency-Key: when, and the time now."""


class HeldMessage(msgspec.Struct, frozen=True):
    """An unsettled message."""

    seq: int
    is_new: bool
    """Whether its owner has not read it yet."""
    fields: Mapping[bytes, bytes]


class HeldPage(msgspec.Struct, frozen=True):
    """Some messages of an inbox, and how much it holds; times in milliseconds."""

    now: int
    epoch: str
    seen_at: int
    last_seq: int
    """The number of the newest message that was ever sent."""
    waiting: int
    size: int
    oldest_at: int
    """0 if there is none."""
    messages: list[HeldMessage]


class StoredReceipt(msgspec.Struct, frozen=True):
    """The receipt of a message at the time `now` (ms), or at the time its inbox was closed with it."""

    now: int
    epoch: str
    """Of the inbox; empty if it is closed."""
    is_held: bool
    fields: Mapping[bytes, bytes]

    @classmethod
    def of(cls, reply: object) -> "StoredReceipt | None":
        """The receipt in a script's reply, if there is one."""
        match cast("list[Any]", reply):
            case [b"receipt", now, epoch, is_held, flat]:
                return cls(now, epoch.decode(), bool(is_held), fields_of(flat))
            case _:
                return None

    @property
    def is_over(self) -> bool:
        """Whether it is settled or has expired, and so stays as it is."""
        return not self.is_held

    @property
    def status(self) -> InboxMessageStatus:
        """Its status; `expired` once it is neither held nor settled."""
        is_kept = self.is_held or b"settled_at" in self.fields
        return cast("InboxMessageStatus", self.fields[b"status"].decode()) if is_kept else "expired"

    @property
    def lasts(self) -> float:
        """Seconds until it expires, if nothing is done."""
        return (int(self.fields[b"expires_at"]) - self.now + 1) / 1000 if self.is_held else math.inf


class InboxMessageStore:
    """Sends, reads, settles, and reads receipts."""

    def __init__(self, store: Store, inboxes: InboxStore, idempotency_ttl: int) -> None:
        self._store = store
        self._inboxes = inboxes
        self._idempotency_ms = idempotency_ttl * 1000

    async def send(self, sending: Sending, rate: Rate) -> Sent:
        """Put a message into an inbox.

        Raises Refused `inbox.unknown`, `limit.exceeded`, `idempotency.conflict`, `signature.replayed`, `inbox.policy`,
        `inbox.turn`, `inbox.full`, StoreUnavailable.
        """
        address, idempotency, replay_id = sending.address, sending.idempotency, sending.replay_id
        partition = ids.partition_of(address)
        inbox, receipt = keys.inbox(address), keys.inbox_receipt(address, sending.id)
        turn = sending.turn or NO_TURN
        task_id = "" if turn is NO_TURN else turn.task or sending.id
        reply = await self._store.run(
            steps.inbox_send(
                inbox=inbox,
                last_seq=keys.inbox_last_seq(address),
                messages=keys.inbox_messages(address),
                ends=keys.inbox_ends(address),
                receipt=receipt,
                rate=keys.rate(partition, f"inbox_sender:{address}", rate.client),
                idem=record_key(idempotency, partition, inbox),
                replay=replay_key(replay_id, partition, inbox),
                events=keys.events(partition),
                task=keys.inbox_receipt(address, turn.task) if turn.task else receipt,
                asked=keys.inbox_receipt(address, turn.before) if turn.before else receipt,
                context=keys.inbox_context(address, turn.context_name) if task_id else inbox,
                pushes=keys.inbox_pushes(address, turn.task) if turn.task else inbox,
                push_ends=keys.inbox_push_ends(partition),
                count=rate.limit.count,
                window=rate.limit.milliseconds,
                digest=digest_of(idempotency),
                idem_ttl=self._idempotency_ms,
                replay_ttl=replay_ttl(replay_id),
                address=address,
                id=sending.id,
                sender=sender_name(address, rate.client),
                signer=sending.signer,
                lasts=sending.lasts_ms,
                usual=USUAL_LIFE_SECONDS * 1000,
                keep=RECEIPT_MS,
                most=MAX_HELD,
                most_bytes=MAX_HELD_BYTES,
                most_each=MAX_HELD_EACH,
                text=sending.text,
                task_id=task_id,
                context_id=turn.context,
                said=turn.said,
                most_tasks=MAX_CONTEXT_TASKS,
            )
        )
        kind, *counts = cast("list[Any]", reply)
        if counts:  # a request to an inbox that is not there is not counted
            rate.settle(Taken.of(*counts[:3]))
        match kind, counts[3:]:
            case b"sent", [seq, expires_at]:
                return Sent(sending.id, seq, expires_at)
            case b"replayed", [original, now]:
                first, seq, expires_at, at = original.decode().split("@")
                return Sent(first, int(seq), int(expires_at), (int(at), now))
            case b"full", [wait_ms]:
                raise Refused("inbox.full", retry_after=wait_ms / 1000)
            case b"policy", _:
                raise Refused("inbox.policy")
            case b"turn", _:
                raise Refused("inbox.turn")
            case _:
                raise Refused(REFUSALS[kind])

    async def call(self, sending: Sending, rate: Rate, seconds: float) -> tuple[Sent, StoredReceipt | None]:
        """Send a message and wait until it is settled. Returns it, and its receipt if anything became of it by then.

        Listening begins before the message can be read, so that no wake-up is missed. Raises as `send` does, but
        nothing once it is sent: the sender of a request that failed would send again.
        """
        sent: Sent | None = None
        known: StoredReceipt | None = None
        pause = math.inf

        async def look() -> StoredReceipt | None:
            nonlocal sent, known, pause
            if sent is None:
                sent = await self.send(sending, rate)
                return None
            try:
                known, pause = await self.receipt(sending.address, sent.id), math.inf
            except StoreUnavailable:
                pause = RETRY_SECONDS
            return known

        receipt = await wait_for_change(
            self._store.wakeups,
            keys.inbox_receipt(sending.address, sending.id),
            seconds,
            look,
            # An earlier message has an id of its own, and so another channel.
            is_new=lambda found: bool(found and found.is_over) or (sent is not None and sent.id != sending.id),
            lasts=lambda found: min(pause, found.lasts if found else math.inf),
        )
        made = cast("Sent", sent)
        if made.replayed_at:
            receipt = await self.wait(sending.address, made.id, seconds, lambda found: not found or found.is_over)
        return made, receipt

    async def read(self, address: str, proof: str, since_seq: int, limit: int) -> HeldPage:
        """Unsettled messages after a number. Raises Refused `inbox.unknown`, `inbox.token`, StoreUnavailable."""
        reply = await self._store.run(
            steps.inbox_read(
                inbox=keys.inbox(address),
                last_seq=keys.inbox_last_seq(address),
                messages=keys.inbox_messages(address),
                ends=keys.inbox_ends(address),
                proof=proof,
                since=since_seq,
                limit=limit,
            )
        )
        match cast("list[Any]", reply):
            case [b"page", now, epoch, seen_at, last_seq, waiting, size, oldest_at, found]:
                messages = [HeldMessage(int(entry[2:]), bool(new), fields_of(flat)) for new, entry, flat in found]
                return HeldPage(now, epoch.decode(), seen_at, last_seq, waiting, size, oldest_at, messages)
            case _:
                raise refused(reply)

    async def read_waiting(self, address: str, proof: str, since_seq: int, limit: int, seconds: float) -> HeldPage:
        """`read`, once there are messages, after `seconds` at most; those that are new are marked as read.

        Raises as `read` does.
        """
        page = await wait_for_next(
            self._store.wakeups,
            keys.inbox(address),
            seconds,
            since_seq,
            lambda since: self.read(address, proof, since, limit),
            last_of=lambda found: found.last_seq,
            is_new=lambda found: bool(found.messages),
        )
        marks = [_marking(address, message.fields[b"id"].decode()) for message in page.messages if message.is_new]
        # If Redis is out of reach they are still new when they are read again.
        with suppress(StoreUnavailable):
            await bulk_steps(self._store, marks)
            if page.now - page.seen_at >= SEEN_STEP_MS:
                await self._inboxes.stay(address)
        return page

    async def settle(
        self, address: str, message_id: str, proof: str, status: str, fields: Sequence[str]
    ) -> tuple[int, int]:
        """Settle a message: its number, and when it was settled (ms). Idempotent for the same settlement.

        Raises Refused `inbox.unknown`, `inbox.token`, `receipt.unknown`, `inbox.settled`, StoreUnavailable.
        """
        reply = await self._store.run(_settling(address, message_id, proof, status, fields))
        match reply:
            case [b"settled", int(seq), int(settled_at)]:
                return seq, settled_at
            case _:
                raise _refused_message(reply)

    async def settle_through(self, address: str, proof: str, through: int) -> int:
        """Settle all messages up to a number as done. Returns how many.

        Each is a step of its own, so a repetition after a failure settles the rest. Raises Refused `inbox.unknown`,
        `inbox.token`, StoreUnavailable.
        """
        listed = await self._store.run(
            steps.inbox_through(inbox=keys.inbox(address), ends=keys.inbox_ends(address), proof=proof, through=through)
        )
        kind, *found = cast("list[bytes]", listed)
        if kind != b"ids":
            raise refused(listed)
        settling = [_settling(address, each.decode(), proof, "done", ()) for each in found]
        replies = await bulk_steps(self._store, settling)
        if lost := [reply for reply in replies if code_of(reply) in ("gone", "token")]:
            raise refused(lost[0])  # closed or rotated meanwhile: the rest is not settled
        return [code_of(reply) for reply in replies].count("settled")

    async def withdraw(self, address: str, message_id: str) -> tuple[int, int]:
        """Take a message back: its number, and when that was done (ms). Idempotent.

        Raises Refused `receipt.unknown`, `inbox.settled`, StoreUnavailable.
        """
        reply = await self._store.run(
            steps.inbox_withdraw(
                inbox=keys.inbox(address),
                messages=keys.inbox_messages(address),
                ends=keys.inbox_ends(address),
                receipt=keys.inbox_receipt(address, message_id),
                push_ends=keys.inbox_push_ends(ids.partition_of(address)),
                events=keys.events(ids.partition_of(address)),
                keep=RECEIPT_MS,
                address=address,
                id=message_id,
            )
        )
        match reply:
            case [b"withdrawn", int(seq), int(settled_at)]:
                return seq, settled_at
            case _:
                raise _refused_message(reply)

    async def receipt(self, address: str, message_id: str) -> StoredReceipt | None:
        """What became of a message; None if there is none of that id, or its time is over. Raises StoreUnavailable."""
        receipt = keys.inbox_receipt(address, message_id)
        reading = steps.inbox_receipt(inbox=keys.inbox(address), receipt=receipt, names=())
        return StoredReceipt.of(await self._store.run(reading))

    async def wait(
        self, address: str, message_id: str, seconds: float, is_new: Callable[[StoredReceipt | None], bool]
    ) -> StoredReceipt | None:
        """`receipt`, once it is new, or after `seconds`. Raises StoreUnavailable."""
        return await wait_for_change(
            self._store.wakeups,
            keys.inbox_receipt(address, message_id),
            seconds,
            lambda: self.receipt(address, message_id),
            is_new,
            lasts=lambda found: found.lasts if found else math.inf,
        )


def _marking(address: str, message_id: str) -> Step:
    return steps.inbox_mark(
        ends=keys.inbox_ends(address),
        receipt=keys.inbox_receipt(address, message_id),
        push_ends=keys.inbox_push_ends(ids.partition_of(address)),
        events=keys.events(ids.partition_of(address)),
        address=address,
        id=message_id,
    )


def _settling(address: str, message_id: str, proof: str, status: str, fields: Sequence[str]) -> Step:
    return steps.inbox_settle(
        inbox=keys.inbox(address),
        messages=keys.inbox_messages(address),
        ends=keys.inbox_ends(address),
        receipt=keys.inbox_receipt(address, message_id),
        push_ends=keys.inbox_push_ends(ids.partition_of(address)),
        events=keys.events(ids.partition_of(address)),
        proof=proof,
        status=status,
        digest=ids.digest(*fields),
        keep=RECEIPT_MS,
        address=address,
        id=message_id,
        fields=fields,
    )


def _refused_message(reply: object) -> Refused:
    match reply:
        case [b"state", bytes(status)]:
            return Refused("inbox.settled", status=status.decode())
        case [b"unknown"]:
            return Refused("receipt.unknown")
        case _:
            return refused(reply)
