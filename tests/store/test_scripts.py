"""The Lua loader: headers that are used, includes that are checked, and two forms of each step."""

from pathlib import Path

import pytest

from node.store import CommandFailed, RedisReply, Script, Store
from node.store.scripts import ScriptError, compile_script
from node.store.steps import Step
from tests.support.scripts import all_scripts

HEADER = """#!lua
-- KEYS[1] counter  a key
-- ARGV[1] step  how much
-- Returns the count
-- Slot of the counter
"""
COUNT = HEADER + "return redis.call('INCRBY', counter, step)\n"


def test_every_step_of_the_folder_compiles() -> None:
    for script in all_scripts():
        assert script.single_source.startswith("#!lua")
        assert script.single_sha != script.batch_sha


async def test_the_names_of_the_header_are_locals_of_the_step(store: Store) -> None:
    script = compile_script("count", COUNT, Path())
    assert (script.keys, script.args) == (("counter",), ("step",))
    assert await store.run(Step(script, ["c"], [5])) == 5


async def test_a_header_may_let_any_number_of_arguments_follow(store: Store) -> None:
    text = HEADER.replace("ARGV[1] step", "ARGV[1...] fields") + "return #ARGV\n"
    script = compile_script("many", text, Path())
    assert [await store.run(Step(script, ["c"], list(range(n)))) for n in (0, 1, 7)] == [0, 1, 7]


async def batch(store: Store, script: Script, *calls: tuple[str, int]) -> RedisReply:
    """Return the answers to a batch of calls with one key and one argument each."""
    await store.everywhere("SCRIPT", "LOAD", script.batch_source)
    return await store.command(*script.batch([([key], [arg]) for key, arg in calls]))


async def test_one_call_of_a_batch_may_fail_alone(store: Store) -> None:
    text = HEADER + "if step == '0' then return redis.error_reply('ERR zero') end\nreturn {step, false, nil}\n"
    script = compile_script("picky", text, Path())
    reply = await batch(store, script, ("a", 1), ("b", 0), ("c", 3))
    assert isinstance(reply, list)
    assert reply[0] == [b"1", None]
    assert "zero" in str(reply[1])
    assert reply[2] == [b"3", None]


async def test_a_call_that_answers_nothing_leaves_the_others_their_answers(store: Store) -> None:
    text = HEADER + "if step == '0' then return nil end\nreturn step\n"
    script = compile_script("silent", text, Path())
    assert await batch(store, script, ("a", 0), ("b", 2)) == [None, b"2"]


async def test_a_step_with_an_error_is_a_bug(store: Store) -> None:
    script = compile_script("broken", HEADER + "return nothing.at_all\n", Path())
    with pytest.raises(CommandFailed):
        await store.run(Step(script, ["c"], [1]))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (COUNT.replace("#!lua\n", ""), "first line"),
        (COUNT.replace("-- Returns the count\n", ""), "returns"),
        (COUNT.replace("-- Slot of the counter\n", ""), "slot"),
        (COUNT.replace("-- KEYS[1] counter  a key\n", ""), "without keys"),
        (COUNT.replace("KEYS[1]", "KEYS[2]"), "numbered from 1"),
        (COUNT.replace("KEYS[1] counter", "KEYS[1...] counter"), "fixed number"),
        (HEADER + "return redis.call('GET', 'built:' .. step)\n", "built inside"),
        (HEADER + "-- include nowhere\nreturn 1\n", "nowhere.lua is not in"),
    ],
)
def test_a_step_that_breaks_the_contract_is_refused(text: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(ScriptError, match=why):
        compile_script("bad", text, tmp_path)


def test_a_circular_include_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.lua").write_text("-- include b\nlocal function a() end\n")
    (tmp_path / "b.lua").write_text("-- include a\nlocal function b() end\n")
    with pytest.raises(ScriptError, match="circular include a -> b -> a"):
        compile_script("loop", HEADER + "-- include a\nreturn 1\n", tmp_path)


def test_a_fragment_that_two_others_need_is_joined_once(tmp_path: Path) -> None:
    (tmp_path / "now.lua").write_text("local function now() end\n")
    (tmp_path / "a.lua").write_text("-- include now\nlocal function a() end\n")
    (tmp_path / "b.lua").write_text("-- include now\nlocal function b() end\n")
    script = compile_script("both", HEADER + "-- include a\n-- include b\nreturn 1\n", tmp_path)
    assert script.single_source.count("local function now()") == 1
