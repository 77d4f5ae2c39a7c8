"""What counts as the same JSON."""

import json

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.common.canonical_json import canonical, repeats_a_name


def of(raw: bytes) -> bytes:
    return canonical(raw, orjson.loads(raw))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b'{"a":1,"b":[true,null]}', b'{ "b" : [ true, null ], "a" : 1 }'),
        (b'{"a":{"y":1,"x":2}}', b'{"a":{"x":2,"y":1}}'),
        (b'"\\u00e9"', '"é"'.encode()),
        (b"1.50", b"1.5"),
    ],
)
def test_spaces_order_and_escapes_make_no_difference(one: bytes, other: bytes) -> None:
    assert of(one) == of(other)


@pytest.mark.parametrize("step", [1, -1])
def test_an_object_may_have_as_many_names_as_fit_into_a_body(step: int) -> None:
    names = [f"{number:06d}" for number in range(100_000)]
    assert of(json.dumps({"first": 1} | dict.fromkeys(names[::step], 1)).encode()).startswith(b'{"000000":1,"000001":1')


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b'{"n":123456789012345678901}', b'{"n":123456789012345678902}'),
        (b"0.12345678901234567890", b"0.12345678901234567891"),
        (b"1e-400", b"1e-500"),
        (b"[1,2]", b"[2,1]"),
        (b"1", b'"1"'),
    ],
)
def test_what_is_different_is_never_the_same(one: bytes, other: bytes) -> None:
    assert of(one) != of(other)


VALUES = st.recursive(
    st.none() | st.text() | st.floats(allow_nan=False, allow_infinity=False),
    lambda each: st.lists(each) | st.dictionaries(st.text(), each),
)


@given(VALUES, st.booleans())
def test_a_document_of_unique_names_repeats_none(value: object, ascii_only: bool) -> None:
    assert not repeats_a_name(json.dumps(value, ensure_ascii=ascii_only).encode(), value)


@pytest.mark.parametrize(
    "raw",
    [b'{"a":1,"a":1}', b'[{"b":{"a":1,"\\u0061":2}}]', rb'{"a":"x","a":"\u0022\u0022\u0022\u0022"}', b'{"":0,"":0}'],
)
def test_a_name_that_is_there_twice_is_seen(raw: bytes) -> None:
    assert repeats_a_name(raw, orjson.loads(raw))
