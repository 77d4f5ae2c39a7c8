"""JSON documents with a repeated name."""

import json

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.common.repeated_names import repeats_a_name, without_repetition

VALUES = st.recursive(
    st.none() | st.text() | st.floats(allow_nan=False, allow_infinity=False),
    lambda each: st.lists(each) | st.dictionaries(st.text(), each),
)


@given(VALUES, st.booleans())
def test_a_document_of_unique_names_repeats_none(value: object, ascii_only: bool) -> None:
    assert not repeats_a_name(json.dumps(value, ensure_ascii=ascii_only).encode(), value)


def test_what_only_looks_like_an_escaped_quotation_mark_is_none() -> None:
    raw = rb'{"a":"\\u0022 \\\\u0022 \\\u0022"}'
    assert not repeats_a_name(raw, orjson.loads(raw))


@pytest.mark.parametrize(
    "raw",
    [b'{"a":1,"a":1}', b'[{"b":{"a":1,"\\u0061":2}}]', rb'{"a":"x","a":"\u0022\u0022\u0022\u0022"}', b'{"":0,"":0}'],
)
def test_a_name_that_is_there_twice_is_seen(raw: bytes) -> None:
    assert repeats_a_name(raw, orjson.loads(raw))
    with pytest.raises(ValueError, match="twice"):
        json.loads(raw, object_pairs_hook=without_repetition)
