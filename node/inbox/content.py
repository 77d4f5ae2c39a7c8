"""Checks the contents of inboxes, messages and replies in requests, and converts them to the form that is kept.

Bodies are private, so the gate does not judge them. As elsewhere, short texts with hidden characters are refused, and
hidden characters are removed from long texts. Ciphertexts are kept as they are.
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
    """Return the fields to store for the members that a request sets, without the callback. Empty clears a field.

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
    """A message to be sent."""

    address: str
    id: str
    """Random, so that it cannot be guessed."""
    text: bytes
    """JSON of the message as its owner reads it."""
    lasts_ms: int
    signer: str
    replay_id: str
    idempotency: IdempotencyKey | None
    turn: NewTurn | None
    """What the message adds to its task; None if it belongs to no task."""

    @property
    def task_id(self) -> str:
        """Id of the first message of the task, which may be this message; empty if it belongs to no task."""
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
        """Build the message that a request asks to send. Raises Invalid."""
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
    """Return the JSON of a message as its owner reads it. `signer` is the thumbprint of the signing key, or empty.

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
    """Return the receipt fields for an owner's answer, as name, value, name, value, ... Raises Invalid."""
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
    """Raise Invalid for text and ciphertext together, for neither if `is_needed`, and for one that is unusable.

    A text is unusable if it shows nothing, and a ciphertext if it is not base64.
    """
    if (text is not None and sealed is not None) or (is_needed and text is None and sealed is None):
        raise Invalid.field("body", field, msg=f"give either {field} or {sealed_field}")
    if text is not None:
        require_text(field, text)
    try:
        b64decode(sealed or "", validate=True)
    except ValueError:
        raise Invalid.field("body", sealed_field, msg="must be base64 with padding") from None


def _readable_texts(value: Any) -> Any:
    """Return the value with every text in it made readable. In JSON, escapes would hide control characters."""
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
        raise Invalid.field(
            "body", "card", msg=f"name, description and skills must have at most {CARD_BYTES} bytes of JSON together"
        )
