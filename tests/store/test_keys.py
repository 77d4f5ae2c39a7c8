"""Ids that carry their partition, and keys that carry it as a hash tag (DESIGN 4)."""

import re
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from uuid import RFC_4122, UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.store import ids, keys


@pytest.mark.parametrize("new", [ids.new_id, ids.unlisted_id])
@given(partition=st.integers(0, ids.PARTITIONS - 1))
def test_an_id_says_its_partition(new: Callable[[int], str], partition: int) -> None:
    made = new(partition)
    assert UUID(made).variant == RFC_4122
    assert ids.partition_of_id(made) == partition
    assert UUID(made).version == 7
    assert ids.is_id(made)


@pytest.mark.parametrize("new", [ids.new_id, ids.unlisted_id])
def test_ids_of_one_partition_are_distinct_and_in_order_of_time(new: Callable[[int], str]) -> None:
    made = [new(5) for _ in range(1000)]
    assert len(set(made)) == 1000
    assert [text[:13] for text in made] == sorted(text[:13] for text in made)


def test_an_unlisted_id_cannot_be_guessed_from_the_one_before() -> None:
    """The ids of the library count up within a millisecond: one id would reveal all but the last 32 bits of the
    next.
    """
    tails = [UUID(ids.unlisted_id()).int & (2**62 - 1) for _ in range(2000)]
    steps = [abs(after - before) for before, after in pairwise(tails)]
    assert min(steps) > 2**34
    ones = [sum(tail >> bit & 1 for tail in tails) for bit in range(62)]
    # Each bit is set about half of the time: a tolerance of 9 standard deviations.
    assert all(800 < count < 1200 for count in ones)


def test_processes_that_are_forked_make_different_ids() -> None:
    """Random numbers are fetched many at a time, and a child must not continue with those of its parent."""
    program = (
        "import os; from node.store import ids; ids.unlisted_id(); child = os.fork();"
        "os.write(1, ''.join(ids.unlisted_id() + ' ' for _ in range(50)).encode()); child and os.waitpid(child, 0)"
    )
    made = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.split()
    assert len({each[-16:] for each in made}) == len(made) == 100


@given(st.text())
def test_what_is_no_id_is_known_by_its_form(text: str) -> None:
    assert ids.is_id(text) == bool(re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", text, re.ASCII))


@given(st.lists(st.text(), min_size=1))
def test_every_text_has_a_partition(parts: list[str]) -> None:
    assert 0 <= ids.partition_of(*parts) < ids.PARTITIONS


@pytest.mark.parametrize("make", [keys.thread, keys.replies, keys.task, keys.session, keys.lines, keys.artifact])
def test_the_key_of_an_entity_has_the_tag_of_its_partition(make: "type[str]") -> None:
    made = ids.new_id(0x2A)
    assert make(made).split(":")[1:] == ["{2a}", made]


def test_digests_keep_their_parts_apart() -> None:
    assert ids.digest("ab", "c") != ids.digest("a", "bc")
    assert ids.digest("ab", b"c") == ids.digest("ab", "c")
