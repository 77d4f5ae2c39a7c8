"""Loads the Lua steps in `lua/` and makes two forms of each for Redis. `lua/README.md` is their contract.

The header of a step is checked and used, so it cannot become false: the names it gives to KEYS and ARGV are the local
variables of the body, and every call must supply exactly these (`steps.py`). `-- include NAME` inserts
`lua/lib/NAME.lua`, a fragment with one function. A missing or circular include stops the node at its start.

The single form runs the step once. The batch form runs it for many callers in one EVALSHA (group commit), each call
under `pcall`, so that an error in one call is the reply to that call alone.
"""

import re
from collections.abc import Sequence
from functools import cache
from hashlib import sha1
from pathlib import Path

import msgspec

Arg = str | bytes | int | float

_PACKAGED = Path(__file__).parent.parent / "lua"
_CHECKOUT = Path(__file__).parent.parent.parent / "lua"
FOLDER = _PACKAGED if _PACKAGED.is_dir() else _CHECKOUT

_HEADER = re.compile(r"-- (KEYS|ARGV)\[(\d+)(\.\.\.)?\] (\w+)")
_INCLUDE = re.compile(r"^-- include (\w+)$", re.MULTILINE)

_BATCH = """
local replies = {{}}
local key, arg = 1, 2
local keys_each = {keys}
for call = 1, tonumber(ARGV[1]) do
  local count = tonumber(ARGV[arg])
  local keys, args = {{}}, {{}}
  for i = 1, keys_each do keys[i] = KEYS[key]; key = key + 1 end
  for i = 1, count do args[i] = ARGV[arg + i] end
  arg = arg + count + 1
  local done, reply = pcall(step, keys, args)
  if done then
    -- Redis would end the list of replies at a nil.
    if reply == nil then reply = false end
    replies[call] = reply
  elseif type(reply) == 'table' then
    replies[call] = reply
  else
    replies[call] = {{ err = 'ERR ' .. tostring(reply) }}
  end
end
return replies
"""


class ScriptError(Exception):
    """A Lua file breaks the contract of lua/README.md. The node does not start."""


class Script(msgspec.Struct, frozen=True):
    """One atomic step, ready to be sent."""

    name: str
    keys: tuple[str, ...]
    args: tuple[str, ...]
    rest: str
    """The name of the variadic trailing arguments; empty if the step has none."""
    single_source: str
    single_sha: str
    batch_source: str
    batch_sha: str

    def single(self, keys: Sequence[str], args: Sequence[Arg]) -> list[Arg]:
        """Return the EVALSHA of one call."""
        return ["EVALSHA", self.single_sha, len(keys), *keys, *args]

    def batch(self, calls: Sequence[tuple[Sequence[str], Sequence[Arg]]]) -> list[Arg]:
        """Return the EVALSHA of several calls, all in one slot. Its reply is the list of their replies."""
        command: list[Arg] = ["EVALSHA", self.batch_sha, len(calls) * len(self.keys)]
        for keys, _ in calls:
            command += keys
        command.append(len(calls))
        for _, args in calls:
            command.append(len(args))
            command += args
        return command

    def sources(self) -> dict[str, str]:
        """Return the source of both forms, by SHA-1, for SCRIPT LOAD."""
        return {self.single_sha: self.single_source, self.batch_sha: self.batch_source}


@cache
def script(name: str) -> Script:
    """Load `lua/<name>.lua`. Raises ScriptError."""
    return compile_script(name, _read(FOLDER / f"{name}.lua"), FOLDER / "lib")


def compile_script(name: str, text: str, library: Path) -> Script:
    """Make a Script from a step's text. Raises ScriptError."""
    shebang, _, rest = text.partition("\n")
    if not shebang.startswith("#!lua"):
        raise ScriptError(f"{name}: the first line must be #!lua, or it would go on writing when memory is full")
    if "-- Returns" not in rest or "-- Slot" not in rest:
        raise ScriptError(f"{name}: the header must say what it returns and in which slot it runs")
    keys, _ = _named(name, rest, "KEYS")
    args, others = _named(name, rest, "ARGV")
    if not keys:
        raise ScriptError(f"{name}: a step without keys cannot be routed")
    if built := re.search(r"redis\.p?call\('\w+', *['\"]", rest):
        raise ScriptError(f"{name}: key built inside the script: {built[0]}")
    library_text = "".join(_includes(name, rest, library, ()).values())
    names = _locals(keys, "KEYS") + _locals(args, "ARGV")
    single = f"{shebang}\n{library_text}{names}{rest}"
    step = f"local function step(KEYS, ARGV)\n{names}{rest}\nend\n"
    batch = f"{shebang}\n{library_text}{step}{_BATCH.format(keys=len(keys))}"
    return Script(
        name=name,
        keys=keys,
        args=args,
        rest=others,
        single_source=single,
        single_sha=sha1(single.encode(), usedforsecurity=False).hexdigest(),
        batch_source=batch,
        batch_sha=sha1(batch.encode(), usedforsecurity=False).hexdigest(),
    )


def _named(name: str, text: str, table: str) -> tuple[tuple[str, ...], str]:
    found = [match.groups() for match in _HEADER.finditer(text) if match[1] == table]
    if [int(number) for _, number, _, _ in found] != list(range(1, len(found) + 1)):
        raise ScriptError(f"{name}: {table} in the header must be numbered from 1 without a gap")
    if any(rest for _, _, rest, _ in found[:-1]):
        raise ScriptError(f"{name}: only the last of {table} may repeat")
    variadic = bool(found) and bool(found[-1][2])
    if variadic and table == "KEYS":
        raise ScriptError(f"{name}: a step has a fixed number of keys")
    names = tuple(label for _, _, _, label in found)
    return (names[:-1], names[-1]) if variadic else (names, "")


def _locals(names: Sequence[str], table: str) -> str:
    return "".join(f"local {label} = {table}[{number}] " for number, label in enumerate(names, 1))


def _includes(name: str, text: str, library: Path, chain: tuple[str, ...]) -> dict[str, str]:
    joined: dict[str, str] = {}
    for fragment in _INCLUDE.findall(text):
        if fragment in chain:
            raise ScriptError(f"{name}: circular include {' -> '.join((*chain, fragment))}")
        body = _read(library / f"{fragment}.lua")
        joined |= _includes(name, body, library, (*chain, fragment))
        joined.setdefault(fragment, body + "\n")
    return joined


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ScriptError(f"{path.name} is not in {path.parent.name}/") from None
