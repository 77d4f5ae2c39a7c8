"""Lists everything that is wrong with a body or a query, field by field, and the fields that are ignored.

msgspec stops at the first wrong field. That is enough to refuse a request, and costs nothing if the request is valid.
Only input that msgspec has refused is examined again here, so that the sender learns of all mistakes at once.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import islice
from typing import Any, TypeVar, cast
from urllib.parse import quote

import msgspec
import msgspec.inspect
from msgspec.structs import FieldInfo, fields

from node.common.refusal import Invalid, Issue
from node.text.faults import JUDGED, faults_of
from node.web.http import Header
from node.web.json_schema import MAX_SAFE_INTEGER

MAX_EXAMINED_CHARACTERS = 256 * 1024
"""Characters of the longest body that is examined. A text of 20,000 characters, all of them escaped, takes 120,000."""

MAX_EXAMINED_OBJECTS = 100
"""Objects in the longest list that is examined."""

IGNORED = b"x-ignored-fields"

MIN_WORD_LETTERS = 4
"""Letters of the shortest word of a field name that is compared. Shorter words, such as `ids`, say too little."""

MAX_NAMED_FIELDS = 10
MAX_NAME_CHARACTERS = 40
"""Most ignored fields that are named, and most characters of each name: a header has no room for a whole body.
`require_content` also examines at most MAX_NAMED_FIELDS."""

OTHER_NAMES = frozenset(
    {"answer", "body", "content", "data", "message", "output", "reason", "response", "text", "value"}
)
"""Names that other operations and other services use for the members that `CONTENT` lists."""

PROTOCOL_PARAMETERS = frozenset({"A2A-Version"})
"""Query parameters that every operation of a protocol accepts (A2A 1.0 §3.6)."""

T = TypeVar("T")
Members = Mapping[str, msgspec.Raw]

_PLACE = " - at `"
_PATH = re.compile(r"(key in )?\$(?P<path>.*)`")
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]")
_MISSING = re.compile(r"Object missing required field `(\w+)`")

MAX_MESSAGE_CHARACTERS = 500
"""Characters of a message that are shown. A message about an enumeration repeats the value, however long that is."""

ONE_LINE = r"$(?!\\n)"
"""How msgspec writes the end of a one-line pattern: with a doubled backslash, so it cannot be used as shown."""

MAX_NUMBER_CHARACTERS = 40
"""Longest number, in characters, that is checked for being an integer in another notation."""

_FLOAT = re.compile(rb"-?\d+(?:\.\d+(?:[eE][+-]?\d+)?|[eE][+-]?\d+)")

_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_objects = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])


def members_of(text: str) -> Members | None:
    """Return the members of a JSON object; None for anything else, and for a text that is too long to be examined."""
    if len(text) > MAX_EXAMINED_CHARACTERS:
        return None
    try:
        return _members.decode(text)
    except msgspec.ValidationError:
        return None


def require_content(text: str, kind: type[msgspec.Struct], members: Members | None) -> None:
    """Refuse a body that has its content under a wrong name, such as `result` for `result_payload`. Raises Invalid.

    The operation cannot be repeated, so content that it ignores would be lost for good. A body is refused if it has
    none of the members that its type lists in `CONTENT`, but has an unknown member whose name is in `OTHER_NAMES` or
    contains a word of a name in `CONTENT`. If the body is too long to be examined (`members` is None), it is assumed to
    have such an unknown member. A type that takes no content states in `ELSEWHERE` what the content would be called and
    where it belongs.
    """
    elsewhere = cast("Sequence[str]", getattr(kind, "ELSEWHERE", ()))
    content = elsewhere[:1] or cast("Sequence[str]", getattr(kind, "CONTENT", ()))
    if not content:
        return
    if members is not None:
        words = [word for name in content for word in name.split("_") if len(word) >= MIN_WORD_LETTERS]
        unknown = islice((name.lower() for name in members if name not in _fields(kind)), MAX_NAMED_FIELDS)
        if not any((not elsewhere and name in OTHER_NAMES) or any(word in name for word in words) for name in unknown):
            return
    if elsewhere:
        raise Invalid.field("body", content[0], msg=elsewhere[1])
    with suppress(msgspec.ValidationError):  # not an object: refused for that elsewhere
        given = msgspec.json.decode(text, type=_content(kind))
        if all(value is msgspec.UNSET for value in msgspec.structs.astuple(given)):
            named = "Field required, or one of " + ", ".join(content[1:]) if content[1:] else "Field required"
            raise Invalid.field(
                "body", content[0], msg=f"{named}; this operation ignores the other members", kind="missing"
            )


def as_meant(members: Members, kind: type[msgspec.Struct]) -> Members:
    """Return the members that the type has, except nulls that stand for a default; the same for objects inside them.

    An integer may be written as `900.0` or `9e2`, which JSON Schema regards as integers.
    """
    return {
        name: _inside(raw, field_types(kind)[name])
        for name, raw in members.items()
        if (field := _fields(kind).get(name)) is not None
        and (bytes(raw) != b"null" or field.required or field.default in (None, msgspec.UNSET))
    }


def _inside(raw: msgspec.Raw, kind: msgspec.inspect.Type) -> msgspec.Raw:
    """Return `raw` with the objects and integers inside it `as_meant`, as far as its type tells which they are.

    Anything else stays as it is, and is refused when the whole body is decoded.
    """
    match kind:
        case msgspec.inspect.Metadata():
            return _inside(raw, kind.type)
        case msgspec.inspect.UnionType():
            # msgspec allows at most one object type and one list type in a union.
            for each in kind.types:
                raw = _inside(raw, each)
        case msgspec.inspect.IntType():
            if digits := digits_of(bytes(raw)):
                return msgspec.Raw(digits)
        case msgspec.inspect.ListType(item_type=msgspec.inspect.StructType() as each):
            with suppress(msgspec.ValidationError):
                objects = _objects.decode(raw)
                if len(objects) <= MAX_EXAMINED_OBJECTS:
                    return msgspec.Raw(msgspec.json.encode([as_meant(members, each.cls) for members in objects]))
        case msgspec.inspect.StructType():
            with suppress(msgspec.ValidationError):
                return msgspec.Raw(msgspec.json.encode(as_meant(_members.decode(raw), kind.cls)))
        case _:
            pass
    return raw


def digits_of(text: bytes) -> bytes | None:
    """Return the digits of an integer that is written with a fraction or an exponent; None for anything else."""
    if len(text) <= MAX_NUMBER_CHARACTERS and _FLOAT.fullmatch(text):
        number = float(text)
        if number.is_integer() and abs(number) < MAX_SAFE_INTEGER:  # beyond that, a float may stand for another integer
            return b"%d" % number
    return None


def issues_of_body(members: Members, kind: type[msgspec.Struct]) -> list[Issue]:
    """Return what is wrong with a body's members. If anything is, add what a service would refuse in texts later."""
    issues = _issues(members, kind, "body", _read_member)
    if not issues:
        return []
    wrong = {issue.loc[1] for issue in issues}
    for name, judged in _judged(kind).items():
        if name not in wrong and name in members and isinstance(text := _read_member(members[name], str | None), str):
            issues += faults_of(judged, name, text)
    return issues


def issues_of_query(query: Mapping[str, str], kind: type[msgspec.Struct]) -> list[Issue]:
    """Return what is wrong with the parameters of a query."""
    return _issues(query, kind, "query", _read_parameter)


def issue_of(message: str, *where: str | int) -> Issue:
    """Return an item of `detail` for msgspec's error message. The path in the message becomes `loc`, after `where`."""
    loc = list(where)
    what, _, place = message.rpartition(_PLACE)  # the last one: a value in the message may contain any number of others
    if match := _PATH.fullmatch(place):
        message = what
        for name, index in _STEP.findall(match["path"]):
            loc.append(int(index) if index.isdigit() else name or index)
    if match := _MISSING.match(message):
        return Issue((*loc, match[1]), "Field required", "missing")
    shown = message.replace("`", "").replace(ONE_LINE, "$")
    if len(shown) > MAX_MESSAGE_CHARACTERS:
        shown = f"{shown[:MAX_MESSAGE_CHARACTERS]}…"
    is_type_wrong = message.startswith("Expected ") and ", got " in message  # else a value is out of bounds
    return Issue(tuple(loc), shown, "type_error" if is_type_wrong else "value_error")


def ignored(where: str, names: Iterable[str], kind: type[msgspec.Struct] | None) -> Header | None:
    """Return the header that names the fields that the type lacks: `body.lease_second, query.q`; None if it has all.

    A `kind` of None has no fields.
    """
    known = _fields(kind) if kind else {}
    unknown = [name for name in names if name not in known and name not in PROTOCOL_PARAMETERS]
    if not unknown:
        return None
    named = [f"{where}.{quote(name[:MAX_NAME_CHARACTERS], safe='')}" for name in unknown[:MAX_NAMED_FIELDS]]
    more = ["..."] if len(unknown) > MAX_NAMED_FIELDS else []
    return (IGNORED, ", ".join([*named, *more]).encode("ascii"))


@cache
def _fields(kind: type[msgspec.Struct]) -> dict[str, FieldInfo]:
    return {field.encode_name: field for field in fields(kind)}


@cache
def _content(kind: Any) -> type[msgspec.Struct]:
    """Return a struct type with only the members in `CONTENT` of a type, unchecked."""
    return msgspec.defstruct(
        "Content", [(name, msgspec.Raw | msgspec.UnsetType, msgspec.UNSET) for name in kind.CONTENT]
    )


@cache
def field_types(kind: type[msgspec.Struct]) -> dict[str, msgspec.inspect.Type]:
    """Return the types of a struct's fields, by their names in JSON."""
    described = cast("msgspec.inspect.StructType", msgspec.inspect.type_info(kind))
    return {field.encode_name: field.type for field in described.fields}


@cache
def _judged(kind: type[msgspec.Struct]) -> dict[str, str]:
    """Return the fields whose texts a service judges, and how it judges each (`node.text.faults`)."""
    return {name: judged for name, of in field_types(kind).items() if (judged := _judgement(of))}


def _judgement(kind: msgspec.inspect.Type) -> str | None:
    if isinstance(kind, msgspec.inspect.UnionType):
        return next(filter(None, map(_judgement, kind.types)), None)
    if not isinstance(kind, msgspec.inspect.Metadata):
        return None
    return cast("dict[str, str]", kind.extra or {}).get(JUDGED)  # pyright: ignore[reportUnknownMemberType]


def _read_member(raw: msgspec.Raw, kind: Any) -> object:
    return msgspec.json.decode(raw, type=kind)


def _read_parameter(text: str, kind: Any) -> object:
    return msgspec.convert(text, kind, strict=False)


def _issues(
    values: Mapping[str, T], kind: type[msgspec.Struct], where: str, read: Callable[[T, Any], object]
) -> list[Issue]:
    found: list[Issue] = []
    for name, field in _fields(kind).items():
        if name not in values:
            if field.required:
                found.append(Issue((where, name), "Field required", "missing"))
            continue
        try:
            read(values[name], field.type)
        except msgspec.ValidationError as error:
            issue = issue_of(str(error), where, name)
            if meant := _meant(issue.msg, list(_at(field_types(kind)[name], issue.loc[2:]))):
                issue = msgspec.structs.replace(issue, msg=f"{issue.msg}{meant}")
            found.append(issue)
    return found


def _meant(message: str, kinds: Sequence[msgspec.inspect.Type]) -> str:
    """Return the part that a message leaves out: the words of an enumeration, or the meaning of a pattern."""
    if message.startswith("Invalid enum value"):
        words = next((kind.values for kind in kinds if isinstance(kind, msgspec.inspect.LiteralType)), ())
        return f"; it must be one of {', '.join(map(str, words))}"
    if message.startswith("Expected str matching regex"):
        return next((f": {said}" for kind in kinds if (said := _description(kind))), "")
    return ""


def _description(kind: msgspec.inspect.Type) -> str | None:
    if not isinstance(kind, msgspec.inspect.Metadata):
        return None
    shown = cast("dict[str, str]", kind.extra_json_schema or {})  # pyright: ignore[reportUnknownMemberType]
    return shown.get("description")


def _at(kind: msgspec.inspect.Type, path: tuple[str | int, ...]) -> Iterator[msgspec.inspect.Type]:
    """Yield the types at a path of members and indexes inside a type, including all parts of a union or of metadata."""
    if not path:
        yield kind
    match kind:
        case msgspec.inspect.Metadata():
            yield from _at(kind.type, path)
        case msgspec.inspect.UnionType():
            for each in kind.types:
                yield from _at(each, path)
        case msgspec.inspect.StructType() if path:
            for each in kind.fields:
                if each.encode_name == path[0]:
                    yield from _at(each.type, path[1:])
        case msgspec.inspect.ListType() if path:
            yield from _at(kind.item_type, path[1:])
        case _:
            pass
