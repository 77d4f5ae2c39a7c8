"""Compacted contracts: one compressed string with everything that the hash of a contract held, byte for byte.

The string is one byte that names the format, then a MessagePack list: the fields of `FIELDS` in that order, and a map
of all other fields if there are any. In format 1 the list is deflated with a dictionary of texts that most contracts
share. In format 0, for contracts that deflating would make longer, it is not deflated. The order of the fields and the
dictionary belong to the format: a change of either requires a new number, and the old number must stay readable.

Reading a contract's status should not require fetching a result of a megabyte. So a string of format 1 may be followed
by a head: a copy of the contract without its result, as a string of its own; then the length of that copy (4 bytes; 0 =
the contract is small enough to need none), and a mark. A reader fetches the end of a string first. Inflating stops
where the deflated list ends, so versions that do not know heads can read such strings, too.
"""

import zlib
from collections.abc import Mapping
from typing import cast

import msgspec

PLAIN = b"\x00"
DEFLATED = b"\x01"

FIELDS = (
    b"kind",
    b"status",
    b"attempt",
    b"created_at",
    b"publisher_id",
    b"title",
    b"description",
    b"assignee_id",
    b"claim",
    b"claimed_at",
    b"completed_at",
    b"canceled_at",
    b"result_payload",
    b"lease_ms",
    b"bound",
    b"signer",
    b"signature",
    b"callback_url",
    b"input_artifact_ids",
)

DICTIONARY = (
    b"https://http://www./api/v1/hooks/callback artifact description language en-US model tokens source "
    b'false,null},{"true,[{"name":"value":"text":"data":"error":"message":"output":"score":"url":"id":'
    b'"result":"status":"ok","summary":"Please the report and return a short of in to for with from that '
    b"Translate Summarise Review Write Find Check Analyse Generate Extract -agent agent- publisher worker "
    b"\xa8canceled\xa8contract\xa9completed\x01\xcf\x00\x00\x01\x9f"
)

RESULT = b"result_payload"
"""The field that may hold a megabyte."""

NEAR = 4096
"""Bytes fetched first, from the end of a string; also the size in bytes from which on a result is worth a head."""

LEVEL = 6
"""Compression level of deflate. Level 9 would save 1 % of a megabyte of numbers and take three times as long."""

_MARK = b"\xffhead\xff\xfe\xff"
"""End of a string that states the length of its head. It is not valid UTF-8, so no undeflated contract ends with it."""

_ENDING = 4 + len(_MARK)

_INTEGERS_END = 2**63
"""Integers below this are packed as integers: a time in milliseconds then takes 9 bytes instead of 14."""

_LONGEST_INTEGER = len(str(_INTEGERS_END))

_MEMBERS = msgspec.msgpack.Decoder(list[object])


def pack(fields: Mapping[bytes, bytes]) -> bytes:
    """Return the string of a contract."""
    plain = _plain(fields)
    deflated = _deflated(plain)
    shorter = min(plain, deflated, key=len)
    if not _is_large(fields) and len(shorter) < NEAR and not shorter.endswith(_MARK):
        return shorter
    return _with_head(deflated, fields)


def with_head(packed: bytes) -> bytes | None:
    """Return a string of an older version with a head added; None if it has one or needs none."""
    if packed.endswith(_MARK) or not _is_large(fields := unpack(packed)):
        return None
    return _with_head(packed if packed[:1] == DEFLATED else _deflated(packed, level=0), fields)


def head_size(end: bytes) -> int | None:
    """Return how many bytes the head takes at the end of a string, given its last NEAR bytes; None if it has none."""
    if not end.endswith(_MARK):
        return None
    return _length(end) + _ENDING if _length(end) else None


def unpack_head(end: bytes) -> dict[bytes, bytes]:
    """Return the fields of a contract without its result, given the last `head_size` bytes of its string, or more."""
    return unpack(end[-_ENDING - _length(end) : -_ENDING])


def unpack(packed: bytes) -> dict[bytes, bytes]:
    """Return the fields of a contract. Raises ValueError for a format that this version does not know."""
    match packed[:1]:
        case b"\x00":
            content = packed[1:]
        case b"\x01":
            inflate = zlib.decompressobj(-15, zdict=DICTIONARY)
            content = inflate.decompress(packed[1:]) + inflate.flush()
        case other:
            raise ValueError(f"a compacted contract of format {other!r}")
    values = _MEMBERS.decode(content)
    fields = {name: _bytes(value) for name, value in zip(FIELDS, values, strict=False) if value is not None}
    if len(values) > len(FIELDS):
        fields |= cast("dict[bytes, bytes]", values[-1])
    return fields


def _is_large(fields: Mapping[bytes, bytes]) -> bool:
    return len(fields.get(RESULT, b"")) >= NEAR


def _plain(fields: Mapping[bytes, bytes]) -> bytes:
    known: list[object] = [_number(fields[name]) if name in fields else None for name in FIELDS]
    others = {name: value for name, value in fields.items() if name not in FIELDS}
    return PLAIN + msgspec.msgpack.encode([*known, others] if others else known)


def _deflated(plain: bytes, level: int = LEVEL) -> bytes:
    deflate = zlib.compressobj(level, zlib.DEFLATED, -15, zdict=DICTIONARY)
    return DEFLATED + deflate.compress(plain[1:]) + deflate.flush()


def _with_head(deflated: bytes, fields: Mapping[bytes, bytes]) -> bytes:
    head = b""
    if _is_large(fields):
        plain = _plain({name: value for name, value in fields.items() if name != RESULT})
        head = min(plain, _deflated(plain), key=len)
    return deflated + head + len(head).to_bytes(4, "big") + _MARK


def _length(end: bytes) -> int:
    """Return the length that the end of a string states for its head."""
    return int.from_bytes(end[-_ENDING : -len(_MARK)], "big")


def _number(value: bytes) -> bytes | int:
    """Return the value as an integer if `_bytes` restores the same bytes from it, otherwise as it is."""
    if not value.isdigit() or len(value) > _LONGEST_INTEGER:  # Python refuses to read a number of thousands of digits
        return value
    number = int(value)
    return number if number < _INTEGERS_END and b"%d" % number == value else value


def _bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else b"%d" % cast("int", value)
