"""Checks an answer of a DNS server before dnspython parses it, because some answers take long to parse.

The owner of a name decides what the answer says. With compression pointers, each record can have a name of 120 labels
in two bytes. dnspython takes 0.2 ms to parse such a name, and 3 ms if the name is in the data of a record, since it
then also makes a name of each suffix. Shorter names take too long as well if hundreds of records have or hold one: an
answer of 4 KiB with 252 aliases took 64 ms, one whose aliases had targets of 20 labels 0.2 s, and one with RP records
(mailboxes of responsible persons) 1.8 s.
"""

import struct
from contextlib import suppress

import dns.exception

MAX_LABELS = 20
"""Maximum number of labels of a name, not counting the root. The longest host names have about ten."""

MAX_LABELS_IN_ALL = 1600
"""Maximum number of labels of all names of an answer together: enough for 254 addresses, the most that fit into an
answer, of a name of six labels. They add at most 4 ms to the 8 ms that such an answer takes; without this limit, those
of a name of 20 long labels added 12 ms."""

MAX_NAMING = 32
"""Maximum number of records that hold a name in their data: enough for thirteen name servers, the SOA record of their
zone, and more aliases than dnspython follows (16)."""

_HEADER = 12
_POINTER = 0xC0
_QUESTION = 4
"""Bytes of a question after its name."""
_RECORD = struct.Struct("!HHIH")
"""Type, class, TTL and length of the data, which follow the name of a record (RFC 1035 §3.2.1)."""

_NAMES_HELD = {1: 0, 28: 0, 2: 1, 5: 1, 6: 2, 12: 1, 39: 1}
"""Number of names at the start of the data, by type of record. An answer with addresses may have only these types: A,
AAAA; NS, CNAME, SOA, PTR, DNAME. DNSSEC records come only if they are asked for (RFC 4035 §3.2.1)."""
_OPTIONS = 41
"""The OPT record, which states the capabilities of its sender (RFC 6891); it has no class."""
_INTERNET = 1
"""The class IN. In another class, even an address record may hold a name."""


def check_names(wire: bytes) -> None:
    """Raise FormError if the names of an answer would take long to parse.

    That is so if a name has more than MAX_LABELS, all names together have more than MAX_LABELS_IN_ALL, more than
    MAX_NAMING records hold a name, or a record has a type or class that does not belong in an answer with addresses. An
    answer that ends too early is left to dnspython: it may have been truncated to fit into a datagram.
    """
    naming = labels = 0
    with suppress(IndexError, struct.error):
        questions, *records = struct.unpack_from("!4H", wire, 4)
        at = _HEADER
        for _ in range(questions):
            at, more = _end_of_name(wire, at)
            at += _QUESTION
            labels = _added(labels, more)
        for _ in range(sum(records)):
            at, more = _end_of_name(wire, at)
            labels = _added(labels, more)
            kind, of_class, _, length = _RECORD.unpack_from(wire, at)
            at += _RECORD.size
            if kind != _OPTIONS:
                if of_class != _INTERNET or kind not in _NAMES_HELD:
                    raise dns.exception.FormError(f"no answer with addresses has a record of type {kind}")
                within, held = at, _NAMES_HELD[kind]
                naming += held > 0
                if naming > MAX_NAMING:
                    raise dns.exception.FormError(f"more than {MAX_NAMING} records hold a name")
                for _ in range(held):
                    within, more = _end_of_name(wire, within)
                    labels = _added(labels, more)
            at += length


def _added(labels: int, more: int) -> int:
    """Return the number of labels so far. Raises FormError if there are too many."""
    if labels + more > MAX_LABELS_IN_ALL:
        raise dns.exception.FormError(f"the names have more than {MAX_LABELS_IN_ALL} labels")
    return labels + more


def _end_of_name(wire: bytes, at: int) -> tuple[int, int]:
    """Return where the name at `at` ends, and how many labels it has. Raises FormError if it has too many labels or
    pointers, and IndexError if the answer ends before it.
    """
    end = labels = 0
    for _ in range(2 * MAX_LABELS + 1):  # each label may be followed by a pointer
        length = wire[at]
        if not length:
            return end or at + 1, labels
        if length >= _POINTER:  # the rest of the name is elsewhere
            end = end or at + 2
            at = (length - _POINTER) << 8 | wire[at + 1]
        else:
            labels += 1
            at += length + 1
        if labels > MAX_LABELS:
            break
    raise dns.exception.FormError(f"a name has more than {MAX_LABELS} labels")
