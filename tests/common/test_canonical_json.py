"""Which JSON texts count as equal."""

import json

import orjson
import pytest

from node.common.canonical_json import canonical


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
        (b"-1e-400", b"-1e-500"),
        (b"[1,2]", b"[2,1]"),
        (b"1", b'"1"'),
    ],
)
def test_what_is_different_is_never_the_same(one: bytes, other: bytes) -> None:
    assert of(one) != of(other)
