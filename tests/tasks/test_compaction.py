"""A contract packed into one string is the same contract, whatever it holds."""

import zlib
from random import Random
from typing import cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.store import Store
from node.tasks.compaction import DICTIONARY, FIELDS, NEAR, RESULT, head_size, pack, unpack, unpack_head, with_head
from node.tasks.store import TaskStore
from tests.support.interrupted import Interrupted
from tests.support.node_under_test import NodeUnderTest
from tests.tasks.calls import TASKS, act, claimed

VALUES = st.binary(max_size=200) | st.text(max_size=100).map(str.encode) | st.integers(0, 2**70).map(b"%d".__mod__)
MARK = b"\xffhead\xff\xfe\xff"
CONTRACTS = st.dictionaries(st.sampled_from(FIELDS) | st.binary(max_size=12), VALUES)


@given(CONTRACTS)
def test_what_was_packed_comes_back_byte_for_byte(fields: dict[bytes, bytes]) -> None:
    assert unpack(pack(fields)) == fields


@pytest.mark.parametrize(
    "value", [b"", b"0", b"007", b"-1", b"+1", b" 1", b"1_0", b"9" * 30, b"9" * 5000, b"null", b"\xff"]
)
def test_what_looks_like_a_number_comes_back_as_it_was(value: bytes) -> None:
    """For example, a description of thousands of digits must not prevent its contract from being compacted."""
    assert unpack(pack({b"attempt": value, b"else": value})) == {b"attempt": value, b"else": value}


@given(CONTRACTS, st.integers(NEAR, 3 * NEAR), st.booleans(), st.integers().map(Random))
def test_a_large_result_is_apart_from_the_rest(
    fields: dict[bytes, bytes], size: int, shrinks: bool, random: Random
) -> None:
    fields |= {RESULT: b"x" * size if shrinks else random.randbytes(size)}
    rest = {name: value for name, value in fields.items() if name != RESULT}
    packed = pack(fields)
    needed = head_size(packed[-NEAR:])
    assert needed is not None
    assert unpack_head(packed[-max(needed, NEAR) :]) == rest
    assert unpack(packed) == fields
    assert with_head(packed) is None


@given(CONTRACTS)
def test_other_contracts_need_no_head(fields: dict[bytes, bytes]) -> None:
    """This includes a long contract, and one whose text ends like a string with a head."""
    for last in (MARK, b"\x00\x00\x00\x09" + MARK, b"long words " * 1000 + MARK):
        packed = pack(fields | {b"last": last})
        assert head_size(packed) is None
        assert unpack(packed) == fields | {b"last": last}


@pytest.mark.parametrize("shrinks", [True, False])
def test_a_string_from_before_there_were_heads_is_given_one(usual: dict[bytes, bytes], shrinks: bool) -> None:
    """The string may be in either format, deflated or not, whichever was shorter."""
    fields = usual | {RESULT: b"x" * 60_000}
    content = msgspec.msgpack.encode([fields.get(name) for name in FIELDS])
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15, zdict=DICTIONARY)
    before = b"\x01" + deflate.compress(content) + deflate.flush() if shrinks else b"\x00" + content
    assert head_size(before) is None
    after = with_head(before)
    assert after
    assert (unpack(after), unpack(before)) == (fields, fields)
    assert unpack_head(after[-NEAR:]) == {name: value for name, value in fields.items() if name != RESULT}


def test_a_string_of_an_unknown_format_is_not_guessed_at() -> None:
    with pytest.raises(ValueError, match="format"):
        unpack(b"\x07what")


def test_a_usual_contract_takes_less_than_half(usual: dict[bytes, bytes]) -> None:
    plain = sum(len(name) + len(value) for name, value in usual.items())
    assert len(pack(usual)) < plain / 2


def test_the_format_stays_readable(usual: dict[bytes, bytes]) -> None:
    """Strings of this format are in every node's Redis. A change of order or dictionary needs a new format number."""
    assert unpack(bytes.fromhex(KEPT)) == usual


async def test_a_contract_that_ends_after_it_was_read_is_not_compacted_as_it_was(node: NodeUnderTest) -> None:
    """The contract has as many fields as before, since the end of its lease was removed and the time of its end was
    added. Otherwise the end would be lost.
    """
    task = await claimed(node, lease_seconds=60)

    async def cancel() -> None:
        await act(node, task, "cancel", publisher_token=task["publisher_token"])

    interrupted = cast("Store", Interrupted(node.store, cancel))
    assert await TaskStore(interrupted, 60).compact([task["id"]]) == 0
    assert (await node.client.get(f"{TASKS}/{task['id']}")).json()["status"] == "canceled"


@pytest.fixture
def usual() -> dict[bytes, bytes]:
    return {
        b"kind": b"contract",
        b"status": b"completed",
        b"attempt": b"1",
        b"created_at": b"1795000000000",
        b"publisher_id": b"report-desk",
        b"title": b"Summarise a report about solar panels",
        b"assignee_id": b"summary-agent",
        b"claim": b"0123456789abcdef0123456789abcdef",
        b"claimed_at": b"1795000001000",
        b"completed_at": b"1795000002000",
        b"result_payload": b'{"summary":"Panels work.","pages":[1,2]}',
    }


KEPT = (
    "01bbc3207c8403267984135576e1bbb0388623dc10ffe902a328fb882ac2b189708f2701431218333989450a058979a939c5"
    "078ef042430ae2c0230a068646c626a666e616968949c929a969e87ca875892fa08cd40b078e6854238737d860b0c7f48011"
    "51003417182bd1863a46b1b507c00000"
)
