"""Conversions between Redis replies and Python values: flat lists and fields, bytes and text, ids of stream entries."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TypeVar, cast

K = TypeVar("K")
V = TypeVar("V")


def names_of(reply: object) -> list[str]:
    """Return the members of a list or set."""
    return [name.decode() for name in cast("list[bytes]", reply)]


def fields_of(reply: object) -> dict[bytes, bytes]:
    """Return the fields of a hash or stream entry, given the flat list from HGETALL or XRANGE."""
    each = iter(cast("list[bytes]", reply or []))
    return dict(zip(each, each, strict=True))


def texts_of(reply: object) -> dict[str, str]:
    """Return the fields as `fields_of` does, with names and values decoded to text."""
    return {name.decode(): value.decode() for name, value in fields_of(reply).items()}


def entries_of(reply: object) -> list[tuple[str, dict[bytes, bytes]]]:
    """Return the entries of a stream, each with its id and its fields."""
    return [(entry.decode(), fields_of(flat)) for entry, flat in cast("list[tuple[bytes, object]]", reply)]


def scores_of(reply: object) -> list[tuple[str, float]]:
    """Return the members and scores of a sorted set, given the flat list from ZRANGE WITHSCORES or ZSCAN."""
    return [(member.decode(), float(score)) for member, score in fields_of(reply).items()]


def facts_of(info: bytes) -> dict[str, str]:
    """Return the fields of a reply to INFO, by name. Bytes that are not UTF-8, as in paths, are replaced."""
    return dict(line.split(":", 1) for line in info.decode(errors="replace").splitlines() if ":" in line)


def flat_of(fields: Mapping[K, V]) -> list[K | V]:
    """Return names and values alternating in one list, as HSET, XADD and the scripts take them.

    The inverse of `fields_of`.
    """
    return list(chain.from_iterable(fields.items()))


def fields_named(names: Sequence[bytes], values: Sequence[bytes | None]) -> dict[bytes, bytes]:
    """Return the fields that HMGET returned for `names`, without the missing ones."""
    return {name: value for name, value in zip(names, values, strict=True) if value is not None}


def entry_id(entry: bytes | str) -> tuple[int, int]:
    """Return the id of a stream entry in a form that sorts as in Redis: milliseconds, then a sequence number."""
    text = entry if isinstance(entry, str) else entry.decode()
    milliseconds, _, sequence = text.partition("-")
    return int(milliseconds), int(sequence)


def code_of(reply: object) -> str:
    """Return the first member of a script's reply, the word that says how the step ended."""
    return cast("list[bytes]", reply)[0].decode()


def text(value: bytes | None) -> str | None:
    """Return a stored text, or None if the field is absent or empty."""
    return value.decode() if value else None


def number(value: bytes | None) -> int | None:
    """Return a stored integer, or None if the field is absent or empty."""
    return int(value) if value else None
