"""Looks at an answer of a DNS server before dnspython parses it.

Whoever owns a name decides what the answer says. By pointers, each of its records can have a name of 120 labels in two
bytes. dnspython takes 0.2 ms for such a name, and 3 ms for one that is the target of an alias, since it then makes a
name of each of its ends. Those that are left are too many if hundreds of records hold one: an answer of 4 KiB with 252
aliases took 64 ms, with targets of 20 labels 0.2 s.
"""

import struct
from contextlib import suppress

import dns.exception

MAX_LABELS = 20
"""Labels of a name, that of the root not counted. The longest names of hosts have about ten."""

MAX_NAMING = 32
"""Records that hold a name: thirteen name servers and the start of their zone, and more aliases than dnspython follows
(16)."""

_HEADER = 12
_POINTER = 0xC0
_QUESTION = 4
"""Bytes of a question after its name."""
_RECORD = struct.Struct("!HHIH")
"""Type, class, time to live and length of what follows, after the name of a record (RFC 1035 §3.2.1)."""

_NAMING = frozenset({2, 5, 6, 12, 39})
"""Types whose records hold a name, of those that an answer with addresses may have: NS, CNAME, SOA, PTR, DNAME."""


def check_names(wire: bytes) -> None:
    """Raise FormError for an answer with a name of more than MAX_LABELS, or more than MAX_NAMING records that hold one.

    One that ends too early is left to dnspython: it may have been cut off to fit into a datagram.
    """
    naming = 0
    with suppress(IndexError, struct.error):
        questions, *records = struct.unpack_from("!4H", wire, 4)
        at = _HEADER
        for _ in range(questions):
            at = _end_of_name(wire, at) + _QUESTION
        for _ in range(sum(records)):
            at = _end_of_name(wire, at)
            kind, _, _, length = _RECORD.unpack_from(wire, at)
            at += _RECORD.size
            if kind in _NAMING:
                naming += 1
                if naming > MAX_NAMING:
                    raise dns.exception.FormError(f"more than {MAX_NAMING} records hold a name")
                _end_of_name(wire, at)
            at += length


def _end_of_name(wire: bytes, at: int) -> int:
    """Where the name at `at` ends. Raises FormError for one of too many labels, IndexError."""
    end = labels = 0
    for _ in range(2 * MAX_LABELS + 1):  # each label may be followed by a pointer
        length = wire[at]
        if not length:
            return end or at + 1
        if length >= _POINTER:  # the rest of the name is elsewhere
            end = end or at + 2
            at = (length - _POINTER) << 8 | wire[at + 1]
        else:
            labels += 1
            at += length + 1
        if labels > MAX_LABELS:
            break
    raise dns.exception.FormError(f"a name has more than {MAX_LABELS} labels")
