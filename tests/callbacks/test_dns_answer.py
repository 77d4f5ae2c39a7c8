"""Which DNS answers are parsed: none whose names have many labels, however the names are encoded."""

import struct
from contextlib import nullcontext, suppress

import dns.exception
import dns.message
import dns.rrset
import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.callbacks.dns_answer import MAX_LABELS, MAX_LABELS_IN_ALL, MAX_NAMING, check_names

names = st.lists(st.sampled_from(["a", "bc", "def"]), min_size=1, max_size=2 * MAX_LABELS).map(".".join)
QUESTION = b"\1a\0" + struct.pack("!HH", 1, 1)


def answer(*records: tuple[bytes, int, bytes], of_class: int = 1) -> bytes:
    """Return an answer with these records: name, type, data."""
    packed = [name + struct.pack("!HHIH", kind, of_class, 60, len(data)) + data for name, kind, data in records]
    return struct.pack("!6H", 1, 0x8180, 1, len(records), 0, 0) + QUESTION + b"".join(packed)


@given(st.lists(st.tuples(names, st.sampled_from(["CNAME", "NS", "DNAME", "A"]), names), max_size=8))
def test_an_answer_passes_if_all_its_names_are_short(records: list[tuple[str, str, str]]) -> None:
    message = dns.message.make_response(dns.message.make_query("agent.example.", "A"))
    lengths = [0]
    for name, kind, target in records:
        data = "192.0.2.1" if kind == "A" else f"{target}."
        message.answer.append(dns.rrset.from_text(f"{name}.", 60, "IN", kind, data))
        lengths += [name.count(".") + 1] if kind == "A" else [name.count(".") + 1, target.count(".") + 1]
    wire = message.to_wire()
    if max(lengths) <= MAX_LABELS:
        check_names(wire)
    else:
        with pytest.raises(dns.exception.FormError):
            check_names(wire)


@pytest.mark.parametrize("kind", [2, 5, 39], ids=["name servers", "aliases", "aliases of zones"])
def test_an_answer_with_many_records_that_hold_a_name_is_refused(kind: int) -> None:
    """Parsing an answer with 252 aliases would hold up the event loop for 64 ms, only to refuse it, since so many are
    not followed.
    """
    named = [(b"\0", kind, b"\1a\0")] * MAX_NAMING
    addresses = [(b"\0", 1, b"\1\1\1\1")] * 2 * MAX_NAMING
    check_names(answer(*named, *addresses))
    with pytest.raises(dns.exception.FormError):
        check_names(answer(*named, *addresses, named[0]))


LONG = b"\1a" * (MAX_LABELS + 1) + b"\0"


@pytest.mark.parametrize(
    ("kind", "of_class", "data"),
    [
        (15, 1, b"\0\1" + LONG),
        (16, 1, bytes([len(LONG)]) + LONG),
        (17, 1, LONG * 2),
        (33, 1, bytes(6) + LONG),
        (1, 3, LONG + b"\0\1"),
    ],
    ids=["mail exchanger", "text", "responsible person", "service", "address of another class"],
)
def test_an_answer_with_a_record_that_does_not_belong_in_it_is_refused(kind: int, of_class: int, data: bytes) -> None:
    """Each of these records can hold names, or bytes that other names point to: 250 of them in 4 KiB would hold up the
    event loop for two seconds.
    """
    wire = answer((b"\0", kind, data), of_class=of_class)
    dns.message.from_wire(wire)
    with pytest.raises(dns.exception.FormError, match="no answer with addresses has"):
        check_names(wire)


def test_both_names_at_the_start_of_a_zone_are_looked_at() -> None:
    check_names(answer((b"\0", 6, b"\0\0" + bytes(20))))
    for names in (LONG + b"\0", b"\0" + LONG):
        with pytest.raises(dns.exception.FormError, match="a name has more"):
            check_names(answer((b"\0", 6, names + bytes(20))))


def test_what_a_server_says_of_its_capabilities_is_not_taken_for_a_record_of_another_class() -> None:
    check_names(answer((b"\0", 41, b""), of_class=1232))


def test_the_labels_of_all_names_are_counted() -> None:
    """Parsing 219 addresses of a name with 20 labels takes three times as long for each as for one with a short
    name.
    """
    twenty = (b"\1a" * 20 + b"\0", 1, b"\1\1\1\1")
    most = [twenty] * (MAX_LABELS_IN_ALL // 20 - 1)
    check_names(answer(*most, (b"\1a" * 19 + b"\0", 1, b"\1\1\1\1")))  # plus the labels of the question
    with pytest.raises(dns.exception.FormError, match="the names have more"):
        check_names(answer(*most, twenty))
    pointed = (b"\0", 5, b"\1a" * 20 + b"\0")
    with pytest.raises(dns.exception.FormError, match="the names have more"):
        check_names(answer(pointed, *most))


@given(st.binary(max_size=80))
def test_bytes_that_are_no_answer_are_refused_or_left_to_the_parser(rest: bytes) -> None:
    with suppress(dns.exception.FormError):
        check_names(struct.pack("!6H", 1, 0x8180, 1, 3, 0, 0) + rest)


@pytest.mark.parametrize(
    "wire",
    [b"", answer((b"\0", 1, b"\1\1\1\1"))[:-5], answer((b"\0", 5, b"\3abc"))[:-4]],
    ids=["nothing", "half a record", "half a name"],
)
def test_what_ends_too_early_is_left_to_the_parser(wire: bytes) -> None:
    check_names(wire)
    with pytest.raises(dns.exception.FormError):
        dns.message.from_wire(wire)


def test_an_answer_that_was_cut_off_within_a_record_is_known_as_truncated() -> None:
    whole = answer((b"\0", 1, b"\1\1\1\1"))
    wire = whole[:2] + bytes([whole[2] | 2]) + whole[3:-6]  # with the flag TC (RFC 1035 §4.1.1)
    check_names(wire)
    with pytest.raises(dns.message.Truncated):
        dns.message.from_wire(wire, raise_on_truncation=True)


@pytest.mark.parametrize(
    "wire",
    [answer((b"\xc0\x13", 1, b"\1\1\1\1")), answer((b"\0", 5, b"\xc0\x1e"))],
    ids=["a name that begins with itself", "an alias that does"],
)
def test_a_name_that_never_ends_is_refused(wire: bytes) -> None:
    with pytest.raises(dns.exception.FormError):
        check_names(wire)


@pytest.mark.parametrize("labels", [MAX_LABELS, MAX_LABELS + 1])
def test_a_name_that_is_all_in_pieces_far_away_is_followed_to_its_end(labels: int) -> None:
    """Each label is at a place of its own, followed by a pointer to the next one."""
    first = len(answer((b"\0", 41, bytes(300))))
    pieces = b"".join(b"\1a" + struct.pack("!H", 0xC000 | first + 4 * number) for number in range(1, labels))
    data = bytes(300) + pieces + b"\1a\0"
    with nullcontext() if labels == MAX_LABELS else pytest.raises(dns.exception.FormError, match="a name has more"):
        check_names(answer((b"\0", 41, data), (struct.pack("!H", 0xC000 | first), 1, b"\1\1\1\1")))
