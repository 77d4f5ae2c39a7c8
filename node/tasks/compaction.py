"""A contract that is over, in one compressed string: what its hash held, byte for byte.

The string is one byte that names the format, then a MessagePack list: the fields of `FIELDS` in that order, and a map
of all others if there are any. In format 1 the list is deflated with a dictionary of what most contracts have in
common; in format 0, for contracts that deflating would make longer, it is not. Order and dictionary belong to the
format: a change of either takes a new number, and the old number must stay readable.
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

_INTEGERS_END = 2**63
"""Integers below it are kept as such: a time in milliseconds takes 9 bytes then, not 14."""

_MEMBERS = msgspec.msgpack.Decoder(list[object])


def pack(fields: Mapping[bytes, bytes]) -> bytes:
    """The string of a contract."""
    known: list[object] = [_number(fields[name]) if name in fields else None for name in FIELDS]
    others = {name: value for name, value in fields.items() if name not in FIELDS}
    content = msgspec.msgpack.encode([*known, others] if others else known)
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15, zdict=DICTIONARY)
    deflated = deflate.compress(content) + deflate.flush()
    return DEFLATED + deflated if len(deflated) < len(content) else PLAIN + content


def unpack(packed: bytes) -> dict[bytes, bytes]:
    """The fields of a contract. Raises ValueError for a format that this version does not know."""
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


def _number(value: bytes) -> bytes | int:
    return (
        int(value) if value.isdigit() and (number := int(value)) < _INTEGERS_END and b"%d" % number == value else value
    )


def _bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else b"%d" % cast("int", value)
