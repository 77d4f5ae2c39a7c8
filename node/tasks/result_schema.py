"""The JSON Schema that a contract's result must fit: judged when the contract is offered, applied to its results.

A check blocks the event loop. So an upper bound of its duration is calculated first, from the size of the result and
the cost of the schema (`schema_cost`), and a check that could take too long is refused. Patterns are matched without
backtracking, and their size is bounded.
"""

import re
from bisect import bisect_left
from functools import cached_property, lru_cache
from typing import Any, cast

import msgspec
import orjson
from jsonschema_rs import Draft202012Validator, RegexOptions, ValidationError

from node.common.refusal import Invalid, Issue, Refused
from node.common.repeated_names import repeats_a_name
from node.tasks.schema_cost import DATA, EXOTIC_UNITS, SCHEMAS_BY_NAME, CheckCost, SchemaFault, SchemaWalk, TooDear

MAX_SCHEMA_BYTES = 16_384
"""Largest schema, in bytes of JSON."""

MAX_UNITS = 100_000
"""Most work of one check, in units of about 50 ns: 5 ms."""

EXPLAINED_UNITS = 2_000
"""If a check takes more units than this, only the first fault is reported. Reporting a fault takes some 10 µs."""

EXPLAINED_BYTES = 32_768
"""Largest result, in bytes, whose faults are reported one by one: each report holds the whole value at fault."""

MAX_FAULTS = 10
MAX_MESSAGE_LENGTH = 200
"""Characters of the report of one fault."""
RESULT = ("body", "result_payload")
SCHEMA = ("body", "result_schema")
COMPILED = 64
"""How many compiled schemas a process caches."""

PATTERN_HALVES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
"""Size classes of patterns, in halves of a KiB of the engine's compiled program."""

PAIRS_PER_UNIT = 16
"""Pairs of items that are compared in one unit."""

SCAN_UNITS = 3
"""Units to match one byte with half a KiB of a pattern, in the worst case: the engine follows all paths at once."""

_EXOTIC = re.compile(rb"[eE][-+]?[0-9]{2}|[0-9]{20}")
"""Finds a number that takes EXOTIC_UNITS to compare: an exponent of two digits, or twenty digits."""
_HIDDEN = '{"not":{"'
"""The beginning of a message about alternatives that `_without_contexts` has rewritten."""
_EITHER = ("anyOf", "oneOf")
_UNEVALUATED = (b'"unevaluatedProperties"', b'"unevaluatedItems"')
_OTHER_TYPE = "this is not of type"
_TYPES: dict[type, str] = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
_NO_TYPE = "is no type; the types are array, boolean, integer, null, number, object and string, or a list of these"


class ResultCheck:
    """Checks results against one schema."""

    def __init__(self, schema: bytes) -> None:
        """Raises SchemaFault for a schema that is not accepted."""
        try:
            parsed: Any = orjson.loads(schema)
        except orjson.JSONDecodeError:  # a number in a request may have any number of digits
            raise SchemaFault("has a number that is too large for comparisons") from None
        if not isinstance(parsed, dict):  # possible only for an imported contract
            raise SchemaFault("must be an object")
        parsed = cast("dict[str, Any]", parsed)
        try:
            self._cost = SchemaWalk(parsed, _halves).cost()
        except RecursionError:  # also only when imported: the JSON of a request has 64 levels at most
            raise SchemaFault("is nested too deeply") from None
        self._schema = schema
        try:
            self._validator = _compiled(parsed)
        except ValidationError as error:
            is_type = list(error.schema_path)[-2:] == ["type", "anyOf"]  # the rule of the metaschema for `type`
            message = _NO_TYPE if is_type else error.message[:MAX_MESSAGE_LENGTH]
            raise SchemaFault(message, *error.instance_path) from None

    def faults(self, result: bytes) -> list[Issue]:
        """Return what is wrong with a result, MAX_FAULTS issues at most; none if it fits.

        Raises Refused `task.result_large` for one that takes too long to check.
        """
        units = units_of(self._cost, result)
        if units > MAX_UNITS:
            raise Refused("task.result_large", loc=RESULT)
        value = orjson.loads(result)
        if repeats_a_name(result, value):  # a reader that takes the first would get an unchecked value
            return [Issue(RESULT, "has an object with two members of the same name", "value_error")]
        if self._validator.is_valid(value):
            return []
        return self._explained(value, every=units <= EXPLAINED_UNITS) if len(result) <= EXPLAINED_BYTES else [_unfit()]

    def _explained(self, value: object, *, every: bool) -> list[Issue]:
        if any(word in self._schema for word in _UNEVALUATED):  # these keywords need to know which alternative fits
            return [_unfit()]
        explaining = self._explaining
        if explaining is None:
            return [_unfit()]
        if every:
            return [_issue(error) for error in list(explaining.iter_errors(value))[:MAX_FAULTS]] or [_unfit()]
        try:
            explaining.validate(value)
        except ValidationError as error:
            return [_issue(error)]
        return [_unfit()]

    @cached_property
    def _explaining(self) -> Draft202012Validator | None:
        """The validator that reports faults; None if a reference leads into one of the alternatives."""
        try:
            return _compiled(_without_contexts(orjson.loads(self._schema)), mask="this")
        except ValidationError:
            return None


def require_schema(schema: dict[str, Any]) -> bytes:
    """Return the schema as it is stored. Raises Invalid if it is not accepted, Refused `task.schema_dear`."""
    kept = msgspec.json.encode(schema)
    try:
        require_stored(kept)
    except TooDear:
        raise Refused("task.schema_dear", loc=SCHEMA) from None
    except SchemaFault as fault:
        raise Invalid.field(*SCHEMA, *fault.path, msg=fault.message) from None
    return kept


def require_stored(schema: bytes) -> None:
    """Raise SchemaFault if a schema, given as it is stored, is not accepted."""
    if len(schema) > MAX_SCHEMA_BYTES:
        raise SchemaFault(f"must have at most {MAX_SCHEMA_BYTES} bytes of JSON")
    check_of(schema)


def require_shape(schema: bytes, result: bytes) -> None:
    """Check a result against a schema.

    Raises Invalid if the result does not fit, Refused `task.result_large` if the check would take too long, and Refused
    `task.schema_dear` if only another version of the node accepts the schema.
    """
    try:
        check = check_of(schema)
    except SchemaFault:
        raise Refused("task.schema_dear", loc=RESULT) from None
    if faults := check.faults(result):
        raise Invalid(faults)


@lru_cache(COMPILED)
def check_of(schema: bytes) -> ResultCheck:
    """Return the check for a schema, which is compiled once. Raises SchemaFault."""
    return ResultCheck(schema)


def units_of(cost: CheckCost, result: bytes) -> int:
    """Return how many units a check takes at most. Brackets and commas within strings count, too."""
    objects, arrays, scalars = result.count(b"{"), result.count(b"["), 1 + result.count(b",")
    values = objects + arrays + scalars
    units = objects * cost.objects + arrays * cost.arrays + scalars * cost.scalars
    units += cost.pairs * values * values // PAIRS_PER_UNIT + SCAN_UNITS * cost.scans * len(result)
    if cost.numbers and _EXOTIC.search(result):
        units += EXOTIC_UNITS * cost.numbers * scalars
    return units


def _compiled(schema: dict[str, Any], mask: str | None = None) -> Draft202012Validator:
    """Compile a schema. `mask` is the name of the value at fault in messages. Raises ValidationError."""
    options = RegexOptions(size_limit=PATTERN_HALVES[-1] * 512, dfa_size_limit=65_536)
    return Draft202012Validator(schema, mask=mask, pattern_options=options, offline=True)


def _halves(pattern: str) -> int:
    """Return the smallest of PATTERN_HALVES that a pattern fits in, found by bisection. Raises SchemaFault."""
    if not _fits(pattern, PATTERN_HALVES[-1]):
        raise SchemaFault(
            f"the pattern {pattern[:50]!r} is not accepted: it is not a regular expression, is too large, or uses "
            "look-around or backreferences"
        )
    last = len(PATTERN_HALVES) - 1
    return PATTERN_HALVES[bisect_left(PATTERN_HALVES, True, hi=last, key=lambda halves: _fits(pattern, halves))]


def _fits(pattern: str, halves: int) -> bool:
    options = RegexOptions(size_limit=halves * 512)
    try:
        Draft202012Validator({"pattern": pattern}, pattern_options=options, offline=True)
    except ValidationError:
        return False
    return True


def _without_contexts(schema: Any) -> Any:
    """Return a schema that accepts the same values, but reports a failed `anyOf` or `oneOf` without details.

    Otherwise the report would describe each alternative, and the alternatives within it, without a bound.
    """
    if isinstance(schema, list):
        return [_without_contexts(each) for each in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    node: dict[str, Any] = {}
    for name, each in cast("dict[str, Any]", schema).items():
        if name in SCHEMAS_BY_NAME and isinstance(each, dict):
            node[name] = {key: _without_contexts(value) for key, value in cast("dict[str, Any]", each).items()}
        else:
            node[name] = each if name in DATA else _without_contexts(each)
    all_of: Any = node.get("allOf", [])
    if not isinstance(all_of, list):  # below an unknown keyword, so this is no schema
        return node
    for word in _EITHER:
        if isinstance(node.get(word), list):
            node["allOf"] = all_of = [*cast("list[Any]", all_of), {"not": {"not": {word: node.pop(word)}}}]
    return node


def _issue(error: ValidationError) -> Issue:
    message = error.message[:MAX_MESSAGE_LENGTH]
    if message.startswith(_HIDDEN):
        word, _, _ = message.removeprefix(_HIDDEN).partition('"')
        message = f"this does not match {word}"
    elif message.startswith(_OTHER_TYPE):  # often a result that was sent as a string of JSON, or left out
        message = message.replace("is not", f"is {_TYPES.get(type(error.instance), 'a number')}, not", 1)
    return Issue((*RESULT, *error.instance_path), message, "value_error")


def _unfit() -> Issue:
    return Issue(RESULT, "does not match result_schema", "value_error")
