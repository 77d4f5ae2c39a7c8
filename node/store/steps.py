"""Lua steps as typed Python functions, whose parameters are the keys and arguments that the script's header names.

    @step
    def limit_refund(*, rate: Key, site: Key, at: int) -> None:
        \"\"\"Stop counting a request in a client's limit.\"\"\"

    reply = await store.run(limit_refund(rate=keys.rate(...), site=keys.rate(...), at=taken.at))

The type checker checks every call. When the module is imported, the parameters' names, order and kinds are compared
with the header of `lua/limit_refund.lua`. A last parameter of type `Rest` takes any number of arguments, as
`-- ARGV[7...] fields` does. Keys and arguments that many steps share are one parameter: a struct with a field for each
(`idempotency.Once`).
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, cast, get_type_hints

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
    """Turn a declared function into one that returns a Step of `lua/<its name>.lua`.

    Raises ScriptError if its parameters do not match the script's header. An argument of a type that Redis does not
    have, such as None, is refused when the step is sent (CommandFailed).
    """
    loaded = script(declared.__name__)
    parameters = inspect.signature(declared).parameters
    values = _values(loaded, parameters)
    keys, args = ("".join(f"{values[name]}, " for name in names) for names in (loaded.keys, loaded.args))
    rest = f"*{loaded.rest}, " if loaded.rest else ""
    # Generated, like the methods of dataclasses: a function with `**given` would make a dictionary at each call.
    namespace: dict[str, Any] = {"_Step": Step, "_script": loaded}
    exec(f"def call(*, {', '.join(parameters)}): return _Step(_script, ({keys}), ({args}{rest}))", namespace)  # noqa: S102
    call: Callable[P, Step] = namespace["call"]
    call.__name__, call.__doc__ = declared.__name__, declared.__doc__
    return call


def _values(loaded: Script, parameters: Mapping[str, inspect.Parameter]) -> dict[str, str]:
    """Return the Python expression for each name of the header. Raises ScriptError if parameters and header differ."""
    values: dict[str, str] = {}
    own: list[tuple[str, str]] = []
    shared: list[tuple[str, str]] = []
    for name, parameter in parameters.items():
        if parameter.kind is not parameter.KEYWORD_ONLY:
            raise ScriptError(f"{loaded.name}: {name} must be given by name; begin the parameters with *")
        if fields := _fields(parameter.annotation):
            shared += [(field, _kind(annotation)) for field, annotation in fields.items()]
            values |= {field: f"{name}.{field}" for field in fields}
        else:
            own.append((name, _kind(parameter.annotation)))
            values[name] = name
    header = [*((name, "key") for name in loaded.keys), *((name, "argument") for name in loaded.args)]
    header += [(loaded.rest, "rest")] if loaded.rest else []
    if own != [each for each in header if each not in shared] or not set(shared) <= set(header):
        raise ScriptError(f"{loaded.name}: its header names {header}, the function {[*own, *shared]}")
    return values


def _fields(annotation: object) -> dict[str, Any]:
    """Return the fields of a struct with their types; none for any other type."""
    is_struct = isinstance(annotation, type) and issubclass(annotation, msgspec.Struct)
    return get_type_hints(cast("type[object]", annotation)) if is_struct else {}


def _kind(annotation: object) -> str:
    return "key" if annotation is Key else "rest" if annotation == Rest else "argument"
