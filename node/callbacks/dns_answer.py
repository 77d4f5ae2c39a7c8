"""Looks at an answer of a DNS server before dnspython parses it.

The owner of a name decides what the answer says. By pointers, each of its records can have a name of 120 labels in two
bytes. dnspython takes 0.2 ms to parse such a name, and 3 ms if it is in the data of a record, since it then makes a
name of each suffix as well. Shorter names are too much, too, if hundreds of records have or hold one: an answer of
4 KiB with 252 aliases took 64 ms, with targets of 20 labels 0.2 s, and one with mailboxes of responsible persons (RP)
1.8 s.
"""

import struct
from contextlib import suppress

import dns.exception

MAX_LABELS = 20
"""Labels of a name, that of the root not counted. The longest names of hosts have about ten."""

MAX_LABELS_IN_ALL = 1600
"""Labels of all names of an answer: enough for as many addresses as it has room for, 254, of a name of six. They add
4 ms at most to the 8 that such an answer takes; of a name of 20 long labels they added 12."""

MAX_NAMING = 32
"""Records that hold a name: thirteen name servers and the start of their zone, and more aliases than dnspython follows
(16)."""

_HEADER = 12
_POINTER = 0xC0
_QUESTION = 4
"""Bytes of a question after its name."""
_RECORD = struct.Struct("!HHIH")
"""Type, class, time to live and length of what follows, after the name of a record (RFC 1035 §3.2.1)."""

_NAMES_HELD = {1: 0, 28: 0, 2: 1, 5: 1, 6: 2, 12: 1, 39: 1}
"""How many names begin a record of the types that an answer with addresses may have: A, AAAA; NS, CNAME, SOA, PTR,
DNAME. Those of DNSSEC come only if they are asked for (RFC 4035 §3.2.1)."""
_OPTIONS = 41
"""The record that says what its sender is capable of (RFC 6891); it has no class."""
_INTERNET = 1
"""The class. In another one, also an address may hold a name."""


def check_names(wire: bytes) -> None:
    """Raise FormError for an answer whose names take long: one has more than MAX_LABELS, all of them have more than
    MAX_LABELS_IN_ALL, more than MAX_NAMING records hold one, or there is a record that does not belong in it.

    One that ends too early is left to dnspython: it may have been cut off to fit into a datagram.
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
    """The labels so far. Raises FormError."""
    if labels + more > MAX_LABELS_IN_ALL:
        raise dns.exception.FormError(f"the names have more than {MAX_LABELS_IN_ALL} labels")
    return labels + more


def _end_of_name(wire: bytes, at: int) -> tuple[int, int]:
    """Where the name at `at` ends, and its labels. Raises FormError for one of too many, IndexError."""
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
