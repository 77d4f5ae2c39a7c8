"""The English gate for payloads: which strings of a JSON value are prose, and the verdict on them together.

A payload mixes sentences with ids, names and settings. Fields whose name promises prose are judged one by
one, so that a long English field cannot cover for a foreign `message`; all other strings are judged as one
text. Not here: the judgement of one text (`english`). All bounds are per payload: they keep the cost of
any body under a millisecond or so, however it is built.
"""

import json
from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import cast

from node.text.english import is_english
from node.text.windows import WINDOWS

MOST_VALUES = 1_000
"""Values looked at in one payload, breadth first."""

MOST_MEMBERS = 50
"""Members looked at of any one list or object, evenly spaced."""

MOST_INNER_JSON = 16 * 1024
"""Characters of JSON inside strings that are parsed for one payload; what is beyond is judged as text."""

FIELDS_IN_FULL = 3
"""Up to so many prose fields are judged with all their windows; more of them share FIELD_WINDOWS."""
FIELD_WINDOWS = 36

PROSE = (
    "message", "hello", "text", "title", "body", "description", "content", "feedback_text", "query", "goal", "prompt",
    "note", "notes", "summary", "subject", "comment", "question", "answer", "task", "input", "output", "error", "reason",
)  # fmt: skip
_PROSE = frozenset(PROSE)

_LABELS = frozenset(
    """
    id ids uuid key token hash digest sha256 signature sig url uri link email author name username user agent node
    publisher assignee owner from to sender recipient language lang locale timezone tz country city region currency
    symbol ticker model version type format encoding path file filename host ip mime media_type ts timestamp date time
    """.split()
)
"""Keys whose values name a thing; such a value is skipped unless it is long enough to be prose."""
LABEL_CHARACTERS = 80
LABEL_SPACES = 2


def text_payload_is_english(text: str) -> bool:
    """Whether a text/plain payload is English; if the text is a JSON document, its prose is judged."""
    if len(text) > MOST_INNER_JSON or not _looks_like_json(text):
        return is_english(text)
    return payload_is_english(text)


def payload_is_english(value: object) -> bool:
    """Whether the prose of a parsed JSON value is English. Numbers, ids and the like are neither."""
    fields, others = _gather(value)
    windows = WINDOWS if len(fields) <= FIELDS_IN_FULL else max(2, FIELD_WINDOWS // len(fields))
    return all(is_english(field, windows) for field in fields) and (
        not others or is_english("\n".join(others))
    )


def _gather(value: object) -> tuple[list[str], list[str]]:
    """The prose fields of a payload and its other strings. A string that holds JSON counts as what it holds."""
    fields: list[str] = []
    others: list[str] = []
    inner_left = MOST_INNER_JSON
    queue: deque[tuple[str, object, bool]] = deque([("", value, True)])
    for _ in range(MOST_VALUES):
        if not queue:
            break
        key, item, outermost = queue.popleft()
        if isinstance(item, str):
            if len(item) <= inner_left and _looks_like_json(item):
                inner_left -= len(item)
                inner = _parsed(item)
                if inner is not None:
                    queue.append((key, inner, True))
                    continue
            if outermost and len(fields) < len(PROSE):
                fields.append(item)
            elif not _is_label(key, item):
                others.append(item)
        elif isinstance(item, dict):
            members = cast(dict[str, object], item)
            if outermost:
                queue.extend((name, text, True) for name in PROSE if isinstance(text := members.get(name), str))
            for name, member in _some_of(members):
                if " " in name:
                    others.append(name)
                if not (outermost and name in _PROSE and isinstance(member, str)):
                    queue.append((name, member, False))
        elif isinstance(item, list):
            elements = cast(list[object], item)
            queue.extend((key, element, False) for element in elements[:: _step(len(elements))])
    return fields, others


def _some_of(members: dict[str, object]) -> Iterator[tuple[str, object]]:
    if len(members) <= MOST_MEMBERS:
        return iter(members.items())
    return ((name, members[name]) for name in islice(members, 0, None, _step(len(members))))


def _step(count: int) -> int:
    """The stride that takes at most MOST_MEMBERS of `count`."""
    return -(-count // MOST_MEMBERS) or 1


def _is_label(key: str, value: str) -> bool:
    """Whether the key says that the value names something (`agent`, `user_id`) and the value is short enough for it."""
    if len(value) > LABEL_CHARACTERS or value.count(" ") > LABEL_SPACES:
        return False
    name = key.lower()
    return name in _LABELS or name.replace("-", "_").rpartition("_")[2] in _LABELS


def _looks_like_json(text: str) -> bool:
    return text.lstrip()[:1] in ("{", "[")


def _parsed(text: str) -> object:
    """The JSON value in `text`; None if it is no JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
