"""The client has every operation of the node, with the same fields: compared with the node's own OpenAPI document."""

import inspect
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints
from urllib.parse import parse_qsl, urlsplit

import pytest
from tests.support.nodes import NodeProcess

from relay_client import Relay
from relay_client.call import Call
from relay_client.resource import Iteration, Operation, Procedure, Resource

LEFT_TO_OTHERS = {
    "a2a": "a protocol with official clients",
    "mcp": "the same",
    "pages": "for browsers",
    "discovery": "files, for generators and models",
}
"""Tags of the operations for which the client has no methods, and why."""

A2A_OF_AN_INBOX = "/api/v1/inboxes/{address}/a2a"
ALIASES = {"/api/v1/board/{id}", "/api/v1/board/threads/{id}/replies"}
"""Alternative paths of operations."""

OTHERWISE = {"idempotency_key", "historyLength", "agent"}
"""Fields that methods need not have: the first is sent as a header, the second belongs to A2A, the third is another
name of a relayed message's author."""

A2A_QUERY = {"contextId", "pageSize", "pageToken", "historyLength", "includeArtifacts", "statusTimestampAfter"}

Described = dict[str, Any]


@pytest.fixture(scope="module")
def document(served: NodeProcess) -> Described:
    return json.loads(served.get("/openapi.json"))


def operations(document: Described) -> Iterator[tuple[str, str, Described]]:
    for path, methods in document["paths"].items():
        for method, described in methods.items():
            is_for_others = LEFT_TO_OTHERS.keys() & set(described["tags"]) or path.startswith(A2A_OF_AN_INBOX)
            if not is_for_others and path not in ALIASES:
                yield method.upper(), path, described


def resources() -> dict[str, Resource[Any]]:
    return {name: one for name, one in vars(Relay("http://node.example")).items() if isinstance(one, Resource)}


def methods() -> dict[str, Operation[..., Any]]:
    return {
        f"{type(resource).__name__}.{name}": one
        for resource in resources().values()
        for name, one in vars(type(resource)).items()
        if isinstance(one, Operation)
    }


SAMPLES: dict[str, Any] = {"digest_sha256": "00" * 32, "card": {}, "clear": (), "topic": "inbox:address"}


def sample(name: str, hint: Any) -> Any:
    """Return a value of the type `hint` that identifies the parameter `name`."""
    kinds = {get_origin(one) or one for one in (get_args(hint) if get_origin(hint) in {Union, UnionType} else (hint,))}
    if name in SAMPLES:
        return SAMPLES[name]
    if kinds & {int, float, bool}:
        return len(name)
    if kinds & {str, Literal}:
        return name
    return [name] if Sequence in kinds else {"name": name}


def call_of(method: Operation[..., Any]) -> Call[Any]:
    """Return the call that a method makes when it gets only its required arguments."""
    parameters, hints = list(inspect.signature(method.build).parameters.items())[1:], get_type_hints(method.build)
    return method.call(*[sample(name, hints[name]) for name, one in parameters if one.default is one.empty])


def place(method: str, path: str) -> str:
    return f"{method} {re.sub(r'{[^}]+}', '{}', path)}"


def places() -> dict[str, str]:
    """Return the names of the client's methods by HTTP method and path, with path parameters as `{}`."""
    found: dict[str, str] = {}
    for name, method in methods().items():
        call = call_of(method)
        path = call.path.partition("?")[0]
        for argument in inspect.signature(method.build).parameters:
            path = re.sub(rf"(?<=/){argument}(?=/|$)", "{}", path)
        found[place(call.method, path)] = name
    return found


def resolved(document: Described, schema: Any) -> Any:
    while "$ref" in schema:
        *_, kind, name = schema["$ref"].split("/")
        schema = document["components"][kind][name]
    return schema


def test_every_operation_of_the_node_has_a_method(document: Described) -> None:
    here = places()
    assert [f"{method} {path}" for method, path, _ in operations(document) if place(method, path) not in here] == []


def test_the_readme_has_every_method() -> None:
    rows = re.findall(
        r"^\| `(\w+)`[^|]*\| (`[^|]*) \|$", (Path(__file__).parents[1] / "README.md").read_text(), re.MULTILINE
    )
    told = {name: [re.findall(r"\w+", part) for part in listed.partition(";")[::2]] for name, listed in rows}
    for name, resource in resources().items():
        answering, iterating = told[name]
        kinds = [(one, kind) for one, kind in vars(type(resource)).items() if not one.startswith("_")]
        assert set(answering) == {one for one, kind in kinds if isinstance(kind, Operation | Procedure)}, name
        assert set(iterating) == {one for one, kind in kinds if isinstance(kind, Iteration)}, name


def test_methods_take_every_field_and_parameter(document: Described) -> None:
    here, all_methods = places(), methods()
    missing: list[str] = []
    for method, path, described in operations(document):
        name = here[place(method, path)]
        taken = set(inspect.signature(all_methods[name].build).parameters) | OTHERWISE | A2A_QUERY
        wanted = body_of(document, described).keys() | parameters_of(document, described, "query").keys()
        missing += [f"{name}: {field}" for field in sorted(wanted - taken)]
    assert missing == []


def whole_call(method: Operation[..., Any]) -> tuple[Call[Any], dict[str, Any]]:
    """Return the call that a method makes when it gets all its arguments, and those arguments."""
    hints = get_type_hints(method.build)
    given = {name: sample(name, hints[name]) for name in list(inspect.signature(method.build).parameters)[1:]}
    return method.call(**given), given


def parameters_of(document: Described, described: Described, where: str) -> dict[str, Described]:
    parameters = [resolved(document, one) for one in described.get("parameters", [])]
    return {one["name"]: one["schema"] for one in parameters if one["in"] == where}


def body_of(document: Described, described: Described) -> dict[str, Described]:
    body = described.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    return resolved(document, body).get("properties", {})


def in_url(value: Any) -> str:
    return ",".join(cast("list[str]", value)) if isinstance(value, list) else str(value)


def test_what_a_method_takes_is_sent_under_its_name(document: Described) -> None:
    here, all_methods = places(), methods()
    wrong: list[str] = []
    for method, path, described in operations(document):
        name = here[place(method, path)]
        call, given = whole_call(all_methods[name])
        query = dict(parse_qsl(urlsplit(call.path).query))
        in_query, in_body = parameters_of(document, described, "query"), body_of(document, described)
        body: Described = json.loads(call.body) if in_body and call.body else {}
        wrong += [f"{name}: {one}" for one in in_query if one in given and query.get(one) != in_url(given[one])]
        wrong += [f"{name}: {one}" for one in in_body if one in given and body.get(one) != given[one]]
        tokens = [one for one in given if one.endswith("token") and one not in in_body]
        shown = call.headers.get("Authorization")
        wrong += [f"{name}: {one}" for one in tokens if shown != f"Bearer {one}"]
        if call.wait != given.get("wait", 0):
            wrong.append(f"{name}: wait")
        takes_key = "Idempotency-Key" in parameters_of(document, described, "header")
        if (call.repeat == "key", call.key) != (takes_key, "key" if takes_key else None):
            wrong.append(f"{name}: Idempotency-Key")
        is_signed = "Signature" in parameters_of(document, described, "header")
        if call_of(all_methods[name]).signable != is_signed or (tokens and call.signable):
            wrong.append(f"{name}: signature")
    assert wrong == []


def test_defaults_are_those_of_the_node(document: Described) -> None:
    here, all_methods = places(), methods()
    wrong: list[str] = []
    for method, path, described in operations(document):
        name = here[place(method, path)]
        taken = inspect.signature(all_methods[name].build).parameters
        for field, schema in {**parameters_of(document, described, "query"), **body_of(document, described)}.items():
            own = taken[field].default if field in taken else None
            if own in {None, inspect.Parameter.empty} or "default" not in schema:
                continue
            if (own or None) != (schema["default"] or None):
                wrong.append(f"{name}: {field} is {own}, not {schema['default']}")
    assert wrong == []


def test_answers_have_every_field(document: Described) -> None:
    here, all_methods = places(), methods()
    missing: list[str] = []
    compared = 0
    for method, path, described in operations(document):
        name = here[place(method, path)]
        (answered,) = get_args(get_type_hints(all_methods[name].build)["return"])
        for status, response in described["responses"].items():
            schema = response.get("content", {}).get("application/json", {}).get("schema", {})
            if status.startswith("2") and schema:
                first = schema.get("anyOf", schema.get("oneOf", [schema]))[0]
                compared += 1
                missing += lacking(document, first, answered, name)
    assert missing == []
    assert compared > 45


def lacking(document: Described, schema: Described, kind: Any, where: str) -> list[str]:
    """Return the fields, and the nulls, that the document has and the type lacks, at any depth."""
    schema = resolved(document, schema)
    if len(schema.get("allOf", ())) == 1:
        schema = resolved(document, schema["allOf"][0])
    if get_origin(kind) is list and "items" in schema:
        return lacking(document, schema["items"], get_args(kind)[0], where)
    kinds = [one for one in (kind, *get_args(kind)) if isinstance(one, type) and hasattr(one, "__required_keys__")]
    if not kinds:
        return []
    fields = get_type_hints(kinds[0])
    found = [f"{where}: {field}" for field in schema.get("properties", {}) if field not in fields]
    for field, below in schema.get("properties", {}).items():
        if field in fields:
            hint = fields[field]
            if below.get("nullable") and hint is not Any and type(None) not in get_args(hint):
                found.append(f"{where}.{field}: may be null")
            found += lacking(document, below, hint, f"{where}.{field}")
    return found
