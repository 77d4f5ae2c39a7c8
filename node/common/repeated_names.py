"""Finds JSON objects in which a name occurs twice: parsers differ in which of its values they keep."""

import orjson


def without_repetition(members: list[tuple[str, object]]) -> dict[str, object]:
    """An `object_pairs_hook` for `json.loads`. Raises ValueError if two members have the same name."""
    content = dict(members)
    if len(content) != len(members):
        raise ValueError("a name is there twice")
    return content


def repeats_a_name(raw: bytes, value: object) -> bool:
    """Whether an object in the JSON document `raw` has two members of one name; `value` has the last of them only.

    Encoded again, `value` has as many quotation marks as the document, unless members were dropped.
    """
    escapes = raw.replace(rb"\\", b"") if b"\\" in raw else raw  # of which `\\u0022` is no quotation mark
    return raw.count(b'"') + escapes.count(rb"\u0022") > orjson.dumps(value).count(b'"')
