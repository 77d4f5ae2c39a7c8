"""The messages of inboxes in Redis: sending, reading, settling, withdrawing. Their receipts are in `receipt_store`.

An inbox has its unsettled messages in a stream, in the order of their numbers, and their places in a sorted set, scored
by the time at which they expire. A message is held while its place is in that set and has not expired.
"""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

import msgspec

from node.common.refusal import Refused
from node.inbox import steps
from node.inbox.content import Sending
from node.inbox.model import USUAL_LIFE_SECONDS, NewTurn
from node.inbox.origins import sender_name
from node.inbox.receipt_store import ReceiptStore, StoredReceipt
from node.inbox.rights import Owner
from node.inbox.steps import MessageKeys
from node.inbox.store import MAX_HELD, MAX_HELD_BYTES, REFUSALS, InboxStore, refused
from node.store import Store, StoreUnavailable, ids, keys
from node.store.decoding import code_of, fields_of
from node.store.idempotency import Once
from node.store.limits import DAY_MS, RateLimit, counted
from node.store.long_poll import wait_for_change, wait_for_next
from node.store.replay import FirstUse
from node.store.steps import Step

MAX_HELD_EACH = 32
"""Maximum number of unsettled messages that an inbox holds from one client address."""

RECEIPT_MS = 7 * DAY_MS
"""How long a receipt can be read after its message has ended."""

SEEN_STEP_MS = 60_000
"""Minimum time between two updates of when an owner was last seen, so that most polls only read."""

RETRY_SECONDS = 0.5
"""Pause before the receipt of a waiting sender is read again after a failure."""

MAX_CONTEXT_TASKS = 100
"""Maximum number of tasks that a context lists; beyond it, the oldest are removed from the list."""

NO_TURN = NewTurn()
"""The turn of a message that belongs to no task."""


class AcceptedMessage(msgspec.Struct, frozen=True):
    """An accepted message; times in milliseconds."""

    id: str
    seq: int
    expires_at: int
    replayed_at: tuple[int, int] | None = None
    """For a replay by Idempotency-Key: when the message was sent, and the time now. Else None."""


class HeldMessage(msgspec.Struct, frozen=True):
    """An unsettled message."""

    seq: int
    is_new: bool
    """Whether its owner has not read it yet."""
    fields: Mapping[bytes, bytes]


class HeldPage(msgspec.Struct, frozen=True):
    """A page of an inbox's messages, and how much the inbox holds; times in milliseconds."""

    now: int
    epoch: str
    seen_at: int
    last_seq: int
    """The number of the newest message that was ever sent."""
    waiting: int
    size: int
    oldest_at: int
    """When the oldest unsettled message was sent; 0 if there is none."""
    messages: list[HeldMessage]


class InboxMessageStore:
    """Sends, reads, settles and withdraws messages. Every method raises StoreUnavailable."""

    def __init__(self, store: Store, inboxes: InboxStore, receipts: ReceiptStore, idempotency_ttl: int) -> None:
        self._store = store
        self._inboxes = inboxes
        self._receipts = receipts
        self._idempotency_ms = idempotency_ttl * 1000

    async def send(self, sending: Sending, rate: RateLimit) -> AcceptedMessage:
        """Put a message into an inbox.

        Raises Refused `inbox.unknown`, `limit.exceeded`, `idempotency.conflict`, `signature.replayed`, `inbox.policy`,
        `inbox.turn`, `inbox.full`.
        """
        kind, outcome = counted(rate, await self._store.run(_sending(sending, rate, self._idempotency_ms)))
        match kind, outcome:
            case b"sent", [seq, expires_at]:
                return AcceptedMessage(sending.id, seq, expires_at)
            case b"replayed", [original, now]:
                first, seq, expires_at, at = original.decode().split("@")
                return AcceptedMessage(first, int(seq), int(expires_at), (int(at), now))
            case b"full", [wait_ms]:
                raise Refused("inbox.full", retry_after=wait_ms / 1000)
            case b"policy", _:
                raise Refused("inbox.policy")
            case b"turn", _:
                raise Refused("inbox.turn")
            case _:
                raise Refused(REFUSALS[kind])

    async def call(
        self, sending: Sending, rate: RateLimit, seconds: float
    ) -> tuple[AcceptedMessage, StoredReceipt | None]:
        """Send a message and wait up to `seconds` until it is settled. Returns it, and its receipt if one was read.

        Listens before it sends, so that no wake-up is missed. Raises as `send` does, but no longer once it has sent the
        message, because the sender of a failed request would send the message again.
        """
        sent: AcceptedMessage | None = None
        known: StoredReceipt | None = None
        pause = math.inf

        async def look() -> StoredReceipt | None:
            nonlocal sent, known, pause
            if sent is None:
                sent = await self.send(sending, rate)
                return None
            try:
                known, pause = await self._receipts.read(sending.address, sent.id), math.inf
            except StoreUnavailable:
                pause = RETRY_SECONDS
            return known

        receipt = await wait_for_change(
            self._store.wakeups,
            keys.inbox_receipt(sending.address, sending.id),
            seconds,
            look,
            # A replayed message has another id, and so another channel.
            is_new=lambda found: (found and not found.is_held) or (sent is not None and sent.id != sending.id),
            lasts=lambda found: min(pause, found.lasts if found else math.inf),
        )
        made = cast("AcceptedMessage", sent)
        if made.replayed_at:
            receipt = await self._receipts.wait(sending.address, made.id, seconds)
        return made, receipt

    async def read(self, owner: Owner, since_seq: int, limit: int) -> HeldPage:
        """Return unsettled messages after a number. Raises Refused `inbox.unknown`, `inbox.token`."""
        reply = await self._store.run(
            steps.inbox_read(
                inbox=keys.inbox(owner.address),
                last_seq=keys.inbox_last_seq(owner.address),
                messages=keys.inbox_messages(owner.address),
                ends=keys.inbox_ends(owner.address),
                proof=owner.proven_by,
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

    async def read_waiting(self, owner: Owner, since_seq: int, limit: int, seconds: float) -> HeldPage:
        """Do as `read` once there are messages, or after `seconds` at the latest, and mark new messages as read.

        Raises as `read` does.
        """
        page = await wait_for_next(
            self._store.wakeups,
            keys.inbox(owner.address),
            seconds,
            since_seq,
            lambda since: self.read(owner, since, limit),
            last_of=lambda found: found.last_seq,
            is_new=lambda found: bool(found.messages),
        )
        new = [
            message.fields[b"id"].decode() for message in page.messages if message.is_new and b"id" in message.fields
        ]
        marks = [steps.inbox_mark(message=MessageKeys.of(owner.address, each)) for each in new]
        # If this fails, the messages are still new, and are marked when they are read again.
        with suppress(StoreUnavailable):
            await self._store.run_all(marks)
            if page.now - page.seen_at >= SEEN_STEP_MS:
                await self._inboxes.prolong(owner.address)
        return page

    async def settle(self, owner: Owner, message_id: str, status: str, fields: Sequence[str]) -> tuple[int, int, bool]:
        """Settle a message. Returns its number, when it was settled (ms), and whether this is a repetition.

        Settling a message again in the same way is a repetition and changes nothing.
        Raises Refused `inbox.unknown`, `inbox.token`, `receipt.unknown`, `inbox.settled`.
        """
        reply = await self._store.run(_settling(owner, message_id, status, fields))
        match reply:
            case [(b"settled" | b"repeated") as outcome, int(seq), int(settled_at)]:
                return seq, settled_at, outcome == b"repeated"
            case _:
                raise _refused_message(reply)

    async def settle_through(self, owner: Owner, through: int) -> int:
        """Settle all messages up to a number as done. Returns how many.

        Each message is a step of its own, so a retry after a failure settles the rest. Raises Refused `inbox.unknown`,
        `inbox.token`.
        """
        inbox, ends = keys.inbox(owner.address), keys.inbox_ends(owner.address)
        listing = steps.inbox_list_through(inbox=inbox, ends=ends, proof=owner.proven_by, through=through)
        match cast("list[bytes]", listed := await self._store.run(listing)):
            case [b"ids", *found]:
                settling = [_settling(owner, each.decode(), "done", ()) for each in found]
            case _:
                raise refused(listed)
        replies = await self._store.run_all(settling)
        if lost := [reply for reply in replies if code_of(reply) in ("gone", "token")]:
            raise refused(lost[0])  # closed or rotated meanwhile: the rest is not settled
        return sum(code_of(reply) in ("settled", "repeated") for reply in replies)

    async def withdraw(self, address: str, message_id: str, task_id: str = "") -> tuple[int, int]:
        """Withdraw a message. Returns its number, and when it was withdrawn (ms). Idempotent.

        With `task_id`, the task of the message is kept for as long as the receipt of the message.

        Raises Refused `receipt.unknown`, `inbox.settled`.
        """
        reply = await self._store.run(
            steps.inbox_withdraw(
                message=MessageKeys.of(address, message_id),
                inbox=keys.inbox(address),
                messages=keys.inbox_messages(address),
                first=keys.inbox_receipt(address, task_id or message_id),
                keep=RECEIPT_MS,
            )
        )
        match reply:
            case [b"withdrawn", int(seq), int(settled_at)]:
                return seq, settled_at
            case _:
                raise _refused_message(reply)


def _sending(sending: Sending, rate: RateLimit, idempotency_ms: int) -> Step:
    address, partition = sending.address, ids.partition_of(sending.address)
    inbox, message = keys.inbox(address), MessageKeys.of(address, sending.id)
    turn = sending.turn or NO_TURN
    return steps.inbox_send(
        message=message,
        inbox=inbox,
        last_seq=keys.inbox_last_seq(address),
        messages=keys.inbox_messages(address),
        rate=keys.rate(partition, f"inbox_sender:{address}", rate.client),
        once=Once.of(sending.idempotency, partition, inbox, idempotency_ms),
        first_use=FirstUse.of(sending.replay_id, partition, inbox),
        task=keys.inbox_receipt(address, turn.task) if turn.task else message.receipt,
        context=keys.inbox_context(address, turn.context_name) if turn.context_name else inbox,
        asked=keys.inbox_receipt(address, turn.before) if turn.before else message.receipt,
        pushes=keys.inbox_pushes(address, turn.task) if turn.task else inbox,
        limit=rate.limit,
        sender=sender_name(address, rate.client),
        signer=sending.signer,
        lasts=sending.lasts_ms,
        usual=USUAL_LIFE_SECONDS * 1000,
        keep=RECEIPT_MS,
        most=MAX_HELD,
        most_bytes=MAX_HELD_BYTES,
        most_each=MAX_HELD_EACH,
        text=sending.text,
        task_id=sending.task_id,
        context_id=turn.context,
        said=turn.said,
        most_tasks=MAX_CONTEXT_TASKS,
    )


def _settling(owner: Owner, message_id: str, status: str, fields: Sequence[str]) -> Step:
    return steps.inbox_settle(
        message=MessageKeys.of(owner.address, message_id),
        inbox=keys.inbox(owner.address),
        messages=keys.inbox_messages(owner.address),
        proof=owner.proven_by,
        status=status,
        digest=ids.digest(*fields),
        keep=RECEIPT_MS,
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
