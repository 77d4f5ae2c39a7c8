"""Contracts that specify the form of their result (NETWORK 4: JSON Schema 2020-12)."""

from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from node.common.refusal import Invalid, Refused
from node.store import keys
from node.tasks.result_schema import MAX_UNITS, check_of, require_schema, require_shape, units_of
from node.tasks.schema_cost import SchemaWalk
from tests.support.answers import refused
from tests.support.effort import tries
from tests.support.node_under_test import NodeUnderTest
from tests.tasks.calls import OFFER, TASKS, act, claimed, offered

REPORT = {
    "type": "object",
    "required": ["title", "panels"],
    "additionalProperties": False,
    "properties": {
        "title": {"type": "string", "pattern": "^[A-Z]"},
        "panels": {"type": "array", "items": {"$ref": "#/$defs/panel"}, "minItems": 1},
    },
    "$defs": {"panel": {"type": "object", "required": ["watts"], "properties": {"watts": {"type": "number"}}}},
}
GOOD = {"title": "Panels", "panels": [{"watts": 1.5}]}
ALWAYS = {"type": ["null", "boolean", "number", "string", "array", "object"]}


async def complete(node: NodeUnderTest, task: dict[str, Any], result: object) -> Any:
    return await act(node, task, "complete", claim_token=task["claim_token"], result_payload=result)


async def refusal_of(node: NodeUnderTest, schema: object) -> tuple[int, str, list[Any], str]:
    """Return how an offer with that schema is refused: status, code, place and message."""
    response = await node.client.post(TASKS, json=OFFER | {"result_schema": schema})
    fault = response.json()["detail"][0]
    return response.status_code, response.headers["x-error-code"], fault["loc"], fault["msg"]


async def test_a_result_of_another_shape_is_refused_with_the_paths_and_the_claim_stands(node: NodeUnderTest) -> None:
    task = await claimed(node, result_schema=REPORT)
    wrong = await complete(node, task, {"title": "panels", "panels": [{"watts": "1"}, {}], "extra": 1})
    assert wrong.status_code == 422
    places = {tuple(fault["loc"]) for fault in wrong.json()["detail"]}
    root = ("body", "result_payload")
    assert places == {root, (*root, "title"), (*root, "panels", 0, "watts"), (*root, "panels", 1)}
    seen = (await node.client.get(f"{TASKS}/{task['id']}")).json()
    assert (seen["status"], "result_payload" in seen) == ("claimed", False)
    done = await complete(node, task, GOOD)
    assert (done.status_code, done.json()["status"]) == (200, "completed")
    assert (await complete(node, task, GOOD)).json() == done.json()
    assert refused(await complete(node, task, {"title": 5})) == (409, "task.completed")


async def test_no_reader_of_a_result_sees_a_member_that_was_not_checked(node: NodeUnderTest) -> None:
    task = await claimed(node, result_schema=REPORT)
    result = msgspec.Raw(b'{"title":"Panels","panels":"none","panels":[{"watts":1.5}]}')
    twice = msgspec.json.encode({"claim_token": task["claim_token"], "result_payload": result})
    path, headers = f"{TASKS}/{task['id']}/complete", {"content-type": "application/json"}
    wrong = await node.client.post(path, content=twice, headers=headers)
    assert wrong.status_code == 422
    assert wrong.json()["detail"][0]["msg"] == "has an object with two members of the same name"
    assert (await complete(node, task, GOOD)).json()["status"] == "completed"


async def test_the_schema_is_shown_to_whoever_reads_or_claims(node: NodeUnderTest) -> None:
    task = await claimed(node, result_schema=REPORT)
    assert task["result_schema"] == REPORT
    assert (await node.client.get(f"{TASKS}/{task['id']}")).json()["result_schema"] == REPORT
    other = await offered(node, result_schema=REPORT)
    assert other["result_schema"] == REPORT
    next_one = await node.client.post(f"{TASKS}/claim-next", json={"assignee_id": "worker"})
    assert next_one.json()["result_schema"] == REPORT
    assert "result_schema" not in await offered(node)


async def test_a_transition_does_not_go_round_the_schema(node: NodeUnderTest) -> None:
    task = await claimed(node, result_schema=ALWAYS)
    move = {"actor_id": "summary-agent"}
    assert (await act(node, task, "transition", **move)).json()["status"] == "in_progress"
    assert refused(await act(node, task, "transition", **move)) == (409, "task.result")


async def test_a_result_is_checked_before_it_is_reviewed(node: NodeUnderTest) -> None:
    task = await claimed(node, result_schema=REPORT, review_seconds=60)
    assert (await complete(node, task, None)).status_code == 422
    assert (await complete(node, task, GOOD)).json()["status"] == "submitted"


@pytest.mark.parametrize(
    ("schema", "loc", "why"),
    [
        ({"type": "sting"}, ["type"], "is no type; the types are array, boolean"),
        ({"properties": {"a": {"minLength": -1}}}, ["properties", "a", "minLength"], "minimum"),
        ({"$ref": "https://example.com/schema.json"}, ["$ref"], "into the schema itself"),
        ({"$defs": {"a": {"$ref": "other.json"}}}, ["$defs", "a", "$ref"], "into the schema itself"),
        ({"$ref": "#/$defs/nothing"}, [], "points to nothing"),
        ({"$ref": "#nothing"}, [], "points to nothing"),
        ({"const": {"$anchor": "data"}, "$ref": "#data"}, [], "points to nothing"),
        ({"const": {}, "$ref": "#/const"}, [], "points to no schema"),
        ({"$defs": {"a": {"$anchor": "it"}, "b": {"$anchor": "it"}}}, ["$defs", "b", "$anchor"], "second time"),
        ({"allOf": [{"$ref": "#"}]}, [], "without an end"),
        ({"$schema": "http://json-schema.org/draft-07/schema#"}, ["$schema"], "2020-12"),
        ({"properties": {"a": {"$id": "https://example.com/a"}}}, ["properties", "a", "$id"], "only at the root"),
        ({"pattern": "(?=a)b"}, [], "look-around"),
        ({"pattern": "("}, [], "not a regular expression"),
        ({"allOf": [{"pattern": f"^{n}$"} for n in range(17)]}, [], "more than 16 different patterns"),
        ({"pattern": r"\p{L}{500}"}, [], "too large"),
        # Compiling a case-insensitive class of all characters, two thousand times, would take a minute.
        ({"pattern": "(?i)" + r"\p{Any}" * 2_000}, [], "has flags"),
        ({"patternProperties": {r"(?x)a( ?i)": True}}, [], "has flags"),
        ({"description": "x" * 17_000}, [], "16384 bytes"),
        ({"minimum": 10**400}, [], "too large"),
        # A list of items is not part of the dialect, but the engine applies it below a keyword that it does not know.
        ({"$ref": "#/a", "a": {"items": [{"anyOf": [{"$ref": "#/a"}] * 2}]}}, [], "prefixItems"),
    ],
)
async def test_a_schema_that_cannot_be_used_is_refused_when_it_is_offered(
    node: NodeUnderTest, schema: object, loc: list[str], why: str
) -> None:
    status, _, where, message = await refusal_of(node, schema)
    assert (status, where) == (422, ["body", "result_schema", *loc])
    assert why in message


@pytest.mark.parametrize(
    "schema",
    [
        # Each part looks at the same value through two others, so after twenty of them it is looked at a million times.
        {f"a{n}": {"anyOf": [{"$ref": f"#/a{n + 1}"}] * 2} for n in range(20)} | {"a20": ALWAYS, "$ref": "#/a0"},
        # The same with a keyword of an earlier dialect, which the engine still applies.
        {f"a{n}": {"dependencies": {k: {"$ref": f"#/a{n + 1}"} for k in "ab"}} for n in range(20)}
        | {"a20": ALWAYS, "$ref": "#/a0"},
        {"items": {"dependencies": {f"{n}": ["a"] for n in range(1000)}}},
        # The cost doubles at each level of the value.
        {"anyOf": [{"items": {"$ref": "#"}}, {"items": {"$ref": "#"}}]},
        {"$anchor": "all", "items": {"oneOf": [{"$ref": "#all"}, {"$dynamicRef": "#all"}]}},
        {"items": {"allOf": [{"const": n} for n in range(300)]}},
        # The cost of a member depends on all others: finding it out would take half a second.
        {"properties": {f"{n}": {"$ref": "#"} for n in range(390)}},
        # The engine compiles the pattern again for each of them: together, this would take two minutes.
        {"pattern": r"\w" * 5_000},
        {"patternProperties": {r"[\cA]" * 2_000: True}},
        {"allOf": [{"pattern": rf"^{n}" + r"\d" * 20} for n in range(16)]},
    ],
)
async def test_a_schema_that_is_too_dear_to_check_is_refused_when_it_is_offered(
    node: NodeUnderTest, schema: object
) -> None:
    status, code, where, _ = await refusal_of(node, schema)
    assert (status, code, where) == (422, "task.schema_dear", ["body", "result_schema"])


@pytest.mark.parametrize(
    "schema",
    [
        {"$defs": {"tree": {"properties": {"l": {"$ref": "#/$defs/tree"}, "r": {"$ref": "#/$defs/tree"}}}}},
        {
            "oneOf": [
                {"properties": {"add": {"$ref": "#"}, "to": {"$ref": "#"}}},
                {"properties": {"neg": {"$ref": "#"}}},
            ]
        },
        {"properties": {f"p{n}": {"type": "string", "maxLength": 9} for n in range(250)}},
        {
            "$defs": {"all": {"properties": {f"p{n}": {"$ref": "#/$defs/all"} for n in range(40)}}},
            "$ref": "#/$defs/all",
        },
        {"enum": [f"a rather long choice {n}" for n in range(300)]},
        {"allOf": [{"pattern": f"^{n % 16}$"} for n in range(32)]},
        {"pattern": r"^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)$"},
        {"allOf": [{"pattern": rf"^\(?{n}\)?\s*(?<n>\w+)@(?:\w+\.)+\w+$"} for n in range(16)]},
    ],
)
def test_usual_schemas_are_taken(schema: dict[str, Any]) -> None:
    require_schema(schema)


async def test_a_result_that_takes_too_long_to_check_is_refused_and_the_claim_stands(node: NodeUnderTest) -> None:
    task = await claimed(node, result_schema={"items": {"pattern": "[ab]*a[ab]{60}c"}})
    response = await complete(node, task, ["ab" * 10_000])
    assert refused(response) == (422, "task.result_large")
    assert response.json()["detail"][0]["loc"] == ["body", "result_payload"]
    assert (await complete(node, task, ["c"])).status_code == 422
    assert (await complete(node, task, [])).status_code == 200


@pytest.mark.parametrize("schema", [{"pattern": "(?i)a"}, {"properties": {f"{n}": {"$ref": "#"} for n in range(390)}}])
async def test_no_result_is_taken_by_a_schema_that_is_not_accepted_here_any_more(
    node: NodeUnderTest, schema: dict[str, Any]
) -> None:
    """Such a schema may come from another node, with an import."""
    task = await claimed(node, result_schema=ALWAYS)
    await node.store.command("HSET", keys.task(task["id"]), "result_schema", msgspec.json.encode(schema))
    assert refused(await complete(node, task, GOOD)) == (422, "task.schema_dear")
    assert (await act(node, task, "release", claim_token=task["claim_token"])).status_code == 200


@pytest.mark.parametrize("word", ["allOf", "anyOf", "oneOf"])
def test_thousands_of_parts_that_are_true_or_false_are_no_free_work(word: str) -> None:
    """Comparing fifty thousand values with three thousand such parts each would take a quarter of a second."""
    schema = require_schema({"items": {word: [word == "allOf"] * 2_700}})
    with pytest.raises(Refused, match=r"task\.result_large"):
        require_shape(schema, msgspec.json.encode([1] * 20_000))


def test_of_many_faults_some_are_told_and_of_a_large_result_none_is_singled_out() -> None:
    schema = require_schema({"items": {"type": "string"}})
    for items, told, deep in ((100, 10, True), (5_000, 1, True), (20_000, 1, False)):
        with pytest.raises(Invalid) as invalid:
            require_shape(schema, msgspec.json.encode([0] * items))
        assert (len(invalid.value.issues), len(invalid.value.issues[0].loc) > 2) == (told, deep)


def test_of_alternatives_it_is_told_that_none_fits() -> None:
    schema = require_schema({"properties": {"a": {"anyOf": [{"type": "string"}, {"oneOf": [{"type": "null"}]}]}}})
    with pytest.raises(Invalid) as invalid:
        require_shape(schema, b'{"a":1}')
    assert [(issue.loc[2:], issue.msg) for issue in invalid.value.issues] == [(("a",), "this does not match anyOf")]


@pytest.mark.parametrize("other", [5, None, "anything", {}])
def test_what_is_below_an_unknown_keyword_is_no_schema(other: Any) -> None:
    note = {"anyOf": [{"type": "null"}], "allOf": other}
    schema = require_schema({"required": ["a"], "x-note": note, "properties": {"b": {"anyOf": [{"type": "null"}]}}})
    with pytest.raises(Invalid) as invalid:
        require_shape(schema, b'{"b":1}')
    assert {issue.msg for issue in invalid.value.issues} == {
        '"a" is a required property',
        "this does not match anyOf",
    }


@pytest.mark.parametrize(
    ("result", "said"),
    [(b'"{}"', "a string"), (b"null", "null"), (b"[{}]", "an array"), (b"true", "a boolean"), (b"1.5", "a number")],
)
def test_a_value_of_another_type_is_told_of_which_it_is(result: bytes, said: str) -> None:
    """For a result sent as the text of its JSON, or left out, it would not help to say only that "this" is no
    object.
    """
    with pytest.raises(Invalid) as invalid:
        require_shape(require_schema({"type": "object"}), result)
    assert [issue.msg for issue in invalid.value.issues] == [f'this is {said}, not of type "object"']


def test_nothing_is_fetched_and_numbers_with_large_exponents_cost_more() -> None:
    schema = require_schema(
        {"$id": "https://example.com/", "items": {"$ref": "#/$defs/n"}, "$defs": {"n": {"minimum": 0}}}
    )
    assert check_of(schema).faults(b"[1]") == []
    cost = SchemaWalk({"minimum": 0}, len).cost()
    assert units_of(cost, b"[1e99]") > 100 * units_of(cost, b"[1]")
    whole, half, large, small = (
        units_of(SchemaWalk({"minimum": n}, len).cost(), b"[1]") for n in (1, 0.5, 1e99, 1e-99)
    )
    assert whole < half < large == small
    with pytest.raises(Refused, match=r"task\.result_large"):
        require_shape(schema, b"[" + b"1e99," * (MAX_UNITS // 600) + b"1]")


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats(0, 1)
    | st.sampled_from(["a", "b", "#", "#/$defs/a", "string"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2),
    max_leaves=5,
)
PART: st.SearchStrategy[dict[str, Any]] = st.deferred(
    lambda: st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["string", "object", "array", "integer", "null"]),
            "const": JSON,
            "enum": st.lists(JSON, min_size=1, max_size=3),
            "required": st.just(["a"]),
            "properties": st.dictionaries(st.sampled_from(["a", "b", "anyOf", "const"]), PART, max_size=2),
            "additionalProperties": PART | st.booleans(),
            "items": PART | st.booleans(),
            "prefixItems": st.lists(PART, min_size=1, max_size=2),
            "contains": PART,
            "anyOf": st.lists(PART, min_size=1, max_size=3),
            "oneOf": st.lists(PART, min_size=1, max_size=2),
            "allOf": st.lists(PART, min_size=1, max_size=2),
            "not": PART,
            "uniqueItems": st.booleans(),
            "$ref": st.sampled_from(["#", "#/$defs/a", "#/properties/a", "#/anyOf/0"]),
            "unevaluatedProperties": st.booleans(),
            "$defs": st.dictionaries(st.just("a"), PART, max_size=1),
            "pattern": st.sampled_from(["^a", "b+", "(a|b)*$", "(?=a)", "["]),
            "minimum": st.integers(-2, 2) | st.floats(0, 2),
        },
    )
)


@tries(100)
@given(PART, st.lists(JSON, max_size=4))
def test_whatever_the_schema_a_result_is_taken_or_told_what_is_wrong(
    schema: dict[str, Any], results: list[Any]
) -> None:
    try:
        kept = require_schema(schema)
    except (Invalid, Refused):
        return
    check = check_of(kept)
    for result in results:
        faults = check.faults(msgspec.json.encode(result))
        assert (not faults) == cast("Any", Draft202012Validator(schema)).is_valid(result)
        assert all(fault.loc[:2] == ("body", "result_payload") for fault in faults)


@pytest.mark.parametrize(
    "schema",
    [
        {"anyOf": [{"properties": {"watts": True}}], "unevaluatedProperties": False},
        {"anyOf": [{"required": ["watts"]}], "properties": {"of": {"$ref": "#/anyOf/0"}}},
    ],
)
def test_what_only_the_alternatives_explain_is_a_fault_of_the_whole_result(schema: dict[str, Any]) -> None:
    """Nobody knows which alternative was meant, so no fault is looked for inside them."""
    [fault] = check_of(msgspec.json.encode(schema)).faults(b'{"of": {}}')
    assert (fault.loc, fault.msg) == (("body", "result_payload"), "does not match result_schema")
