"""A message on its way into an inbox."""

import msgspec

from node.inbox.content import message_text
from node.inbox.model import MONTH, InboxProof, NewInboxMessage, NewTurn
from node.store import ids
from node.store.idempotency import IdempotencyKey


class Sending(msgspec.Struct, frozen=True, kw_only=True):
    """A message that is to be sent."""

    address: str
    id: str
    """It cannot be guessed."""
    text: bytes
    """What the owner reads."""
    lasts_ms: int
    signer: str
    replay_id: str
    idempotency: IdempotencyKey | None
    turn: NewTurn | None
    """What it adds to a task, if it belongs to one."""

    @property
    def task_id(self) -> str:
        """The id of the first message of its task, which may be this one; empty if it belongs to none."""
        return (self.turn.task or self.id) if self.turn else ""

    @classmethod
    def of(
        cls,
        address: str,
        new: NewInboxMessage,
        proof: InboxProof,
        idempotency: IdempotencyKey | None,
        turn: NewTurn | None = None,
    ) -> "Sending":
        """What a request asks to send. Raises Invalid."""
        return cls(
            address=address,
            id=ids.unlisted_id(ids.partition_of(address)),
            text=message_text(new, proof.signer),
            lasts_ms=(new.expires_in or MONTH) * 1000,
            signer=proof.signer,
            replay_id=proof.replay_id,
            idempotency=idempotency,
            turn=turn,
        )
