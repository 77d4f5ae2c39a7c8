"""The English gate for payloads: which strings of a JSON value are prose, the verdict on them together, and what
may be shown of them.

A payload mixes sentences with ids, names and settings. Fields whose name promises prose are judged one by
one, so that a long English field cannot cover for a foreign `message`; all other strings are judged as one
text. Not here: the judgement of one text (`english`). All bounds are per payload: they keep the cost of
any body under a millisecond or so, however it is built.
"""

import json
import re
from collections import deque
from collections.abc import Sized
from itertools import islice
from typing import cast

from node.text.english import is_english
from node.text.sampling import SAMPLES
from node.text.windows import WINDOW

MOST_VALUES = 1_000
"""Values looked at in one payload, breadth first."""

MOST_MEMBERS = 50
"""Members looked at of any one list or object, evenly spaced."""

MOST_INNER_JSON = 16 * 1024
"""Characters of JSON inside strings that are parsed for one payload; what is beyond is judged as text."""

FIELDS_IN_FULL = 2
"""So many prose fields are judged with all their samples: `message` and `hello`, if they are there."""

SHARED_SAMPLES = SAMPLES
"""What the others share, if they are long; each has FEWEST_SAMPLES at least."""
FEWEST_SAMPLES = 3

MOST_SHOWN = 100
"""Strings of one payload that are shown."""

_PROSE_KEYS = """
    message hello text title body description content feedback_text query goal prompt note notes summary subject comment
    question answer task input output error reason
"""
PROSE = tuple(_PROSE_KEYS.split())
"""Keys whose values, at the top of a document, are prose by themselves. What a thread shows comes first."""

_PROSE = frozenset(PROSE)

_LABEL_KEYS = """
    id ids uuid key token hash digest sha256 signature sig url uri link email author name username user agent node
    publisher assignee owner from to sender recipient language lang locale timezone tz country city region currency
    symbol ticker model version type format encoding path file filename host ip mime media_type ts timestamp date time
"""
LABELS = frozenset(_LABEL_KEYS.split())
"""Keys whose values name a thing; such a value is skipped unless it is long enough to be prose."""
LABEL_CHARACTERS = 80
LABEL_SPACES = 2
LABEL_KEY_CHARACTERS = 24
"""Characters at the end of a key that are read: more than the longest label, so that none is found by the cut."""

_JSON_START = re.compile(r"\s{0,64}+[\[{]")


def text_payload_is_english(text: str) -> bool:
    """Whether a text/plain payload is English; if the text is a JSON document, its prose is judged."""
    if len(text) > MOST_INNER_JSON or not _JSON_START.match(text):
        return is_english(text)
    return payload_is_english(text)


def payload_is_english(value: object) -> bool:
    """Whether the prose of a parsed JSON value is English. Numbers, ids and the like are neither."""
    strings = _Strings()
    strings.gather(value)
    fields, others = strings.fields, strings.others
    samples = SAMPLES
    for place, field in enumerate(fields):  # a generator under all() costs as much as the judgement of a short field
        if place == FIELDS_IN_FULL:
            long = sum(len(other) > WINDOW for other in fields[place:])
            samples = max(FEWEST_SAMPLES, min(SAMPLES, SHARED_SAMPLES // max(1, long)))
        if not is_english(field, samples):
            return False
    return not others or is_english("\n".join(others))


def may_be_shown(text: str) -> bool:
    """Whether a text that passed may be shown as it is: it is no JSON, which was judged by its prose only, or would
    pass as a text too.
    """
    return len(text) > MOST_INNER_JSON or not _JSON_START.match(text) or is_english(text)


def displayable(value: object) -> str:
    """What may be shown of a parsed JSON value that passed, or of a text that is JSON: the strings that were judged.

    If there are none, those that name something, unless together they are not English; then nothing.
    """
    strings = _Strings()
    strings.gather(value)
    if strings.said:
        return "\n".join(strings.said[:MOST_SHOWN])
    labels = "\n".join(strings.labels[:MOST_SHOWN])
    return labels if is_english(labels) else ""


class _Strings:
    """The strings of one payload that are to be judged. A string that holds JSON counts as what it holds."""

    def __init__(self) -> None:
        self.fields: list[str] = []
        self.others: list[str] = []
        self.said: list[str] = []
        """Both, in their order, but for keys that are judged."""
        self.labels: list[str] = []
        self._queue: deque[tuple[str, object, bool]] = deque()  # key, value, whether it is a document or a prose field
        self._json_left = MOST_INNER_JSON
        self._values_left = MOST_VALUES

    def gather(self, document: object) -> None:
        self._place("", document, True)
        queue = self._queue
        while queue and self._values_left > 0:
            key, value, is_document = queue.popleft()
            if isinstance(value, dict):
                self._open(cast("dict[str, object]", value), is_document)
            else:
                elements = cast("list[object]", value)
                for element in elements[:: _stride(elements)]:
                    self._place(key, element, False)

    def _place(self, key: str, value: object, is_field: bool) -> None:
        """Take a string; what holds strings in its turn waits for those that stand higher."""
        self._values_left -= 1
        if isinstance(value, str):
            if self._values_left < 0:
                return
            if ("{" in value or "[" in value) and self._opens(key, value):
                return
            if is_field and len(self.fields) < len(PROSE):
                self.fields.append(value)
            elif _is_label(key, value):
                self.labels.append(value)
                return
            else:
                self.others.append(value)
            self.said.append(value)
        elif isinstance(value, dict | list):
            self._queue.append((key, cast("object", value), is_field))

    def _opens(self, key: str, text: str) -> bool:
        """Whether a string is JSON, whose value is then placed instead."""
        if len(text) > self._json_left or not _JSON_START.match(text):
            return False
        self._json_left -= len(text)
        inner = _parsed(text)
        if inner is None:
            return False
        self._place(key, inner, True)
        return True

    def _open(self, members: dict[str, object], is_document: bool) -> None:
        prose: list[str] = []
        if is_document:
            names = members if len(members) < len(PROSE) else PROSE
            prose = [name for name in names if name in _PROSE and isinstance(members.get(name), str)]
            if len(prose) > FIELDS_IN_FULL:
                prose.sort(key=PROSE.index)
            for name in prose:
                self._place(name, members[name], True)
        for name in islice(members, 0, None, _stride(members)):
            if " " in name:
                self.others.append(name)
            if name not in prose:
                self._place(name, members[name], False)


def _stride(container: Sized) -> int:
    """The step that takes at most MOST_MEMBERS of a container, evenly spaced."""
    return -(-len(container) // MOST_MEMBERS) or 1


def _is_label(key: str, value: str) -> bool:
    """Whether the key says that the value names something (`agent`, `user_id`) and the value is short enough for it."""
    if len(value) > LABEL_CHARACTERS or value.count(" ") > LABEL_SPACES:
        return False
    name = key[-LABEL_KEY_CHARACTERS:].lower()
    return name in LABELS or name.replace("-", "_").rpartition("_")[2] in LABELS


def _parsed(text: str) -> object:
    """The JSON value in `text`; None if it is no JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
