"""Finding out that a body is not worth reading costs little, whatever the body is made of."""

import sys
import tracemalloc
from types import FrameType
from typing import Any

import pytest

from node.common.refusal import Invalid
from node.tasks.model import Completion, NewClaim, NewTask
from node.web.http import MAX_BODY_BYTES
from node.web.json import decode
from node.web.json_cost import MAX_CONTAINERS, MAX_DEPTH, MAX_EXPONENTS, MAX_STRINGS, check_cost

SOME_LISTS = b"[]" * (MAX_DEPTH + 1)
"""Enough lists that the check looks at them."""


def filled(unit: bytes, before: bytes = b"", after: bytes = b"") -> bytes:
    """Return a body of the largest size."""
    return before + unit * ((MAX_BODY_BYTES - len(before) - len(after)) // len(unit)) + after


def lines_run(body: bytes) -> int:
    """Return how many lines of Python the check of a body runs."""
    lines = 0

    def count(_frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        check_cost(body, object)
    finally:
        sys.settrace(before)
    return lines


def bytes_taken(body: bytes) -> int:
    """Return the most memory that the check of a body takes at a time."""
    tracemalloc.start()
    try:
        check_cost(body, object)
    except Invalid:
        pass
    finally:
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    return most


def test_lists_may_be_too_deep_after_others_that_are_not() -> None:
    check_cost(b"[%b]" % b",".join([*[b"[]"] * MAX_DEPTH, b"[" * (MAX_DEPTH - 1) + b"]" * (MAX_DEPTH - 1)]), object)
    with pytest.raises(Invalid, match="more than 64 levels deep"):
        check_cost(b"[%b]" % b",".join([*[b"[]"] * MAX_DEPTH, b"[" * MAX_DEPTH + b"]" * MAX_DEPTH]), object)


def test_as_many_numbers_with_an_exponent_as_are_allowed_are_taken_and_no_more() -> None:
    numbers = [b"1e300"] * MAX_EXPONENTS
    check_cost(b"[%b]" % b",".join(numbers), NewTask)
    with pytest.raises(Invalid, match="more than 1000 numbers with an exponent"):
        check_cost(b"[%b]" % b",".join([*numbers, b"1E3"]), NewTask)


def test_as_many_texts_as_are_allowed_are_taken_and_no_more() -> None:
    texts = [b'"a\\""', *[b'"a"'] * (MAX_STRINGS - 1)]  # an escaped quote within a text begins no other text
    check_cost(b"[%b]" % b",".join(texts), NewClaim)
    with pytest.raises(Invalid, match="more than 20000 names and texts"):
        check_cost(b"[%b]" % b",".join([*texts, b'"a"']), NewClaim)


def test_what_follows_the_end_of_the_json_is_not_looked_at() -> None:
    """Going through a MiB of closing brackets one by one would take 70 ms."""
    assert lines_run(filled(b"]", SOME_LISTS)) <= lines_run(SOME_LISTS + b"]") + 2


@pytest.mark.parametrize("unit", [b'"', b'"]', b'"[', b'","{', b'"a",'])
def test_a_body_of_countless_strings_is_not_cut_into_as_many_pieces(unit: bytes) -> None:
    """Cutting a MiB of quotes into as many pieces would take 0.1 s and 46 MB."""
    assert bytes_taken(filled(unit, SOME_LISTS)) < 8 * MAX_BODY_BYTES


def test_as_many_lists_as_are_allowed_may_stand_between_as_many_texts() -> None:
    texts = b'"[",' * (MAX_CONTAINERS // 2)
    lists = b'"[",[],"{{",' * (MAX_CONTAINERS - 1)
    check_cost(b"[" + texts + lists + b'"]"]', object)
    with pytest.raises(Invalid, match="more than 20000 objects and lists"):
        check_cost(b"[" + texts + lists + b'"]",[]]', object)


def test_only_a_type_with_room_for_json_of_any_kind_may_hold_any_number_of_texts() -> None:
    body = filled(b'"a",', b'{"claim_token":"t","result_payload":[', b'"a"]}')
    check_cost(body, Completion)
    with pytest.raises(Invalid, match="more than 20000 names and texts"):
        check_cost(body, NewClaim)


def test_half_of_a_surrogate_pair_is_named_wherever_it_is() -> None:
    body = filled(b"\\\\\\ud83d\\ude00", b'{"body":"', b'\\ud83d"}')
    with pytest.raises(Invalid, match=rf"\\ud83d at character {len(body) - 8} is half of a surrogate pair"):
        decode(body, object)
