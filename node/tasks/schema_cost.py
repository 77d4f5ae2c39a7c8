"""Calculates the most that checking a value against a JSON Schema can cost, from the schema alone.

Every value of a result is evaluated by some parts (subschemas) of the schema: those that `properties` or `items` lead
to, and those that they refer to in turn. If twenty parts each refer to the next one twice, the last one evaluates the
same value a million times. So the walk adds up, for each kind of value, the work that may be done at one place of the
result. It refuses a schema if that work grows without end, or beyond `MAX_AT_ONE_PLACE`.

Work is counted in units of about 50 ns, as measured with jsonschema-rs 0.60: a keyword takes one unit, comparing a
number that is not an integer 60, and comparing a number with a large exponent 600.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast
from urllib.parse import unquote

MAX_AT_ONE_PLACE = 2000
"""Most units at one place. With the most expensive schema, a result of some fifty values can still be checked."""

MAX_NODES = 800
"""Most parts of a schema, each counted once for every place at which it is evaluated."""

ROUNDS = 8
"""Most rounds in which the costs of parts that refer to each other must settle."""

MAX_LOOKS = 10_000
"""Most visits to the parts below others, in all rounds; each takes 3 µs. Four hundred members that all refer to the
whole schema take 300,000."""

MAX_PATTERNS = 16

MAX_TRANSLATION = 100_000
"""Most work, in units of 50 ns, to translate the patterns of a schema into those of the engine. The translation reads
the whole pattern again for each character class that the engine does not have (measured with jsonschema-rs 0.60)."""

TRANSLATED_BYTES = 30
"""Bytes by which a pattern grows with each such class."""

NUMBER_UNITS = 60
"""Units to compare a number that is not an integer."""
EXOTIC_UNITS = 600
"""Units to compare a number whose exponent is large."""

TRIVIAL_PER_UNIT = 16
"""How many parts that are just `true` or `false` take one unit together."""

COMPARE_UNITS = 6
"""Units to compare with an object or a list in a `const` or `enum`, in addition to its contents."""

DIALECT = "https://json-schema.org/draft/2020-12/schema"
IN_PLACE = ("allOf", "anyOf", "oneOf")
"""Keywords with a list of schemas that apply to the same place."""
ALONE = ("not", "if", "then", "else")
"""Keywords with one schema that applies to the same place."""
DEPENDENCIES = "dependencies"
"""Older keyword for what is now `dependentSchemas` and `dependentRequired`. The engine still applies it."""
SCHEMAS_BY_NAME = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", DEPENDENCIES)
DATA = ("const", "enum", "default", "examples")
"""Keywords whose value is data and not a schema."""
MEMBERS = ("properties", "patternProperties", "additionalProperties", "unevaluatedProperties", "propertyNames")
ITEMS = ("prefixItems", "items", "contains", "unevaluatedItems")
LEADING = frozenset((*MEMBERS, *ITEMS))
"""Keywords whose schemas apply to members and items."""
LIMITS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")

_TRANSLATED = re.compile(rb"\\[cdDsSwW]")
_FLAGS = re.compile(r"\\.|(?P<flags>\(\?(?!P<)[-a-zA-Z])", re.DOTALL)
"""Matches flags within a pattern, which JSON Schema does not have, or an escaped character. Ignoring the case of a
large character class takes 2 ms, and 16 KiB have room for two thousand of them."""

Node = dict[str, Any]


class SchemaFault(Exception):
    """The schema is not accepted. `path` leads to the fault in it."""

    def __init__(self, message: str, *path: str | int) -> None:
        super().__init__(message)
        self.message = message
        self.path = path


class TooDear(SchemaFault):
    """Checking a value against the schema takes too much work."""

    def __init__(self) -> None:
        super().__init__("takes too much work to check: let fewer parts look at the same value")


class CheckCost(NamedTuple):
    """Units at one place, by the kind of value there, and counts of work that also depends on the rest of the result
    (`result_schema.units_of`).
    """

    objects: int = 0
    arrays: int = 0
    scalars: int = 0
    numbers: int = 0
    """Comparisons of numbers."""
    pairs: int = 0
    """How often all items of a list are compared with each other (`uniqueItems`)."""
    scans: int = 0
    """Total size of the patterns that a string is matched with, in halves of a KiB."""

    def plus(self, other: "CheckCost", times: int = 1) -> "CheckCost":
        """Return the sum of both, with `other` taken `times` times."""
        a, b, c, d, e, f = other
        return CheckCost(
            self[0] + times * a,
            self[1] + times * b,
            self[2] + times * c,
            self[3] + times * d,
            self[4] + times * e,
            self[5] + times * f,
        )

    def or_else(self, other: "CheckCost") -> "CheckCost":
        """Return the larger of both, member by member."""
        return CheckCost(*map(max, self, other))


NONE = CheckCost()


class SchemaWalk:
    """Walks the parts of one schema and adds up their costs. Raises SchemaFault."""

    def __init__(self, schema: Node, halves_of: Callable[[str], int]) -> None:
        """`halves_of`: the size of a pattern in halves of a KiB. Raises SchemaFault for one that is not accepted."""
        self._halves_of = halves_of
        self._root = schema
        self._anchors: dict[str, Any] = {}
        self._patterns: dict[str, int] = {}
        for path, node in _objects(schema):
            self._note(path, node)
        self._closures: dict[int, list[Node]] = {}
        self._costs: dict[int, CheckCost] = {}
        self._entries: dict[int, Node] = {}
        self._own_costs: dict[int, CheckCost] = {}
        self._nodes = 0
        self._looks = 0
        self._translation = 0

    def cost(self) -> CheckCost:
        """Return the cost of the whole schema: the most work at one place of a value."""
        self._enter(self._root)
        for _ in range(ROUNDS):
            before = dict(self._costs)
            for node in reversed(list(self._entries.values())):
                self._costs[id(node)] = self._of(node)
            if self._costs == before:
                return self._costs[id(self._root)]
        raise TooDear

    def _note(self, path: tuple[str | int, ...], node: Node) -> None:
        """Note the anchors that references may name, and refuse keywords that would lead out of the schema."""
        for word in ("$anchor", "$dynamicAnchor"):
            if isinstance(name := node.get(word), str):
                if name in self._anchors:
                    raise SchemaFault("defines the same anchor a second time", *path, word)
                self._anchors[name] = None if _is_data(path) else node
        if path and isinstance(node.get("$id"), str):
            raise SchemaFault("is allowed only at the root of the schema", *path, "$id")
        dialect = node.get("$schema", DIALECT)
        if isinstance(dialect, str) and dialect.rstrip("#") != DIALECT:
            raise SchemaFault(f"must be {DIALECT}", *path, "$schema")
        for word in ("$ref", "$dynamicRef"):
            target = node.get(word)
            if isinstance(target, str) and not target.startswith("#"):
                raise SchemaFault("must point into the schema itself, such as #/$defs/...", *path, word)

    def _enter(self, node: Node) -> None:
        """Note a part that is evaluated at a place of its own (an entry), and all such parts below it."""
        waiting = [node]
        while waiting:
            entry = waiting.pop()
            if id(entry) in self._entries:
                continue
            self._entries[id(entry)] = entry
            self._costs[id(entry)] = NONE
            closure: list[Node] = []
            self._close(entry, closure, set())
            self._closures[id(entry)] = closure
            for part in closure:
                waiting += [child for _, children in _below(part) for child in children]

    def _close(self, node: Node, closure: list[Node], open_: set[int]) -> None:
        """Add all parts that are evaluated at the same place as `node` to `closure`, once for each evaluation."""
        if id(node) in open_:
            raise SchemaFault("refers to itself at the same place, without an end")
        # The dialect has no list of `items`. But nothing checks that below an unknown keyword, where a reference may
        # lead, and the engine would apply such a list.
        if isinstance(node.get("items"), list):
            raise SchemaFault("has a list as items; use prefixItems instead")
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise TooDear
        closure.append(node)
        open_.add(id(node))
        # To find out what the parts beside such a keyword have evaluated, the engine evaluates them once more.
        times = 2 if "unevaluatedProperties" in node or "unevaluatedItems" in node else 1
        for part in self._beside(node):
            for _ in range(times):
                self._close(part, closure, open_)
        open_.discard(id(node))

    def _beside(self, node: Node) -> Iterator[Node]:
        for word in ("$ref", "$dynamicRef"):
            if isinstance(target := node.get(word), str):
                yield from _parts([self._target(target)])
        for word in IN_PLACE:
            yield from _parts(_list(node.get(word)))
        yield from _parts(node[word] for word in ALONE if word in node)
        for word in ("dependentSchemas", DEPENDENCIES):
            yield from _parts(_dict(node.get(word)).values())

    def _target(self, reference: str) -> Any:
        fragment = unquote(reference[1:])
        if not fragment.startswith("/"):
            found = self._anchors.get(fragment) if fragment else self._root
            if found is None:
                raise SchemaFault(f"{reference[:80]} points to nothing")
            return found
        found: Any = self._root
        path = tuple(step.replace("~1", "/").replace("~0", "~") for step in fragment[1:].split("/"))
        if _is_data(path):
            raise SchemaFault(f"{reference[:80]} points to no schema")
        for name in path:
            if isinstance(found, dict) and name in found:
                found = cast("Node", found)[name]
            elif isinstance(found, list) and re.fullmatch("0|[1-9][0-9]{0,4}", name) and int(name) < len(found):  # pyright: ignore[reportUnknownArgumentType]
                found = cast("list[Any]", found)[int(name)]
            else:
                raise SchemaFault(f"{reference[:80]} points to nothing")
        return found

    def _of(self, entry: Node) -> CheckCost:
        """Return the most work at an entry's own place or at one below it, by the costs of other entries so far."""
        own, closure = NONE, self._closures[id(entry)]
        names: dict[str, CheckCost] = {}
        others, members, items = NONE, NONE, NONE
        for part in closure:
            if id(part) not in self._own_costs:
                self._own_costs[id(part)] = self._own(part)
            own = own.plus(self._own_costs[id(part)])
            if part.keys().isdisjoint(LEADING):
                continue
            below = {kind: [self._costs[id(child)] for child in children] for kind, children in _below(part)}
            self._looks += sum(map(len, below.values()))
            if self._looks > MAX_LOOKS:
                raise TooDear
            other = _sum(below.get("additionalProperties", []))
            others = others.plus(other)
            for name, cost in zip(_subschemas(_dict(part.get("properties"))), below.get("properties", []), strict=True):
                names[name] = names.get(name, NONE).plus(cost).plus(other, -1)
            items = items.plus(_most(below.get("prefixItems", [])))
            for kind in ("items", "contains", "unevaluatedItems"):
                items = items.plus(_sum(below.get(kind, [])))
            for kind in ("patternProperties", "unevaluatedProperties", "propertyNames"):
                members = members.plus(_sum(below.get(kind, [])))
        members = members.plus(others).plus(_most(names.values()))
        most = own.or_else(items).or_else(members)
        if max(most.objects, most.arrays, most.scalars, most.pairs * 10, most.scans * 10) > MAX_AT_ONE_PLACE:
            raise TooDear
        return most

    def _own(self, node: Node) -> CheckCost:
        """Return the work of one part itself, without the parts that it refers to."""
        units = 1 + len(node)
        compared = [node["const"]] if "const" in node else _list(node.get("enum"))
        sizes = [_size(value) for value in compared]
        compares, numbers = sum(size for size, _ in sizes), sum(number for _, number in sizes)
        limits = [node[word] for word in LIMITS if word in node]
        units += compares + sum(map(_limit_units, limits))
        units += sum(len(_list(node.get(word))) for word in IN_PLACE) // TRIVIAL_PER_UNIT
        wanted = len(_list(node.get("required"))) + sum(
            1 + len(_list(names))
            for word in ("dependentRequired", DEPENDENCIES)
            for names in _dict(node.get(word)).values()
        )
        wanted += len(_dict(node.get("dependentSchemas")))
        scans = sum(self._halves(pattern) for pattern in _dict(node.get("patternProperties")))
        if isinstance(pattern := node.get("pattern"), str):
            scans += self._halves(pattern)
        return CheckCost(
            objects=units + wanted,
            arrays=units,
            scalars=units + NUMBER_UNITS * numbers,
            numbers=numbers + len(limits),
            pairs=int(node.get("uniqueItems") is True),
            scans=scans,
        )

    def _halves(self, pattern: str) -> int:
        if pattern not in self._patterns:
            if len(self._patterns) == MAX_PATTERNS:
                raise SchemaFault(f"has more than {MAX_PATTERNS} different patterns")
            if any(found["flags"] for found in _FLAGS.finditer(pattern)):
                raise SchemaFault(f"the pattern {pattern[:50]!r} has flags; leave out (?i) and the like")
            self._translation += _translation(pattern.encode())
            if self._translation > MAX_TRANSLATION:
                raise TooDear
            self._patterns[pattern] = self._halves_of(pattern)
        return self._patterns[pattern]


def _below(node: Node) -> Iterator[tuple[str, list[Node]]]:
    """Yield the parts for the members and items of a value, by keyword."""
    for word in ("properties", "patternProperties"):
        if parts := list(_subschemas(_dict(node.get(word))).values()):
            yield word, parts
    if parts := list(_parts(_list(node.get("prefixItems")))):
        yield "prefixItems", parts
    for word in (*MEMBERS[2:], *ITEMS[1:]):
        if isinstance(part := node.get(word), dict):
            yield word, [cast("Node", part)]


def _subschemas(members: Node) -> dict[str, Node]:
    return {name: part for name, part in members.items() if isinstance(part, dict)}


def _parts(values: Iterable[Any]) -> Iterator[Node]:
    """Yield the values that are schemas with keywords. The schemas true and false are counted by TRIVIAL_PER_UNIT."""
    return (cast("Node", value) for value in values if isinstance(value, dict))


def _most(costs: Iterable[CheckCost]) -> CheckCost:
    most = NONE
    for cost in costs:
        most = most.or_else(cost)
    return most


def _sum(costs: Iterable[CheckCost]) -> CheckCost:
    total = NONE
    for cost in costs:
        total = total.plus(cost)
    return total


def _is_data(path: Sequence[str | int]) -> bool:
    """Return whether the path leads into a keyword's data, which is not a schema."""
    before = ("", *path)
    return any(step in DATA and last not in SCHEMAS_BY_NAME for last, step in zip(before, path, strict=False))


def _limit_units(limit: Any) -> int:
    if isinstance(limit, int):
        return 0
    return NUMBER_UNITS if isinstance(limit, float) and 1e-9 < abs(limit) < 1e15 else EXOTIC_UNITS


def _size(value: Any) -> tuple[int, int]:
    """Return the units to compare with a value, and how many numbers are in it."""
    if isinstance(value, dict):
        inner = [_size(member) for member in cast("Node", value).values()]
    elif isinstance(value, list):
        inner = [_size(item) for item in cast("list[Any]", value)]
    else:
        return 1, int(isinstance(value, int | float) and not isinstance(value, bool))
    return COMPARE_UNITS + sum(size for size, _ in inner), sum(numbers for _, numbers in inner)


def _objects(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Node]]:
    """Yield every object in a value, at any depth, with its path."""
    if isinstance(value, dict):
        yield path, cast("Node", value)
    members = cast("Iterable[tuple[str | int, Any]]", value.items() if isinstance(value, dict) else enumerate(value))
    for name, member in members:
        if isinstance(member, dict | list):
            yield from _objects(member, (*path, name))


def _translation(pattern: bytes) -> int:
    count = len(_TRANSLATED.findall(pattern))
    return count * (len(pattern) + TRANSLATED_BYTES * count)


def _dict(value: Any) -> Node:
    return cast("Node", value) if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []
