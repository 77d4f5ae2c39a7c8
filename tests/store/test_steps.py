"""Steps: a function declares what its script's header names, and what it is given is what is sent."""

from pathlib import Path
from typing import Protocol

import msgspec
import pytest

from node.store import CommandFailed, Store, steps
from node.store.scripts import Arg, Script, ScriptError, compile_script, script
from node.store.steps import Key, Rest, Step, step

RATE = Key("rate:{00}:relay:203.0.113.7")


def limit_take(*, rate: Key, site: Key, count: int, site_count: int, seconds: int) -> None:
    """Declares the same parameters as lua/limit_take.lua."""


def test_the_values_are_sent_in_the_order_of_the_header_whatever_theirs() -> None:
    made = step(limit_take)(seconds=60, rate=RATE, count=10, site_count=80, site=RATE)
    assert made == Step(script("limit_take"), (RATE, RATE), (10, 80, 60))


async def test_a_step_runs_as_its_script_says(store: Store) -> None:
    take = step(limit_take)
    taking = take(rate=RATE, site=RATE, count=1, site_count=1, seconds=60)
    (first, *_), (second, *_) = [await store.run(taking) for _ in range(2)]  # type: ignore[misc, union-attr]
    assert (first, second) == (1, 0)


def test_a_step_is_called_after_its_script_and_keeps_its_docstring() -> None:
    made = step(limit_take)
    assert (made.__name__, made.__doc__) == ("limit_take", limit_take.__doc__)


def test_a_function_without_a_script_is_no_step() -> None:
    def limit_give(*, rate: Key) -> None: ...

    with pytest.raises(ScriptError, match="limit_give"):
        step(limit_give)


def refused(declared: object) -> None:
    declared.__name__ = "limit_take"  # type: ignore[attr-defined]
    with pytest.raises(ScriptError, match="limit_take: its header names"):
        step(declared)  # type: ignore[arg-type]


def test_another_name_than_the_headers_is_refused() -> None:
    def renamed(*, rate: Key, site: Key, count: int, site_count: int, window: int) -> None: ...

    refused(renamed)


def test_a_name_too_many_or_too_few_is_refused() -> None:
    def more(*, rate: Key, site: Key, count: int, site_count: int, seconds: int, client: str) -> None: ...

    def fewer(*, rate: Key, site: Key, count: int, site_count: int) -> None: ...

    def with_rest(*, rate: Key, site: Key, count: int, site_count: int, seconds: int, fields: Rest) -> None: ...

    for declared in (more, fewer, with_rest):
        refused(declared)


def test_another_order_than_the_headers_is_refused() -> None:
    def swapped(*, rate: Key, site: Key, site_count: int, count: int, seconds: int) -> None: ...

    refused(swapped)


def test_a_key_that_is_declared_as_an_argument_is_refused_and_so_is_an_argument_as_a_key() -> None:
    def without_key(*, rate: str, site: Key, count: int, site_count: int, seconds: int) -> None: ...

    def too_many_keys(*, rate: Key, site: Key, count: Key, site_count: int, seconds: int) -> None: ...

    refused(without_key)
    refused(too_many_keys)


def test_parameters_have_to_be_given_by_name() -> None:
    def limit_take(rate: Key, site: Key, count: int, site_count: int, seconds: int) -> None: ...

    with pytest.raises(ScriptError, match="rate must be given by name"):
        step(limit_take)


class Counting(msgspec.Struct, frozen=True):
    rate: Key
    seconds: int


def test_a_struct_gives_what_its_fields_name_wherever_that_is_in_the_header() -> None:
    def limit_take(*, counting: Counting, site: Key, count: int, site_count: int) -> None: ...

    made = step(limit_take)(counting=Counting(RATE, 60), site=RATE, count=10, site_count=80)
    assert made == Step(script("limit_take"), (RATE, RATE), (10, 80, 60))


def test_a_struct_whose_fields_the_header_does_not_name_or_names_otherwise_is_refused() -> None:
    class Longer(Counting, frozen=True):
        window: int

    class Keyless(msgspec.Struct, frozen=True):
        rate: str
        seconds: int

    def longer(*, counting: Longer, site: Key, count: int, site_count: int) -> None: ...

    def keyless(*, counting: Keyless, site: Key, count: int, site_count: int) -> None: ...

    for declared in (longer, keyless):
        refused(declared)


async def test_none_is_no_value_of_redis(store: Store) -> None:
    with pytest.raises(CommandFailed, match=r"limit_take: .* str, int, float or bytes"):
        await store.run(step(limit_take)(rate=RATE, site=RATE, count=10, site_count=80, seconds=None))  # type: ignore[arg-type]


KEEP = """#!lua
-- KEYS[1] record  a hash
-- ARGV[1] life  milliseconds
-- ARGV[2...] fields  of the record
-- Returns the number of fields
-- Slot of the record
return #ARGV - 1
"""


class Keep(Protocol):
    def __call__(self, *, record: Key, life: int, fields: Rest) -> Step: ...


@pytest.fixture
def keep(monkeypatch: pytest.MonkeyPatch) -> Keep:
    """A step whose script takes any number of arguments."""

    def loaded(name: str) -> Script:
        return compile_script(name, KEEP, Path())

    monkeypatch.setattr(steps, "script", loaded)

    @step
    def keep(*, record: Key, life: int, fields: Rest) -> None: ...

    return keep


@pytest.mark.parametrize("fields", [(), ("title", "Hello"), ["body", b"bytes", "size", 5]])
async def test_the_rest_follows_the_arguments_as_it_is(keep: Keep, store: Store, fields: list[Arg]) -> None:
    made = keep(record=Key("record"), life=1000, fields=fields)
    assert (made.keys, made.args) == (("record",), (1000, *fields))
    assert await store.run(made) == len(fields)


async def test_the_rest_holds_no_none_either(keep: Keep, store: Store) -> None:
    with pytest.raises(CommandFailed, match=r"keep: .* str, int, float or bytes"):
        await store.run(keep(record=Key("record"), life=1000, fields=["title", None]))  # type: ignore[list-item]


def test_the_rest_is_declared_as_such(keep: Keep) -> None:
    def without(*, record: Key, life: int, fields: list[str]) -> None: ...

    without.__name__ = "keep"
    with pytest.raises(ScriptError, match="keep: its header names"):
        step(without)
