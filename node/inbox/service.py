"""The rules of inboxes: who may open, write to, read and settle what (NETWORK 1)."""

from collections.abc import Mapping
from contextlib import suppress
from typing import cast

import msgspec

from node.callbacks.target_check import TargetCheck
from node.common.refusal import Refused
from node.common.timestamps import timestamp
from node.common.tokens import Tokens
from node.common.unreadable import show_each
from node.config import Settings
from node.inbox.content import Sending, inbox_fields, reply_fields
from node.inbox.message_store import AcceptedMessage, InboxMessageStore
from node.inbox.model import (
    Answer,
    CardSkill,
    ClosedInbox,
    Inbox,
    InboxCard,
    InboxPage,
    InboxPageQuery,
    InboxProof,
    InboxUsage,
    NewInbox,
    NewInboxMessage,
    OpenedInbox,
    Receipt,
    ReceiptQuery,
    SenderPolicy,
    SentInboxMessage,
    SettledMessage,
    SettledThrough,
    Settlement,
)
from node.inbox.pushes import InboxPushes
from node.inbox.receipt_store import ReceiptStore, StoredReceipt
from node.inbox.rights import BY_KEY, UNPROVEN, InboxTokens, Owner
from node.inbox.store import CARD, INBOX_LIFE_MS, QUOTA, InboxStore, Opening
from node.inbox.tasks import InboxTasks
from node.inbox.view import answer_of, last_seen_of, message_of, receipt_of
from node.store import ids
from node.store.idempotency import IdempotencyKey
from node.store.limits import Quota, RateLimit
from node.store.long_poll import another_status

__all__ = ["INBOX_LIFE_MS", "InboxPushes", "InboxTasks", "Inboxes"]


class Inboxes:
    """The service behind /api/v1/inboxes. Every method raises StoreUnavailable."""

    def __init__(
        self,
        store: InboxStore,
        messages: InboxMessageStore,
        receipts: ReceiptStore,
        settings: Settings,
        tokens: Tokens,
        targets: TargetCheck,
    ) -> None:
        self._store = store
        self._messages = messages
        self._receipts = receipts
        self._tokens = InboxTokens(tokens)
        self._targets = targets
        self._base = f"{settings.public_url}/api/v1/inboxes/"

    async def is_renewal(self, proof: InboxProof) -> bool:
        """Whether a request to open an inbox is about one that exists, or once existed."""
        return proof.token is not None or (bool(proof.signer) and await self._store.exists(proof.signer))

    def proven(self, proof: InboxProof) -> Owner:
        """Return the owner that a request proves. If it has a token and a signature, only the token counts.

        Raises Refused `inbox.proof` if the request has no credentials, `inbox.token` if this node issued no such token.
        """
        if proof.is_empty:
            raise Refused("inbox.proof")
        if proof.token is None:
            return Owner(proof.signer, BY_KEY, proof.replay_id)
        named = self._tokens.owner_of(proof.token)
        if named is None:
            raise Refused("inbox.token")
        return Owner(*named, proof.replay_id)

    def named(self, proof: InboxProof) -> str:
        """Return the address that a request to open an inbox is about; empty for a new inbox.

        Raises Refused `inbox.token`.
        """
        return "" if proof.is_empty else self.proven(proof).address

    async def open(
        self, client: str, place: str | None, wanted: NewInbox, proof: InboxProof, idempotency: IdempotencyKey | None
    ) -> tuple[OpenedInbox, Opening]:
        """Open an inbox for a client, or renew the inbox whose token or signature the request has.

        `place` is the place of a new inbox in the client's quota, empty if inboxes are not counted; None for a renewal
        (`is_renewal`). Raises Invalid, Refused `inbox.unknown`, `inbox.token`, `idempotency.conflict`,
        `idempotency.short`, `signature.replayed`.
        """
        if proof.is_empty:
            owner = Owner(self._store.new_address(idempotency.partition if idempotency else None), UNPROVEN)
        else:
            owner = self.proven(proof)
        fields = inbox_fields(wanted)
        if wanted.callback_url is None:
            fields["callback_url"] = ""
        elif wanted.callback_url is not msgspec.UNSET:
            fields |= await self._targets.accept(wanted.callback_url, client, idempotency)
        opening = await self._store.open(
            owner,
            fields,
            rotate=wanted.rotate,
            place=None if place is None else Quota(QUOTA, client, place),
            idempotency=idempotency,
        )
        if opening.replayed_at and idempotency:
            idempotency.check_token(*opening.replayed_at)
        opened = OpenedInbox(
            address=opening.address,
            inbox_token=self._tokens.inbox_token(opening.address, opening.epoch),
            epoch=opening.epoch,
            url=self._base + opening.address,
            a2a_url=self.a2a_url(opening.address),
            expires_at=timestamp(opening.ends_at),
        )
        return opened, opening

    async def get(self, address: str) -> Inbox:
        """Return what everybody may see of an inbox. Raises Refused `inbox.unknown`."""
        _require_address(address)
        stored = await self._store.show(address)
        return Inbox(
            address=address,
            label=stored.fields.get("label"),
            description=stored.fields.get("description"),
            policy=_policy(stored.fields),
            is_signed=ids.is_of_key(address),
            encryption_key=stored.fields.get("encryption_key"),
            a2a_url=self.a2a_url(address),
            last_seen=last_seen_of(stored),
            accepting=stored.has_room,
        )

    def a2a_url(self, address: str) -> str:
        """Return the base URL of an inbox's A2A agent."""
        return f"{self._base}{address}/a2a"

    async def card(self, address: str) -> tuple[InboxCard, SenderPolicy, int]:
        """Return the A2A agent card of an inbox, its sender policy, and when the inbox was last changed (ms).

        If the owner gave no card, one is made from label and description. Raises Refused `inbox.unknown`.
        """
        _require_address(address)
        shown = (await self._store.show(address, CARD)).fields
        policy, changed = _policy(shown), int(shown["changed"])
        if "card" in shown:
            return msgspec.json.decode(shown["card"], type=InboxCard), policy, changed
        name = shown.get("label", "")
        about = shown.get("description") or f"Messages to {name or 'this inbox'} are held until its owner answers."
        skill = CardSkill(id="message", name="Take a message", description=about, tags=["message", "inbox"])
        return InboxCard(name or f"Inbox {address[:8]}", about, [skill]), policy, changed

    async def name_on_card(self, address: str) -> str:
        """Return the name on the card that the owner gave; empty if there is no card or no such inbox."""
        with suppress(Refused):
            if card := (await self._store.show(address, ("card",))).fields.get("card"):
                return msgspec.json.decode(card, type=InboxCard).name
        return ""

    async def close(self, address: str, proof: InboxProof) -> ClosedInbox:
        """Close an inbox. The messages that it holds get the status `expired`.

        Raises Refused `inbox.unknown`, `inbox.proof`, `inbox.token`, `signature.replayed`.
        """
        await self._store.close(await self._owner(address, proof))
        return ClosedInbox(address)

    async def usage(self, address: str) -> InboxUsage:
        """Return how much an inbox holds, for the operator. Raises Refused `inbox.unknown`."""
        _require_address(address)
        stored = await self._store.show(address)
        opened_at, seen_at, ends_at = (timestamp(int(stored.fields[name])) for name in ("opened_at", "seen", "ends_at"))
        return InboxUsage(address, stored.waiting, stored.size, opened_at, seen_at, ends_at)

    async def end(self, address: str) -> InboxUsage:
        """Close an inbox for the operator, and return how much it held. Raises Refused `inbox.unknown`."""
        usage = await self.usage(address)
        await self._store.close(Owner(address, BY_KEY))
        return usage

    async def withdraw_as_operator(self, address: str, message_id: str) -> None:
        """Withdraw a message for the operator, without the token of its sender.

        Raises Refused `receipt.unknown`, `inbox.settled`.
        """
        await self._messages.withdraw(address, message_id)

    async def send(
        self,
        rate: RateLimit,
        address: str,
        new: NewInboxMessage,
        proof: InboxProof,
        idempotency: IdempotencyKey | None,
        wait: float = 0,
    ) -> tuple[SentInboxMessage, bool]:
        """Send a message and wait up to `wait` seconds until it is settled. The second value is True for a replay.

        Raises Invalid, Refused `inbox.unknown`, `inbox.policy`, `inbox.full`, `limit.exceeded`, `idempotency.conflict`,
        `idempotency.short`, `signature.replayed`.
        """
        sending = Sending.of(address, new, proof, idempotency)
        if wait:
            sent, receipt = await self._messages.call(sending, rate, wait)
        else:
            sent, receipt = await self._messages.send(sending, rate), None
        if sent.replayed_at and idempotency:
            idempotency.check_token(*sent.replayed_at)
        return self._sent(address, sent, receipt), sent.replayed_at is not None

    async def read(self, address: str, query: InboxPageQuery, proof: InboxProof) -> InboxPage:
        """Return unsettled messages to the owner, waiting for one if asked to. Raises as `read_on` does."""
        return (await self.read_on(address, query, proof))[0]

    async def read_on(self, address: str, query: InboxPageQuery, proof: InboxProof) -> tuple[InboxPage, int | None]:
        """Return what `read` does, and the number of the newest message ever sent; None if another page may follow.

        A message that cannot be decoded is left out of its page but counts towards the page's limit.

        Raises Refused `inbox.unknown`, `inbox.proof`, `inbox.token`.
        """
        owner = await self._owner(address, proof)
        page = await self._messages.read_waiting(owner, query.since_seq, query.limit, query.wait)
        # A reader ahead of the inbox has seen messages that a failover lost; it continues from the present end.
        seen = page.messages[-1].seq if page.messages else min(query.since_seq, page.last_seq)
        oldest_at = timestamp(page.oldest_at) if page.oldest_at else None
        messages = show_each((((address, each.seq), each) for each in page.messages), lambda _, held: message_of(held))
        shown = InboxPage(list(messages.values()), seen, page.waiting, page.size, oldest_at, page.epoch)
        more_may_follow = len(page.messages) == query.limit and seen < page.last_seq
        return shown, None if more_may_follow else page.last_seq

    async def require_owner(self, address: str, proof: InboxProof) -> None:
        """Raise unless the request has the inbox_token or is signed by the key of the address.

        Raises Refused `inbox.unknown`, `inbox.proof`, `inbox.token`.
        """
        owner = await self._owner(address, proof)
        await self._messages.read(owner, 0, 0)  # the script refuses a token that a rotation has ended

    async def settle(
        self, address: str, message_id: str, settlement: Settlement, proof: InboxProof
    ) -> tuple[SettledMessage, bool]:
        """Settle a message; the second value says whether it was settled in the same way before.

        Raises Invalid, Refused `inbox.unknown`, `inbox.proof`, `inbox.token`, `receipt.unknown`, `inbox.settled`.
        """
        fields = reply_fields(settlement)
        owner = await self._owner(address, proof)
        ids.require_id(message_id, "receipt.unknown")
        seq, settled_at, is_repeated = await self._messages.settle(owner, message_id, settlement.status, fields)
        return SettledMessage(message_id, seq, settlement.status, timestamp(settled_at)), is_repeated

    async def settle_through(self, address: str, through: int, proof: InboxProof) -> SettledThrough:
        """Settle all messages up to a number as done. Raises Refused `inbox.unknown`, `inbox.proof`, `inbox.token`."""
        owner = await self._owner(address, proof)
        return SettledThrough(through, await self._messages.settle_through(owner, through))

    async def receipt(self, address: str, message_id: str, query: ReceiptQuery, proof: InboxProof) -> Receipt:
        """Return the receipt of a message to its sender or the owner, waiting for another status if asked to.

        Raises Refused `inbox.unknown`, `inbox.proof`, `inbox.token`, `receipt.unknown`.
        """
        _require_address(address)
        ids.require_id(message_id, "receipt.unknown")
        owner = None
        if not self._tokens.is_sender(address, message_id, proof.token):
            owner = await self._owner(address, proof)
        found = await self._receipts.wait(address, message_id, query.wait, another_status(query.status))
        if found is None:
            raise Refused("receipt.unknown")
        if owner and owner.proven_by not in (BY_KEY, found.epoch):
            raise Refused("inbox.token")
        return receipt_of(message_id, found)

    async def withdraw(self, address: str, message_id: str, proof: InboxProof) -> SettledMessage:
        """Withdraw a message for its sender. Idempotent.

        Raises Refused `inbox.unknown`, `inbox.proof`, `receipt.token`, `receipt.unknown`, `inbox.settled`.
        """
        _require_address(address)
        ids.require_id(message_id, "receipt.unknown")
        if proof.token is None:
            raise Refused("inbox.proof")
        if not self._tokens.is_sender(address, message_id, proof.token):
            raise Refused("receipt.token")
        seq, settled_at = await self._messages.withdraw(address, message_id)
        return SettledMessage(message_id, seq, "withdrawn", timestamp(settled_at))

    async def _owner(self, address: str, proof: InboxProof) -> Owner:
        """Return the owner of this inbox if the request's token or signature proves it.

        Raises Refused `inbox.unknown`, `inbox.proof` without credentials, `inbox.token` if they are wrong.
        """
        _require_address(address)
        if proof.signer == address:
            return Owner(address, BY_KEY, proof.replay_id)
        named, epoch = self._tokens.owner_of(proof.token) or ("", "")
        if named == address:
            return Owner(address, epoch, proof.replay_id)
        if not await self._store.exists(address):
            raise Refused("inbox.unknown")
        raise Refused("inbox.token" if proof.token is not None or proof.signer else "inbox.proof")

    def _sent(self, address: str, sent: AcceptedMessage, receipt: StoredReceipt | None) -> SentInboxMessage:
        answer = answer_of(sent.id, receipt) if receipt else None
        plain = Answer(id=sent.id, seq=sent.seq, status="queued", expires_at=timestamp(sent.expires_at))
        return SentInboxMessage(
            **msgspec.structs.asdict(answer or plain),
            receipt_token=self._tokens.receipt_token(address, sent.id),
            receipt_url=f"{self._base}{address}/messages/{sent.id}",
        )


def _policy(fields: Mapping[str, str]) -> SenderPolicy:
    return cast("SenderPolicy", fields.get("policy", "open"))


def _require_address(address: str) -> None:
    if not ids.is_address(address):
        raise Refused("inbox.unknown")
