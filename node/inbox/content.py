"""Checks what a request wants an inbox or a message to be, and turns it into what is kept.

Bodies are private, so nobody judges their language. As elsewhere, short texts with hidden characters are refused, and
long ones are kept without them. What is encrypted is kept as it is.
"""

from base64 import b64decode
from functools import partial
from typing import Any, cast

import msgspec

from node.common.refusal import Invalid
from node.inbox.model import (
    BODY_BYTES,
    CARD_BYTES,
    MONTH,
    USUAL_LIFE_SECONDS,
    InboxContent,
    InboxProof,
    NewInbox,
    NewInboxMessage,
    NewTurn,
    Settlement,
)
from node.store import ids
from node.store.idempotency import IdempotencyKey
from node.text.faults import require_all
from node.text.lines import require_line, require_name, require_text
from node.text.readable import readable


def inbox_fields(wanted: NewInbox) -> dict[str, str]:
    """The fields of an inbox that a request names, without its callback; a value is empty if none is wanted.

    Raises Invalid.
    """
    card = msgspec.json.encode(_readable_texts(msgspec.to_builtins(wanted.card))).decode() if wanted.card else ""
    require_all(
        lambda: require_line("label", wanted.label or ""),
        lambda: _require_card(card),
        *(partial(require_line, "card", skill.id) for skill in (wanted.card.skills if wanted.card else ())),
    )
    fields = (
        (wanted.label, "label", wanted.label or ""),
        (wanted.description, "description", readable(wanted.description or "")),
        (wanted.policy, "policy", wanted.policy or "open"),
        (wanted.contacts, "contacts", " ".join(dict.fromkeys(wanted.contacts or ()))),
        (wanted.encryption_key, "encryption_key", wanted.encryption_key or ""),
        (wanted.card, "card", card),
        (wanted.ttl_seconds, "ttl", str((wanted.ttl_seconds or USUAL_LIFE_SECONDS) * 1000)),
    )
    return {name: kept for given, name, kept in fields if given is not msgspec.UNSET}


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
            text=_message_text(new, proof.signer),
            lasts_ms=(new.expires_in or MONTH) * 1000,
            signer=proof.signer,
            replay_id=proof.replay_id,
            idempotency=idempotency,
            turn=turn,
        )


def _message_text(new: NewInboxMessage, signer: str) -> bytes:
    """A message as the owner reads it. `signer` is the thumbprint of its key, empty if it is not signed.

    Raises Invalid.
    """
    body = None if new.body is None else readable(new.body)
    require_all(
        lambda: _require_size("body", new.body),
        lambda: _require_either("body", body, "ciphertext", new.ciphertext, is_needed=True),
        lambda: require_line("subject", new.subject or ""),
        lambda: require_line("thread", new.thread or ""),
        lambda: require_name("author", new.author or ""),
    )
    content = InboxContent(
        body=body,
        ciphertext=new.ciphertext,
        subject=new.subject or None,
        author=new.author or None,
        signer=signer or None,
        reply_to=new.reply_to,
        reply_to_proven=new.reply_to is not None and new.reply_to == signer,
        in_reply_to=new.in_reply_to,
        thread=new.thread or None,
        artifact_ids=new.artifact_ids,
    )
    return msgspec.json.encode(content)


def reply_fields(settlement: Settlement) -> list[str]:
    """What a receipt keeps of an owner's answer: name, value, ... Raises Invalid."""
    reply = None if settlement.reply is None else readable(settlement.reply)
    _require_size("reply", settlement.reply)
    _require_either("reply", reply, "reply_ciphertext", settlement.reply_ciphertext, is_needed=False)
    kept = {
        "reply": reply,
        "reply_ciphertext": settlement.reply_ciphertext,
        "artifact_ids": " ".join(settlement.artifact_ids),
    }
    return [part for name, value in kept.items() if value for part in (name, value)]


def _require_size(field: str, text: str | None) -> None:
    if text is not None and len(text.encode()) > BODY_BYTES:
        raise Invalid.field("body", field, msg=f"must have at most {BODY_BYTES} bytes of UTF-8")


def _require_either(field: str, text: str | None, sealed_field: str, sealed: str | None, *, is_needed: bool) -> None:
    """Raise Invalid unless there is a text that shows something or a ciphertext, but not both."""
    if (text is not None and sealed is not None) or (is_needed and text is None and sealed is None):
        raise Invalid.field("body", field, msg=f"give either {field} or {sealed_field}")
    if text is not None:
        require_text(field, text)
    try:
        b64decode(sealed or "", validate=True)
    except ValueError:
        raise Invalid.field("body", sealed_field, msg="is not base64 with padding") from None


def _readable_texts(value: Any) -> Any:
    """The value with all texts in it made readable: JSON hides control characters behind escapes."""
    match value:
        case str():
            return readable(value)
        case list():
            return [_readable_texts(each) for each in cast("list[Any]", value)]
        case dict():
            return {name: _readable_texts(each) for name, each in cast("dict[str, Any]", value).items()}
        case _:
            return value


def _require_card(text: str) -> None:
    if len(text.encode()) > CARD_BYTES:
        raise Invalid.field("body", "card", msg=f"name, description and skills have at most {CARD_BYTES} bytes")
