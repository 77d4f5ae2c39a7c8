"""The rules of the relay: which messages pass, what the board shows of them, how they are acknowledged (SPEC 4.1)."""

from typing import Any, cast

import msgspec
import orjson

from node.callbacks.target_check import TargetCheck
from node.common.canonical_json import canonical
from node.common.refusal import Invalid, Issue, Refused
from node.common.repeated_names import repeats_a_name
from node.common.timestamps import timestamp
from node.config import Settings
from node.relay.model import Acknowledgement, Buffered, Payload
from node.relay.store import RelayStore
from node.relay.via import has_passed
from node.store import ids
from node.store.idempotency import IdempotencyKey
from node.store.limits import RateLimit
from node.text.english import MAX_WHOLE_CHARACTERS, is_english
from node.text.lines import mixes_alphabets
from node.text.payload import displayable, foreign_field, may_be_shown, payload_is_english, text_payload_is_english
from node.text.readable import first_sentence, readable

TITLE_LENGTH = 120
LOOKED_AT = 8 * TITLE_LENGTH
"""Characters of an author's name that are read to find the TITLE_LENGTH characters that are shown."""

BODY_LENGTH = 20_000
"""Most characters of a message that its thread shows; the whole payload stays readable by id."""

NOT_SHOWN = ("callback_url", "language")
"""Fields of a payload that are instructions to the node and not part of the message."""

_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])

TYPED_FIELDS = {"callback_url": str, "hello": str, "language": str, "message": str, "public": bool}
"""Fields of a payload that must have a certain type (SPEC 2.1); all others may have any type."""

AUTHOR_FIELDS = ("author", "agent")
"""Fields of a payload of which the first one that is a string, and not empty, is shown as the author of its thread."""


class Relay:
    """The service behind POST /api/v1/relay and /api/v1/wire/stream."""

    def __init__(self, store: RelayStore, settings: Settings, targets: TargetCheck) -> None:
        self._store = store
        self._settings = settings
        self._targets = targets
        self._threads = f"{settings.public_url}/api/v1/board/threads/"

    def judge_object(self, raw: bytes, value: object) -> Payload:
        """Judge a JSON payload. Raises Invalid, Refused `language.not_english`."""
        if not isinstance(value, dict):
            raise Invalid.field("body", msg="body must be a JSON object", kind="dict_type")
        fields = cast("dict[str, Any]", value)
        _check_types(fields)
        if fields.get("language") not in (None, "en-US"):
            raise Refused("language.not_english", field="language")
        if not payload_is_english(fields):
            raise Refused("language.not_english", field=foreign_field(fields))
        url = fields.get("callback_url")
        if url is not None:
            self._targets.check(url)
        text = "" if fields.get("public") is False else _shown(fields)
        return Payload(
            raw=raw,
            canonical=canonical(raw, fields),
            is_json=True,
            text=text,
            author=_author(fields),
            public=bool(text),
            callback_url=url,
        )

    def judge_text(self, raw: bytes, *, public: bool) -> Payload:
        """Judge a text payload. Raises Invalid, Refused `body.binary`, `language.not_english`."""
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError:
            raise Refused("body.binary") from None
        readable_part = _readable_part(text)
        if not readable_part:
            raise Invalid.field("body", msg="body is empty", kind="missing")
        if not text_payload_is_english(text):
            raise Refused("language.not_english", field="the text")
        shown = ""
        if public:
            shown = _presented(text, readable_part) if may_be_shown(text) else _presented_strings(text)
        return Payload(
            raw=raw, canonical=raw, is_json=False, text=shown, author=None, public=bool(shown), callback_url=None
        )

    async def accept(
        self, rate: RateLimit, payload: Payload, idempotency: IdempotencyKey | None
    ) -> tuple[Acknowledgement | None, bool]:
        """Keep a message and acknowledge it (SPEC 2.2). The acknowledgement is None for a loop of equal messages, which
        is silenced.

        The second value says whether an earlier acknowledgement was replayed. Raises Refused `limit.exceeded`,
        `idempotency.conflict`, StoreUnavailable.
        """
        ttl_ms = 0 if payload.public else self._settings.buffer_ttl * 1000
        fields = _thread_fields(payload) if payload.public else ["payload", payload.raw]
        if payload.is_json:
            fields += ["json", "1"]
        if payload.public and payload.callback_url:
            kept = self._targets.kept(payload.callback_url, rate.client)
            fields += [part for pair in kept.items() for part in pair]
        # The same bytes as text and as JSON are two different payloads.
        payload_digest = ids.digest(f"{'json' if payload.is_json else 'text'}:{rate.client}", payload.canonical)
        message_id, replayed = await self._store.accept(rate, payload_digest, idempotency, ttl_ms, fields)
        if message_id is None:
            return None, False
        url = self._threads + message_id if payload.public else msgspec.UNSET
        return Acknowledgement("acknowledged", self._settings.node_id, message_id, url), replayed

    def is_own_echo(self, via: str | None, *, is_callback: bool) -> bool:
        """Return whether the message has passed this node before, or is a callback: a loop between nodes.

        `via`: the Via header, with its lines joined by commas.
        """
        return is_callback or (via is not None and has_passed(via, self._settings.node_id))

    async def read(self, message_id: str) -> Buffered:
        """Return a message. Raises Refused `relay.unknown`, StoreUnavailable."""
        ids.require_id(message_id, "relay.unknown")
        stored = await self._store.read(message_id)
        if stored is None or stored.is_hidden:
            raise Refused("relay.unknown")
        is_public = stored.ttl_ms is None
        return Buffered(
            id=message_id,
            received_at=timestamp(stored.received_at),
            expires_at=None if stored.ttl_ms is None else timestamp(stored.received_at + stored.ttl_ms),
            payload=_object_of(stored.raw, is_public=is_public) if stored.is_json else stored.raw.decode(),
        )


def _object_of(raw: bytes, *, is_public: bool) -> msgspec.Raw:
    """Return a JSON payload as it was sent. A public payload, whose id everybody knows, is returned without its
    callback_url.

    If a name occurs twice in an object, only the last value was judged, so the others are removed.
    """
    value = orjson.loads(raw)  # not by msgspec, which takes 25 µs for a number like 1e300
    if repeats_a_name(raw, value):
        raw = msgspec.json.encode(value)
    if not is_public:
        return msgspec.Raw(raw)
    members = _MEMBERS.decode(raw)
    if members.pop("callback_url", None) is None:
        return msgspec.Raw(raw)
    return msgspec.Raw(msgspec.json.encode(members))


def _check_types(fields: dict[str, Any]) -> None:
    issues: list[Issue] = []
    for name, kind in TYPED_FIELDS.items():
        value = fields.get(name)
        if value is not None and not isinstance(value, kind):
            issues.append(Issue(("body", name), f"Expected {kind.__name__}", "type_error"))
    if issues:
        raise Invalid(issues)


def _author(fields: dict[str, Any]) -> str | None:
    for name in AUTHOR_FIELDS:
        value = fields.get(name)
        if value and isinstance(value, str):
            return value
    return None


def _shown(fields: dict[str, Any]) -> str:
    """Return the text to show of a payload that has passed: its message, its hello, or its other strings."""
    for name in ("message", "hello"):
        text: str = fields.get(name) or ""
        readable_part = _readable_part(text)
        if readable_part:
            if may_be_shown(text):
                return _presented(text, readable_part)
            break
    # Replaced by None and not removed: only some of many members are judged, and the same ones must be shown.
    return _presented_strings({**fields, **{name: None for name in NOT_SHOWN if name in fields}})


def _presented(text: str, readable_part: str) -> str:
    """Return the text to show of a text that has passed as a whole: its readable part, which must pass by itself if it
    is not the whole text; otherwise empty."""
    return readable_part if readable_part == text.strip() or is_english(readable_part) else ""


def _presented_strings(value: object) -> str:
    """Return the text to show of the strings in a value that has passed. A long text must also pass by itself, since
    only samples of many fields were judged."""
    text = displayable(value)
    readable_part = _readable_part(text)
    if len(readable_part) <= MAX_WHOLE_CHARACTERS:
        return _presented(text, readable_part)
    return readable_part if is_english(readable_part) else ""


def _readable_part(text: str) -> str:
    """Return the readable characters among the first BODY_LENGTH of a text, even if these are few. To remove the
    invisible characters from a whole payload would cost ten times as much as to judge it."""
    return readable(text.strip()[:BODY_LENGTH]).strip()


def _thread_fields(payload: Payload) -> list[str | bytes]:
    text = payload.text
    fields: list[str | bytes] = ["title", first_sentence(text, TITLE_LENGTH) or "Untitled message", "body", text]
    author = " ".join(readable((payload.author or "")[:LOOKED_AT]).split())[:TITLE_LENGTH]
    if author and not mixes_alphabets(author):
        fields += ["author", author]
    if payload.is_json or text.encode() != payload.raw:
        fields += ["payload", payload.raw]
    return fields
