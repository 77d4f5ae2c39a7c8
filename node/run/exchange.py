"""Export and import: threads, replies, contracts and the manifests of artifacts as records, one JSON object a line.

Ids stay the same, and an id names its partition on every node, so the two nodes need not be alike otherwise. A record
that the importing node already has is left as it is, so an import may be repeated. This code reads and writes the
entities of several features, so it belongs to none of them.
"""

import zlib
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Literal

import msgspec

from node import VERSION
from node.board.record import THREAD_FIELDS, reply_of, thread_of
from node.board.store import LISTS
from node.sign.proof import Proof
from node.store import CommandFailed, Store, ids, keys
from node.store.decoding import code_of, entries_of, fields_of, flat_of
from node.store.steps import Key, Rest, step
from node.tasks.compaction import unpack
from node.tasks.model import MAX_REVIEW_SECONDS, OVER, STATUSES
from node.tasks.result_schema import require_stored
from node.tasks.schema_cost import SchemaFault
from node.tasks.steps import ContractKeys
from node.tasks.view import ChangeLog, StoredTask, task_of

FORMAT = "relay-node-export"
FORMAT_VERSION = 1

MAX_SEQ = 2**53
"""Largest number of a reply or an attempt. Larger numbers are not exact in Lua."""

AT_ONCE = 200
"""Entities, or replies of a thread, that are read together."""

CONTRACTS_AT_ONCE = 8
"""Contracts that are read together; each may have a result of a megabyte."""

LOCAL_FIELDS = {"callback_url", "callback_by", "reported"}
"""Fields that are neither exported nor imported: a callback was agreed with the exporting node alone, and only that
node has the reports."""

UNREADABLE = (msgspec.DecodeError, ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""Exceptions for a record that is not as this node would have written it. The file may come from anywhere."""

CLAIM_FIELDS = {
    "assignee_id",
    "claimed_at",
    "lease_expires_at",
    "claim",
    "submitted_at",
    "review_ends_at",
    "result_payload",
}
"""Fields of a contract that are imported only if the contract is over: one under review would otherwise complete by
itself."""

TIMER_FIELDS = {"lease_expires_at", "review_ends_at", "retry_at"}
"""Fields of a contract that are not imported if the contract is over, since time no longer changes it."""

Value = str | dict[str, str]
"""The value of a field: text, or `{"base64": …}` if it is not UTF-8."""


@step
def thread_import(*, thread: Key, replies: Key, events: Key, thread_id: str, last: int, fields: Rest) -> None:
    """Store a thread of another node, unless this node already has it."""


@step
def task_import(*, contract: ContractKeys, packed: Key, over: int, fields: Rest) -> None:
    """Store a contract of another node, unless this node already has it. `over`: 1 if nothing changes it any more."""


class ExportHeader(msgspec.Struct, frozen=True):
    """The first line of an export."""

    format: str
    version: int
    node_id: str
    relay_node: str
    created_at: str


class ExportedRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line of an export after the first."""

    kind: Literal["thread", "reply", "task", "artifact"]
    id: str
    fields: dict[str, Value]
    seq: int = 0
    """Number of a reply, whose `id` is that of its thread; 0 for all other records."""


class ExchangeError(Exception):
    """Something cannot be exported or imported; the message says why."""


def header_of(node_id: str) -> ExportHeader:
    """Return the header of an export that begins now."""
    return ExportHeader(FORMAT, FORMAT_VERSION, node_id, VERSION, datetime.now(UTC).isoformat(timespec="seconds"))


async def records(store: Store) -> AsyncIterator[ExportedRecord]:
    """Yield everything that is exported; a thread comes after its replies. Raises ExchangeError, StoreUnavailable.

    Entities are found by the names of their keys, which do not change. Reading lists instead could miss an entity that
    moves from one list to another meanwhile. A contract that is compacted meanwhile comes with the compacted ones.
    """
    async for thread_id, fields in _entities(store, "thread"):
        async for reply in _replies(store, thread_id):
            yield reply
        yield ExportedRecord("thread", thread_id, _shown(fields))
    for kind in ("task", "packed"):
        async for task_id, fields in _entities(store, kind, CONTRACTS_AT_ONCE):
            if fields.get(b"kind") == b"contract":
                yield ExportedRecord("task", task_id, _shown(fields))
    async for artifact_id, fields in _entities(store, "artifact"):
        yield ExportedRecord("artifact", artifact_id, _shown(fields))


def read_header(line: bytes) -> ExportHeader:
    """Decode the first line of an export. Raises ExchangeError."""
    try:
        header = msgspec.json.decode(line, type=ExportHeader)
    except ValueError as error:  # DecodeError of msgspec, or UnicodeDecodeError
        raise ExchangeError("this is not an export of a relay node: its first line is not a header") from error
    if header.format != FORMAT or header.version != FORMAT_VERSION:
        raise ExchangeError(f"this is {header.format} {header.version}; this version reads {FORMAT} {FORMAT_VERSION}")
    return header


async def import_line(store: Store, line: bytes, number: int) -> tuple[str, str]:
    """Import a line. Return its kind, and `imported`, `known` or `skipped`. Raises ExchangeError, StoreUnavailable."""
    try:
        record = msgspec.json.decode(line, type=ExportedRecord)
        if not ids.is_id(record.id):
            raise ExchangeError(f"line {number} has no valid id")
        fields = {name: _bytes(value) for name, value in record.fields.items() if name not in LOCAL_FIELDS}
        _check(record, fields)
    except UNREADABLE as error:
        raise ExchangeError(f"line {number} is not a valid record: {type(error).__name__} {error}") from error
    match record.kind:
        case "reply":
            return "reply", await _import_reply(store, record, fields)
        case "thread":
            importing = thread_import(
                thread=keys.thread(record.id),
                replies=keys.replies(record.id),
                events=keys.events_of(record.id),
                thread_id=record.id,
                last=int(fields.get("reply_count", 0)),
                fields=flat_of(fields),
            )
        case "task":
            is_over = fields.get("status", b"").decode() in (*OVER, "failed")
            left_out = TIMER_FIELDS if is_over else CLAIM_FIELDS
            kept = {name: each for name, each in fields.items() if name not in left_out}
            importing = task_import(
                contract=ContractKeys.of(record.id),
                packed=keys.packed(record.id),
                over=int(is_over),
                fields=flat_of(kept),
            )
        case _:
            return record.kind, "skipped"
    return record.kind, code_of(await store.run(importing))


def _check(record: ExportedRecord, fields: dict[str, bytes]) -> None:
    """Raise one of UNREADABLE for a record that this node could not show or change.

    Every list that contained such a record would fail.
    """
    named = {name.encode(): value for name, value in fields.items()}
    if "signature" in fields:
        msgspec.json.decode(fields["signature"], type=Proof)
    match record.kind:
        case "reply":
            if not 1 <= record.seq <= MAX_SEQ:
                raise ValueError("seq is not the number of a reply")
            reply_of(record.id, f"0-{record.seq}", named)
        case "thread":
            thread = thread_of(record.id, [fields.get(name) for name in THREAD_FIELDS])
            if thread is None or thread.status not in LISTS or not 0 <= thread.last_seq <= MAX_SEQ:
                raise ValueError("not a thread with a known status and number of replies")
        case "task":
            row = StoredTask(0, named | {b"more": b"1"})  # `more`, so that every field is decoded
            if row.status not in STATUSES or not row.is_contract:
                raise ValueError("not a contract with a known status")
            msgspec.json.decode(msgspec.json.encode(task_of(record.id, "", row)))
            if row.status not in OVER and b"result_schema" in named:
                _require_schema(named[b"result_schema"])
            # The steps go on counting from these numbers, and add these times to others; readers must be able to show
            # the results.
            counts = [b"%d" % ChangeLog.of(named).count, *(named.get(name, b"0") for name in (b"attempt", b"failures"))]
            times = [named.get(name, b"0") for name in (b"lease_ms", b"retry_ms", b"review_ms")]
            if not all(each.isdigit() for each in (*counts, *times)):
                raise ValueError("a count or duration is not a number")
            if max(map(int, counts)) > MAX_SEQ or max(map(int, times)) > MAX_REVIEW_SECONDS * 1000:
                raise ValueError("a count or duration is too large")
        case _:
            pass


def _require_schema(schema: bytes) -> None:
    """Raise ValueError for a result_schema with which nobody could complete the contract here."""
    try:
        require_stored(schema)
    except SchemaFault as fault:
        raise ValueError(f"result_schema {fault.message}") from None


async def _import_reply(store: Store, record: ExportedRecord, fields: dict[str, bytes]) -> str:
    """Import a reply; its thread comes later in the file.

    If the thread is here already, its reply with that number may be a different one, so nothing is imported.
    """
    if await store.command("EXISTS", keys.thread(record.id)):
        return "known"
    try:
        await store.command("XADD", keys.replies(record.id), f"0-{record.seq}", *flat_of(fields))
    except CommandFailed as failed:
        if "equal or smaller" not in str(failed):
            raise
        return "known"  # from an interrupted import
    return "imported"


async def _entities(
    store: Store, kind: keys.EntityKind, at_once: int = AT_ONCE
) -> AsyncIterator[tuple[str, dict[bytes, bytes]]]:
    """Yield id and fields of all entities of a kind; a compacted contract is unpacked. Some may come twice."""
    command = "GET" if kind == "packed" else "HGETALL"
    async for names in store.names(keys.pattern(kind)):
        for start in range(0, len(names), at_once):
            some = names[start : start + at_once]
            for name, found in zip(some, await store.run_all([(command, each) for each in some]), strict=True):
                entity = name.rpartition(":")[2]
                if fields := _unpacked(entity, found) if isinstance(found, bytes) else fields_of(found):
                    yield entity, fields


def _unpacked(task_id: str, packed: bytes) -> dict[bytes, bytes]:
    try:
        return unpack(packed)
    except (*UNREADABLE, zlib.error) as error:
        how = f"remove it with `relay-node admin tasks purge {task_id}`"
        raise ExchangeError(f"contract {task_id} is damaged ({error}): {how}") from error


async def _replies(store: Store, thread_id: str) -> AsyncIterator[ExportedRecord]:
    after = "-"
    while True:
        found = await store.command("XRANGE", keys.replies(thread_id), after, "+", "COUNT", AT_ONCE)
        entries = entries_of(found)
        for entry, fields in entries:
            yield ExportedRecord("reply", thread_id, _shown(fields), int(entry[2:]))
        if len(entries) < AT_ONCE:
            return
        after = f"({entries[-1][0]}"


def _shown(fields: dict[bytes, bytes]) -> dict[str, Value]:
    named = {name.decode(): value for name, value in fields.items()}
    return {name: _text(value) for name, value in named.items() if name not in LOCAL_FIELDS}


def _text(value: bytes) -> Value:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(value).decode()}


def _bytes(value: Value) -> bytes:
    return value.encode() if isinstance(value, str) else b64decode(value["base64"])
