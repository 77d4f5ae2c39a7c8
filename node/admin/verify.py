"""`relay-node verify <url | file>`: checks that posts are what their signers signed, whichever node shows them.

It reads the record of a thread with its replies, or of a task, as any reader gets it. The proof in a record
names the key, the request and the signed body. The record must show that body, and the request must be one that
creates such a record. Who owns the key is not checked: only somebody who knows the signer can do that.

A proof may come without the signed body: the node withholds a body that contains a callback address or a key. Such a
proof shows who signed a request of that kind, but neither proves nor disproves what the post says.
"""

import argparse
import asyncio
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, cast
from urllib.parse import urlsplit

import msgspec

from node.admin.commands import Commands
from node.admin.fetch import FetchFailed, fetch
from node.admin.terminal import as_json, one_line
from node.common.timestamps import timestamp
from node.config import Settings
from node.sign.proof import Proof, ProofInvalid, Proven, SignatureWithheld, verify_proof
from node.text.readable import readable

PAGE_REPLIES = 20
"""Replies requested at a time: 3 MB if they are as long as possible."""

MAX_REPLIES = 5000
"""A thread with this many replies or more is not verified."""

FALSE, WITHHELD, UNREADABLE = 1, 3, 4
"""Exit statuses. FALSE: a post is not what was signed. WITHHELD: no post is false, but at least one cannot be checked;
this has its own status so that no script takes a withheld body for a verified one. UNREADABLE: there is no record to
judge, for instance because nobody answers. A wrong command line exits with 2.
"""

_PAGE = re.compile(
    r"(?P<node>https?://[^/?#]+(?:/[^?#]*?)??)(?:/api/v1)?/(?P<kind>board|tasks)(?:/threads)?/(?P<id>[^/?#]+)/?([?#].*)?"
)

Record = dict[str, Any]
Kind = Literal["thread", "reply", "task"]


class PostVerdict(msgspec.Struct, frozen=True, omit_defaults=True):
    """Result of the verification of one post."""

    kind: Kind
    id: str
    outcome: Literal["signed", "unsigned", "withheld", "false"]
    reason: str = ""
    """Why the post is false, or cannot be checked."""
    thumbprint: str = ""
    did: str = ""
    signed_at: str = ""
    """Time of the signature, by the signer's clock."""
    sent_to: str = ""
    """The address to which the signer sent the post."""

    def __str__(self) -> str:
        post = one_line(f"{self.kind} {self.id}")
        if self.outcome == "unsigned":
            return f"{post}: unsigned"
        if self.outcome == "false":
            return f"{post}: NOT what was signed: {one_line(self.reason)}"
        if self.outcome == "withheld":
            return f"{post}: cannot be checked: {self.reason}"
        return f"{post}: signed by {self.thumbprint} ({self.did}) at {self.signed_at} for {one_line(self.sent_to)}"


class NotShown(Exception):
    """The record lacks a signed field, which some records of the post leave out."""


def register(commands: Commands) -> None:
    parser = commands.add("verify", _run, "check the signatures of a thread and its replies, or of a task")
    parser.add_argument("source", metavar="URL|FILE", help="URL of the thread or task, or a file with its JSON")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(settings=Settings)  # the defaults: it asks another node, or reads a file


def verdict_of(kind: Kind, record: Record) -> PostVerdict:
    """Verify one post against its own proof."""
    post_id = str(record.get("id", "?"))
    signature = record.get("signature")
    if signature is None and not record.get("is_signed"):
        return PostVerdict(kind, post_id, "unsigned")
    try:
        proven = _proven(kind, record, signature)
    except (SignatureWithheld, NotShown) as withheld:
        return PostVerdict(kind, post_id, "withheld", str(withheld))
    except ProofInvalid as invalid:
        return PostVerdict(kind, post_id, "false", str(invalid))
    is_whole = proven.content is not None
    return PostVerdict(
        kind,
        post_id,
        "signed" if is_whole else "withheld",
        "" if is_whole else "the node withholds the signed body, as it contains a callback address or a key",
        thumbprint=proven.key.thumbprint,
        did=proven.key.did,
        signed_at=_time(proven.created),
        sent_to=proven.target,
    )


def posts_of(record: Record) -> Iterator[tuple[Kind, Record]]:
    """Yield the posts in a record: a thread and its replies, a reply, or a task. Raises ValueError if it has none."""
    if "publisher_id" in record:
        yield "task", record
    elif "title" in record:
        yield "thread", record
        for reply in _replies(record):
            # The reply must have been signed for the thread that shows it.
            yield "reply", reply | {"thread_id": record.get("id")}
    elif "thread_id" in record:
        yield "reply", record
    else:
        raise ValueError("it holds no thread, reply or task")


async def read(source: str) -> Record:
    """Return the record at a URL, with all replies, or in a file. Raises ValueError, which says what is wrong."""
    if "://" not in source:
        return _decoded(_file(source))
    url = api_url(source)
    if "/api/v1/board/threads/" not in url:
        return await _fetched(url)
    record = await _fetched(f"{url}?limit={PAGE_REPLIES}")
    replies = _replies(record)
    page = replies
    while len(page) == PAGE_REPLIES and len(replies) <= MAX_REPLIES:
        page = _replies(await _fetched(f"{url}?limit={PAGE_REPLIES}&since_seq={_seq(page[-1])}"))
        if page and _seq(page[0]) <= _seq(replies[-1]):
            raise ValueError("the replies do not come in order")
        replies = [*replies, *page]
    if len(replies) > MAX_REPLIES:
        raise ValueError(f"the thread has more than {MAX_REPLIES} replies: verify them from files")
    return record | {"replies": replies}


def api_url(source: str) -> str:
    """Return the address of the JSON record that a page shows; any other address is returned unchanged."""
    page = _PAGE.fullmatch(source)
    if page is None:
        return source
    collection = "board/threads" if page["kind"] == "board" else "tasks"
    return f"{page['node']}/api/v1/{collection}/{page['id']}"


def _proven(kind: Kind, record: Record, signature: object) -> Proven:
    """Verify the proof, and that it belongs to the record. Raises ProofInvalid, SignatureWithheld, NotShown."""
    try:
        proof = msgspec.convert(signature, Proof)
    except msgspec.ValidationError as error:
        raise ProofInvalid(f"the proof cannot be read: {error}") from error
    proven = verify_proof(proof)
    if not record.get("is_signed"):
        raise ProofInvalid("the record has a proof, but says that it is unsigned")
    _check_path(kind, record, proof)
    if proven.content is not None:
        _check_fields(kind, record, proven.content)
    elif "content-digest" not in dict(proof.components):
        raise ProofInvalid("the signature does not cover a body")
    return proven


def _check_path(kind: Kind, record: Record, proof: Proof) -> None:
    """Raise ProofInvalid if the signature is for another kind of post, or for a reply to another thread."""
    values = dict(proof.components)
    try:
        path = values.get("@path") or urlsplit(values.get("@target-uri", "")).path
    except ValueError as error:
        raise ProofInvalid("it was signed for an address that cannot be read") from error
    wanted = {
        "thread": "/api/v1/board",
        "reply": f"/api/v1/board/{record.get('thread_id')}/replies",
        "task": "/api/v1/tasks",
    }[kind]
    if not path.endswith(wanted):
        raise ProofInvalid(f"it was signed for {path or 'no place'}, which is not where a {kind} like this is sent")


def _check_fields(kind: Kind, record: Record, content: Mapping[str, object]) -> None:
    """Compare each field that the author wrote with the signed body. Raises ProofInvalid, NotShown."""
    for name, shown_of in FIELDS[kind].items():
        signed = shown_of(content.get(name))
        if signed and name in LEFT_OUT_OF_LISTS and name not in record:
            raise NotShown(f"the record has no {name}, as in a list of tasks")
        if record.get(name) != signed:
            raise ProofInvalid(f"the {name} is not what was signed")


def _text(signed: object) -> object:
    return readable(signed) if isinstance(signed, str) else signed


def _optional(signed: object) -> object:
    return _text(signed) or None


def _inputs(signed: object) -> object:
    return signed or []


def _as_signed(signed: object) -> object:
    return signed


def _skills(signed: object) -> object:
    try:
        return sorted({*msgspec.convert(signed, list[str])}) or None
    except msgspec.ValidationError:
        return signed


def _instant(signed: object) -> object:
    try:
        return timestamp(round(msgspec.convert(signed, datetime).timestamp() * 1000))
    except (msgspec.ValidationError, ValueError, OverflowError):  # not a time, or out of range
        return signed


FIELDS: dict[Kind, dict[str, Callable[[object], object]]] = {
    "thread": {"title": _text, "body": _text, "author": _optional},
    "reply": {"body": _text, "author": _optional},
    "task": {
        "publisher_id": _text,
        "title": _text,
        "description": _optional,
        "input_artifact_ids": _inputs,
        "lease_seconds": _as_signed,
        "skills": _skills,
        "max_attempts": _as_signed,
        "retry_seconds": _as_signed,
        "deadline": _instant,
        "review_seconds": _as_signed,
        "result_schema": _as_signed,
    },
}
"""For each signed field, a function that returns the value the record must show.

`require_proof` is not compared: a signed offer has it whatever its publisher asked for.
"""


LEFT_OUT_OF_LISTS = ("result_schema",)
"""Fields that records in a list leave out, so their absence proves nothing."""


def _run(_settings: Settings, given: argparse.Namespace) -> int:
    try:
        verdicts = [verdict_of(kind, record) for kind, record in posts_of(asyncio.run(read(given.source)))]
    except ValueError as error:
        sys.stderr.write(f"relay-node: {given.source}: {one_line(str(error))}\n")
        return UNREADABLE
    if given.json:
        sys.stdout.write(as_json(verdicts) + "\n")
    else:
        sys.stdout.writelines(f"{verdict}\n" for verdict in verdicts)
    outcomes = {verdict.outcome for verdict in verdicts}
    return FALSE if "false" in outcomes else WITHHELD if "withheld" in outcomes else 0


async def _fetched(url: str) -> Record:
    try:
        return _decoded(await fetch(url))
    except FetchFailed as failed:
        raise ValueError(str(failed)) from failed


def _decoded(data: bytes) -> Record:
    try:
        record: object = msgspec.json.decode(data)  # refuses lone surrogates, which could not be printed
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError("it is not JSON") from error
    if not isinstance(record, dict):
        raise ValueError("it holds no thread, reply or task")  # noqa: TRY004 - the data is wrong, not the program
    return cast("Record", record)


def _file(source: str) -> bytes:
    try:
        return Path(source).read_bytes()
    except OSError as error:
        raise ValueError(error.strerror or "it cannot be read") from error


def _replies(record: Record) -> list[Record]:
    replies: object = record.get("replies") or []
    if not isinstance(replies, list) or not all(isinstance(each, dict) for each in cast("list[object]", replies)):
        raise ValueError("its replies cannot be read")
    return cast("list[Record]", replies)


def _seq(reply: Record) -> int:
    seq = reply.get("seq")
    if not isinstance(seq, int):
        raise ValueError("a reply has no seq")  # noqa: TRY004 - the data is wrong, not the program
    return seq


def _time(created: int) -> str:
    try:
        return timestamp(created * 1000)
    except (ValueError, OverflowError, OSError):
        return "an unknown time"
