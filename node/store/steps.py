"""A Lua step as one typed Python function: its parameters are the keys and arguments that the script's header names.

    @step
    def limit_refund(*, rate: Key, at: int) -> None:
        \"\"\"A request in a client's limit that does not count after all.\"\"\"

    reply = await store.run(limit_refund(rate=keys.rate(...), at=taken.at))

The type checker sees every call. That names, order and kinds are those of `lua/limit_refund.lua` is checked when the
module is imported. A last parameter of type `Rest` takes any number of arguments, as `-- ARGV[7...] fields` does.
"""

import inspect
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec

import msgspec

from node.store.keys import Key
from node.store.scripts import Arg, Script, ScriptError, script

Rest = Sequence[Arg]
"""Any number of arguments, such as the fields of a record: name, value, name, value."""

P = ParamSpec("P")

__all__ = ["Key", "Rest", "Step", "step"]


class Step(msgspec.Struct, frozen=True, gc=False):
    """One call of a script, ready to be sent."""

    script: Script
    keys: Sequence[str]
    args: Sequence[Arg]


def step(declared: Callable[P, None]) -> Callable[P, Step]:
    """Make a function that gives a Step of `lua/<its name>.lua`.

    Raises ScriptError if its parameters are not those of the script's header. An argument that Redis does not have,
    such as None, is refused where the step is sent (CommandFailed).
    """
    loaded = script(declared.__name__)
    _check(loaded, declared)
    parameters = ", ".join(inspect.signature(declared).parameters)
    keys, args = ("".join(f"{name}, " for name in names) for names in (loaded.keys, loaded.args))
    rest = f"*{loaded.rest}, " if loaded.rest else ""
    # Generated, as the methods of dataclasses are: a function with `**given` would make a dictionary at each call.
    namespace: dict[str, Any] = {"_Step": Step, "_script": loaded}
    exec(f"def call(*, {parameters}): return _Step(_script, ({keys}), ({args}{rest}))", namespace)  # noqa: S102
    call: Callable[P, Step] = namespace["call"]
    call.__name__, call.__doc__ = declared.__name__, declared.__doc__
    return call


def _check(loaded: Script, declared: Callable[..., None]) -> None:
    found: dict[str, list[str]] = {"keys": [], "args": [], "rest": []}
    for name, parameter in inspect.signature(declared).parameters.items():
        if parameter.kind is not parameter.KEYWORD_ONLY:
            raise ScriptError(f"{loaded.name}: {name} must be given by name; begin the parameters with *")
        kind = "keys" if parameter.annotation is Key else "rest" if parameter.annotation == Rest else "args"
        found[kind].append(name)
    expected = {"keys": [*loaded.keys], "args": [*loaded.args], "rest": [loaded.rest] if loaded.rest else []}
    if found != expected:
        raise ScriptError(f"{loaded.name}: its header names {expected}, the function {found}")
