"""Finds JSON objects in which a name occurs twice. Parsers differ in which of the values they keep."""

import orjson


def without_repetition(members: list[tuple[str, object]]) -> dict[str, object]:
    """An `object_pairs_hook` for `json.loads`. Raises ValueError if two members have the same name."""
    content = dict(members)
    if len(content) != len(members):
        raise ValueError("a name is there twice")
    return content


def repeats_a_name(raw: bytes, value: object) -> bool:
    """Return whether an object in the JSON document `raw` has two members of the same name.

    `value` is the decoded document, which has only the last of such members. If no member was dropped, `value` encoded
    again has as many quotation marks as the document.
    """
    escapes = raw.replace(rb"\\", b"") if b"\\" in raw else raw  # or `\\u0022` would count as a quotation mark
    return raw.count(b'"') + escapes.count(rb"\u0022") > orjson.dumps(value).count(b'"')
