"""The English gate for JSON payloads: which strings are prose, the verdict on them, and which may be shown.

A payload mixes sentences with ids, names and settings. Fields whose names promise prose are judged one by one, so that
a long English field cannot make up for a foreign `message`. All other strings are judged together, as one text.
`english` judges each text. All bounds are per payload; they keep the cost of any body at about a millisecond.
"""

import json
import re
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence, Sized
from itertools import islice
from string import ascii_lowercase, ascii_uppercase, digits
from typing import cast

from node.common.counters import VERDICTS
from node.common.repeated_names import without_repetition
from node.text.english import MAX_WHOLE_CHARACTERS, has_plain_words, is_english, verdict
from node.text.sampling import SAMPLES
from node.text.windows import WINDOW_CHARACTERS

MAX_VALUES = 1_000
"""Values of a payload that are looked at, breadth first. When these are used up, the current list or object is still
completed."""

MAX_MEMBERS = 50
"""Maximum number of members of one list or object that are looked at, evenly spaced."""

MAX_INNER_JSON_CHARACTERS = 16 * 1024
"""Characters of JSON in strings that are parsed for one payload. Further strings of JSON are judged as texts."""

FIELDS_IN_FULL = 2
"""Number of prose fields that are judged by SAMPLES samples each: the first ones in the order of PROSE. The other long
fields share SAMPLES samples, but each gets at least MIN_SAMPLES."""
MIN_SAMPLES = 3

MAX_SHOWN_STRINGS = 100
"""Maximum number of strings of one payload that are shown."""

_PROSE_KEYS = """
    message hello text title body description content feedback_text query goal prompt note notes summary subject comment
    question answer task input output error reason
"""
PROSE = tuple(_PROSE_KEYS.split())
"""Keys whose values are prose at the top level of a document. The fields that a thread shows come first."""

_PROSE = frozenset(PROSE)

_LABEL_KEYS = """
    id uuid key token hash digest sha256 signature sig url uri link email author name username user agent node publisher
    assignee owner from to sender recipient language lang locale timezone tz symbol ticker model version type format
    encoding path file filename host ip mime media_type currency ts timestamp date time
    actor artist attendee buyer client coach composer contact contributor creator customer director editor employee
    founder guest manager member organizer participant passenger patient people performer person player producer
    provider seller speaker sponsor student supplier teacher vendor winner
    airline brand company department manufacturer organization school team university
    address airport arrival city continent country county departure destination district locality location origin place
    province region state station street town venue village
    firstname fullname lastname nickname surname
    bank cafe club hospital hotel museum restaurant
    album band book film magazine movie newspaper playlist podcast song
    compound dish drug genus ingredient medication species taxon
"""
LABELS = frozenset(
    form
    for name in _LABEL_KEYS.split()
    for form in (name, f"{name}s", f"{name}es", f"{name[:-1]}ies" if name.endswith("y") else name)
)
"""Keys, singular or plural, whose values name something: an id, a person, an organization, a place, a work, a dish, a
species, a substance. Such a value is a label, which is not judged, unless it is long enough to be prose."""
MAX_LABEL_CHARACTERS = 80
MAX_LABEL_SPACES = 2
"""Maximum number of spaces in a label that is not written like long names and addresses (`_is_written_as_name`)."""
MAX_PARTICLE_LETTERS = 3
"""Maximum number of letters of a lower-case word in a name (`de la`, `von der`, `ul.`)."""
LABEL_KEY_CHARACTERS = 24
"""Characters at the end of a key that are compared with LABELS: more than the longest of LABELS has."""

_LOWER = ascii_lowercase + digits
_JSON_START = re.compile(r"\s{0,64}+[\[{]")


def text_payload_is_english(text: str) -> bool:
    """Return whether a text/plain payload is English. If the text is JSON, its prose is judged."""
    return payload_is_english(text) if _may_be_json(text) else is_english(text)


def payload_is_english(value: object) -> bool:
    """Return whether the prose of a parsed JSON value is English. Numbers, ids and the like are not prose."""
    if isinstance(value, dict) and _is_plain(cast("dict[str, object]", value)):
        return True
    strings = _Strings()
    strings.gather(cast("object", value))
    if _first_foreign(strings.fields, is_english) is not None:
        return False
    return not strings.others or is_english("\n".join(strings.others))


def _is_plain(document: dict[str, object]) -> bool:
    """Return whether all strings of a small document are labels or plain English, so that the document passes.

    This is a shortcut to the verdict. False says nothing about the document. Counts the verdicts if the answer is True.
    """
    fields = characters = members = 0
    has_others = False
    levels: list[tuple[Collection[tuple[str, object]], bool]] = [(document.items(), True)]
    for level, is_document in levels:  # `levels` grows in the loop: lists and objects inside a level follow it
        members += len(level)
        if members > MAX_MEMBERS:
            return False
        for key, value in level:
            if isinstance(value, str):
                characters += len(value)
                if characters > MAX_WHOLE_CHARACTERS:  # longer texts are judged by samples
                    return False
                is_field = is_document and key in _PROSE
                if has_plain_words(value):
                    fields += is_field
                    has_others = has_others or not is_field
                elif is_field or "{" in value or "[" in value or not _is_label(key, value):
                    return False
            elif isinstance(value, dict):
                levels.append((cast("dict[str, object]", value).items(), False))
            elif isinstance(value, list):
                elements = cast("list[object]", value)
                levels.append(([(key, element) for element in elements[: MAX_MEMBERS + 1]], False))
            if " " in key:
                return False
    if fields > FIELDS_IN_FULL:
        return False
    VERDICTS[True] += fields + has_others
    return True


def foreign_field(payload: Mapping[str, object]) -> str:
    """Return the name of the prose field for which a payload was refused, or a phrase for its other fields if no prose
    field is to blame."""
    texts = {name: text for name in PROSE if isinstance(text := payload.get(name), str)}
    index = _first_foreign(list(texts.values()), verdict)
    return "what its other fields say, taken together," if index is None else list(texts)[index]


def _first_foreign(fields: Sequence[str], judge: Callable[[str, int], bool]) -> int | None:
    """Return the index of the first prose field that is not English, or None. A field's number of samples depends on
    its index (FIELDS_IN_FULL)."""
    samples = SAMPLES
    for index, field in enumerate(fields):  # not next(): its generator costs as much as judging a short field
        if index == FIELDS_IN_FULL:
            long = sum(len(other) > WINDOW_CHARACTERS for other in fields[index:])
            samples = max(MIN_SAMPLES, SAMPLES // max(1, long))
        if not judge(field, samples):
            return index
    return None


def may_be_shown(text: str) -> bool:
    """Return whether a text that passed may be shown as it is. JSON, of which only the prose was judged, must also pass
    as a text."""
    return not _may_be_json(text) or is_english(text)


def displayable(value: object) -> str:
    """Return what may be shown of JSON that passed, given as a parsed value or as text: the strings that were judged.

    If no string was judged, return the labels if they are English together, else an empty string.
    """
    strings = _Strings()
    strings.gather(value)
    if strings.judged_values:
        return "\n".join(strings.judged_values[:MAX_SHOWN_STRINGS])
    labels = "\n".join(strings.labels[:MAX_SHOWN_STRINGS])
    return labels if is_english(labels) else ""


class _Strings:
    """The strings of one payload, sorted for the verdict. A string of JSON counts as the value that it encodes."""

    def __init__(self) -> None:
        self.fields: list[str] = []
        """Prose fields, which are judged one by one."""
        self.others: list[str] = []
        """All other judged strings, including keys with spaces."""
        self.judged_values: list[str] = []
        """The strings of `fields` and `others` without keys, in the order in which they were gathered."""
        self.labels: list[str] = []
        """Strings that name something, which are not judged."""
        self._queue: deque[tuple[str, object, bool]] = deque()  # key, value, whether it is a document
        self._json_left = MAX_INNER_JSON_CHARACTERS
        self._values_left = MAX_VALUES

    def gather(self, document: object) -> None:
        if isinstance(document, dict):
            self._sort_members(cast("dict[str, object]", document), True)
        else:
            self._sort("", document, True)
        queue = self._queue
        while queue and self._values_left > 0:
            key, value, is_document = queue.popleft()
            if isinstance(value, dict):
                self._sort_members(cast("dict[str, object]", value), is_document)
            else:
                elements = cast("list[object]", value)
                for element in elements[:: _stride(elements)]:
                    self._sort(key, element, False)

    def _sort(self, key: str, value: object, is_field: bool) -> None:
        """Add a string to the right list. Queue a list or object behind all values of its own level."""
        self._values_left -= 1
        if isinstance(value, str):
            if ("{" in value or "[" in value) and self._sort_parsed(key, value):
                return
            if is_field and len(self.fields) < len(PROSE):
                self.fields.append(value)
            elif _is_label(key, value):
                self.labels.append(value)
                return
            else:
                self.others.append(value)
            self.judged_values.append(value)
        elif isinstance(value, dict | list):
            self._queue.append((key, cast("object", value), is_field))

    def _sort_parsed(self, key: str, text: str) -> bool:
        """Sort the value that a string of JSON encodes. Return False if the string is not JSON or too long to parse."""
        if len(text) > self._json_left or not _JSON_START.match(text):
            return False
        self._json_left -= len(text)
        inner = _parsed(text)
        if inner is None:
            return False
        self._sort(key, inner, True)
        return True

    def _sort_members(self, members: dict[str, object], is_document: bool) -> None:
        prose: list[str] = []
        if is_document:
            names = members if len(members) < len(PROSE) else PROSE
            prose = [name for name in names if name in _PROSE and isinstance(members.get(name), str)]
            if len(prose) > FIELDS_IN_FULL:
                prose.sort(key=PROSE.index)
            for name in prose:
                self._sort(name, members[name], True)
        for name in islice(members, 0, None, _stride(members)):
            if " " in name:
                self.others.append(name)
            if name not in prose:
                self._sort(name, members[name], False)


def _may_be_json(text: str) -> bool:
    """Return whether a text looks like JSON and is short enough to be parsed."""
    return len(text) <= MAX_INNER_JSON_CHARACTERS and _JSON_START.match(text) is not None


def _stride(container: Sized) -> int:
    """Return the step at which at most MAX_MEMBERS members of a container are taken, evenly spaced."""
    return -(-len(container) // MAX_MEMBERS) or 1


def _is_label(key: str, value: str) -> bool:
    """Return whether the last word of the key says that the value names something (`agent`, `user_id`, `displayName`)
    and the value is short enough."""
    if len(value) > MAX_LABEL_CHARACTERS:
        return False
    if value.count(" ") > MAX_LABEL_SPACES and not value.istitle() and not _is_written_as_name(value):
        return False
    name = key[-LABEL_KEY_CHARACTERS:]
    return name.lower() in LABELS or name[len(name.rstrip(_LOWER).rstrip(ascii_uppercase)) :].lower() in LABELS


def _is_written_as_name(value: str) -> bool:
    """Return whether at least two thirds of the words begin with a capital or digit and the others are short (`Via del
    Corso`)."""
    words = value.split()
    small = [word for word in words if not (word[0].isupper() or word[0].isdigit())]
    return 3 * len(small) <= len(words) and all(len(word.rstrip(".,")) <= MAX_PARTICLE_LETTERS for word in small)


def _parsed(text: str) -> object:
    """Return the JSON value in `text`; None if it is not JSON, or if an object in it repeats a name."""
    try:
        return json.loads(text, object_pairs_hook=without_repetition)
    except (ValueError, RecursionError):
        return None
