"""The OpenAPI document says what the code does, and validators accept it."""

import re
from typing import Any, cast

import msgspec
import pytest
from jsonschema import Draft202012Validator
from openapi_schema_validator import OAS30ReadValidator  # pyright: ignore[reportUnknownVariableType]
from openapi_spec_validator import OpenAPIV30SpecValidator
from referencing import Registry
from referencing.jsonschema import DRAFT4

from node.a2a.model import ListQuery
from node.config import Limit, Limits
from node.describe.implied import codes_of
from node.describe.openapi import document
from node.describe.openapi_schema import openapi_30
from node.relay.service import AUTHOR_FIELDS, TYPED_FIELDS
from node.tasks.model import TaskPageQuery
from node.web.errors import CATALOGUE
from node.web.json_schema import Schemas
from node.web.route import Route
from tests.describe.routes import NOBODY, feature_routes

ROUTES = feature_routes()
DOCUMENT = document(ROUTES, Limits(), "http://node.example")


def operations() -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (method.upper(), path, operation)
        for path, methods in DOCUMENT["paths"].items()
        for method, operation in methods.items()
    ]


def operation(method: str, path: str) -> dict[str, Any]:
    return DOCUMENT["paths"][path][method.lower()]


def resolved(member: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in member:
        return member
    found: Any = DOCUMENT
    for step in member["$ref"].removeprefix("#/").split("/"):
        found = found[step]
    return found


def names(found: dict[str, Any]) -> set[str]:
    return {resolved(parameter)["name"] for parameter in found.get("parameters", [])}


def valid(schema: dict[str, Any], value: object) -> bool:
    registry = Registry[Any]().with_resource("urn:doc", DRAFT4.create_resource({"id": "urn:doc", **DOCUMENT}))
    absolute = {"id": "urn:use", "allOf": [with_base(schema)]}
    validator = cast("Any", OAS30ReadValidator)(absolute, registry=registry)
    return validator.is_valid(value)


def with_base(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {k: f"urn:doc{v}" if k == "$ref" else with_base(v) for k, v in cast("dict[str, Any]", schema).items()}
    if isinstance(schema, list):
        return [with_base(one) for one in cast("list[Any]", schema)]
    return schema


def test_every_field_that_the_relay_reads_is_described() -> None:
    described = DOCUMENT["components"]["schemas"]["RelayMessage"]["properties"].keys()
    assert described == {*TYPED_FIELDS, *AUTHOR_FIELDS}


def test_a_validator_accepts_the_document() -> None:
    OpenAPIV30SpecValidator(DOCUMENT).validate()


def test_every_operation_is_described_once() -> None:
    assert {(method, path) for method, path, _ in operations()} == {(route.method, route.path) for route in ROUTES}
    ids = [found["operationId"] for _, _, found in operations()]
    assert len(ids) == len(set(ids))


def test_no_two_paths_differ_only_in_the_name_of_a_parameter() -> None:
    shapes = [re.sub(r"\{\w+\}", "{}", path) for path in DOCUMENT["paths"]]
    assert len(shapes) == len(set(shapes))


def test_hidden_routes_are_left_out() -> None:
    hidden = Route(method="GET", path="/static/x", handler=NOBODY, summary="x", tag="pages", hidden=True)
    assert document([hidden], Limits(), "http://node.example")["paths"] == {}


@pytest.mark.parametrize(("method", "path", "found"), operations())
def test_examples_of_bodies_and_answers_fit_their_schemas(method: str, path: str, found: dict[str, Any]) -> None:
    contents = [found["requestBody"]["content"]] if "requestBody" in found else []
    contents += [resolved(one).get("content", {}) for one in found["responses"].values()]
    for content in contents:
        for media in content.values():
            if "example" in media:
                assert valid(media["schema"], media["example"]), media["example"]


def test_query_parameters_come_from_the_type_that_reads_them() -> None:
    wait = next(
        one for one in operation("GET", "/api/v1/sessions/{id}/messages")["parameters"] if one["name"] == "wait"
    )
    assert wait["in"] == "query"
    assert wait["required"] is False
    assert (wait["schema"]["minimum"], wait["schema"]["maximum"], wait["schema"]["default"]) == (0, 30, 0)


def test_creating_operations_take_an_idempotency_key_and_reads_do_not() -> None:
    for path in ("/api/v1/relay", "/api/v1/board", "/api/v1/tasks", "/api/v1/sessions", "/api/v1/feedback"):
        assert "Idempotency-Key" in names(operation("POST", path))
    assert "Idempotency-Key" not in names(operation("GET", "/api/v1/board"))


def test_operations_that_can_be_signed_take_the_headers_of_a_signature() -> None:
    signed = {"Signature", "Signature-Input", "Signature-Key", "Content-Digest"}
    assert signed <= names(operation("POST", "/api/v1/board"))
    assert not signed & names(operation("POST", "/api/v1/feedback"))


def test_the_relay_takes_json_and_text() -> None:
    body = operation("POST", "/api/v1/relay")["requestBody"]
    assert set(body["content"]) == {"application/json", "text/plain; charset=utf-8"}
    assert body["required"] is True


def test_a_header_that_an_operation_needs_is_required() -> None:
    (digest,) = [one for one in operation("POST", "/api/v1/artifacts")["parameters"] if "Digest" in str(one)]
    assert (digest["name"], digest["in"], digest["required"]) == ("Content-Digest", "header", True)


def test_raw_text_may_come_under_any_type() -> None:
    assert set(operation("POST", "/api/v1/wire/stream")["requestBody"]["content"]) == {
        "text/plain; charset=utf-8",
        "*/*",
    }


def test_a_body_that_may_be_left_out_is_not_required() -> None:
    assert operation("POST", "/api/v1/sessions")["requestBody"]["required"] is False


@pytest.mark.parametrize(
    "route", [one for one in ROUTES if one.fault is None], ids=lambda route: f"{route.method} {route.path}"
)
def test_every_error_code_stands_under_its_status(route: Route) -> None:
    responses = operation(route.method, route.path)["responses"]
    listed = {
        (int(status), code)
        for status, response in responses.items()
        for code in resolved(response).get("x-error-codes", [])
    }
    assert listed == {(422 if code == "request.invalid" else CATALOGUE[code].status, code) for code in codes_of(route)}


@pytest.mark.parametrize(
    ("path", "code"),
    [("/api/v1/board", "quota.board"), ("/api/v1/tasks", "quota.task"), ("/api/v1/sessions", "quota.session")],
)
def test_what_counts_in_a_quota_names_its_code(path: str, code: str) -> None:
    assert code in resolved(operation("POST", path)["responses"]["429"])["x-error-codes"]


@pytest.mark.parametrize(
    ("limit", "named"),
    [
        ("line", ["quota.bytes", "memory.low", "disk.low", "node.full"]),
        *((limit, ["quota.bytes"]) for limit in ("claim", "result")),
        *((limit, []) for limit in ("lease", "search", "stream", "mcp", "")),
    ],
)
def test_what_keeps_something_names_the_codes_for_a_lack_of_room(limit: str, named: list[str]) -> None:
    route = Route(method="POST", path="/x", handler=NOBODY, tag="x", summary="Write", limit=limit)
    assert [code for code in codes_of(route) if code in {"quota.bytes", "memory.low", "disk.low", "node.full"}] == named


@pytest.mark.parametrize("path", [f"/api/v1/tasks/{{id}}/{step}" for step in ("transition", "fail", "retry")])
def test_a_step_without_a_limit_names_the_quota_that_it_counts_in(path: str) -> None:
    assert "quota.bytes" in resolved(operation("POST", path)["responses"]["429"])["x-error-codes"]


def test_validation_errors_have_the_shape_of_spec_2_10() -> None:
    content = resolved(operation("GET", "/api/v1/board")["responses"]["422"])["content"]["application/json"]
    assert content["schema"] == {"$ref": "#/components/schemas/ValidationError"}
    whole: dict[str, Any] = {"loc": ["query", 1], "msg": "m", "type": "t", "ctx": {}}
    assert valid(content["schema"], {"detail": [whole]})
    assert not valid(content["schema"], {"detail": [{"loc": ["query"], "msg": "m"}]})


def test_a_limited_operation_tells_its_limit_and_the_headers_of_429() -> None:
    limited = document(ROUTES, Limits(relay=Limit(7, 90)), "http://node.example")
    relay = limited["paths"]["/api/v1/relay"]["post"]
    assert relay["description"] == "Limit per client address: 7 in 90 s."
    line = limited["paths"]["/api/v1/sessions/{id}/messages"]["post"]
    assert line["description"] == "Limit per client address and session: 600 in 60 s."
    complete = limited["paths"]["/api/v1/tasks/{id}/complete"]["post"]
    assert complete["description"] == "Limit per client address, for results that are refused: 60 in 60 s."
    assert {"Retry-After", "RateLimit", "RateLimit-Policy"} <= set(resolved(relay["responses"]["429"])["headers"])


def test_a_refusal_that_counts_tells_the_headers_of_the_limit() -> None:
    def tells(path: str, status: str) -> bool:
        return {"RateLimit", "RateLimit-Policy"} <= set(
            resolved(operation("POST", path)["responses"][status])["headers"]
        )

    assert tells("/api/v1/relay", "400")
    assert tells("/api/v1/board", "422")
    assert not tells("/api/v1/tasks/{id}/accept", "403")  # not counted against a limit
    assert not tells("/api/v1/relay", "503")


def test_an_answer_beside_the_main_one_has_its_headers() -> None:
    """The 204 of claim-next also tells the limit and the ignored fields, and has no Retry-After."""
    answers = operation("POST", "/api/v1/tasks/claim-next")["responses"]
    assert answers["204"]["headers"] == answers["200"]["headers"]


def test_an_error_in_the_form_of_a_protocol_has_its_code_in_a_header_too() -> None:
    assert "X-Error-Code" in operation("GET", "/api/v1/tasks")["responses"]["default"]["headers"]


def test_created_things_have_an_address() -> None:
    assert "Location" in operation("POST", "/api/v1/board")["responses"]["201"]["headers"]


def test_what_leads_elsewhere_has_an_address_and_no_body() -> None:
    answer = operation("GET", "/api/v1/artifacts/{id}/content")["responses"]["307"]
    assert "Location" in answer["headers"]
    assert "content" not in answer


def test_an_operation_that_names_no_credential_needs_none() -> None:
    assert DOCUMENT["security"] == []
    assert "security" not in operation("POST", "/api/v1/relay")


def test_a_page_fails_as_a_page() -> None:
    """A page fails as HTML or, for clients that prefer it, as the general JSON error, not in the form of a protocol."""
    page = Route(method="GET", path="/board", handler=NOBODY, summary="x", tag="pages", media_type="text/html")
    answers = document([page], Limits(), "http://node.example")["paths"]["/board"]["get"]["responses"]
    failed = answers["default"]
    assert failed["content"]["text/html"] == {"schema": {"type": "string"}}
    assert failed["content"]["application/json"] == {"schema": {"$ref": "#/components/schemas/Error"}}
    assert "X-Error-Code" in failed["headers"]


def test_a_text_that_is_no_utf_8_is_an_error_of_whatever_takes_text() -> None:
    text = [found for _, _, found in operations() if "text/plain; charset=utf-8" in str(found.get("requestBody"))]
    assert len(text) == 2
    assert all("body.binary" in resolved(found["responses"]["415"])["x-error-codes"] for found in text)


def test_schemas_of_3_0_know_neither_null_nor_const() -> None:
    assert openapi_30({"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}) == {
        "type": "string",
        "nullable": True,
    }
    assert openapi_30({"const": "x"}) == {"enum": ["x"], "type": "string"}
    assert openapi_30({"enum": ["a", None]}) == {"enum": ["a", None]}
    assert openapi_30({"exclusiveMinimum": 0}) == {"minimum": 0, "exclusiveMinimum": True}
    assert openapi_30({"anyOf": [{"$ref": "#/x"}, {"type": "null"}]}) == {"anyOf": [{"$ref": "#/x"}, {"enum": [None]}]}


def test_a_member_may_be_called_like_a_word_of_the_schema() -> None:
    schema = {"type": "object", "properties": {"const": {"type": "string"}, "default": {"type": "integer"}}}
    assert openapi_30(schema) == schema


def test_two_types_are_not_published_under_one_name() -> None:
    kinds = [msgspec.defstruct("Same", [("member", kind)], module=kind.__name__) for kind in (int, str)]
    with pytest.raises(ValueError, match="one name: "):
        Schemas(kinds)


def test_definitions_are_json_schema_of_2020_12() -> None:
    schemas = Schemas([route.answers for route in ROUTES if route.answers])
    for definition in schemas.definitions.values():
        Draft202012Validator.check_schema(definition)


def media(found: dict[str, Any], status: str) -> dict[str, Any]:
    return {kind: one["schema"] for kind, one in resolved(found["responses"][status])["content"].items()}


def test_what_is_done_to_a_thing_is_a_path_of_its_own() -> None:
    assert operation("POST", "/api/v1/tasks/{id}:cancel")["operationId"] == "a2a_cancel"
    assert operation("POST", "/api/v1/tasks/{id}:subscribe")["operationId"] == "a2a_refuse_subscription"
    assert "post" not in DOCUMENT["paths"]["/api/v1/tasks/{id}"]


def test_a_shared_path_shows_both_of_its_views() -> None:
    shown = media(operation("GET", "/api/v1/tasks"), "200")
    page: dict[str, Any] = {"tasks": [], "total": 0, "limit": 20, "offset": 0}
    task_list: dict[str, Any] = {"tasks": [], "nextPageToken": "", "pageSize": 20, "totalSize": 0}
    assert valid(shown["application/json"], page)
    assert valid(shown["application/json"], task_list)
    assert valid(shown["application/a2a+json"], task_list)
    assert not valid(shown["application/a2a+json"], page)


def test_a_shared_path_tells_the_parameters_of_both_its_readers() -> None:
    queries = {
        path: {one["name"]: one["schema"] for one in operation("GET", path)["parameters"] if one["in"] == "query"}
        for path in ("/api/v1/tasks", "/api/v1/tasks/{id}")
    }
    assert set(queries["/api/v1/tasks/{id}"]) == {"wait", "status", "historyLength"}
    listing = queries["/api/v1/tasks"]
    read_by_a2a = set(ListQuery.__struct_encode_fields__) - {"lastUpdatedAfter"}  # an alias that an old client uses
    assert set(listing) == set(TaskPageQuery.__struct_fields__) | read_by_a2a
    assert {"offered", "TASK_STATE_COMPLETED"} <= set(listing["status"]["enum"])
    assert [name for name, schema in listing.items() if "default" in schema] == ["limit", "offset"]


@pytest.mark.parametrize("path", ["/health", "/ready"])
def test_a_node_without_its_store_is_described_too(path: str) -> None:
    health = operation("GET", path)
    assert media(health, "503") == media(health, "200")


def test_the_empty_answer_to_a_loop_has_a_form() -> None:
    shown = media(operation("POST", "/api/v1/relay"), "200")
    assert valid(shown["text/plain"], "")
    assert not valid(shown["text/plain"], "acknowledged")


def test_null_stands_among_the_values_that_may_be_left_open() -> None:
    category = DOCUMENT["components"]["schemas"]["NewFeedback"]["properties"]["category"]
    assert category["enum"][-1] is None
    assert valid(category, None)
    assert valid(category, "bug")
    assert not valid(category, "nonsense")


def test_null_may_stand_for_the_default_of_a_member_of_a_body() -> None:
    offer = DOCUMENT["components"]["schemas"]["NewTask"]["properties"]
    assert [valid(offer["require_proof"], value) for value in (None, True, "yes")] == [True, True, False]
    assert not valid(offer["title"], None)


def test_a_validator_lets_be_null_what_may_be_null() -> None:
    """`nullable` has no effect beside a reference or beside variants."""
    answers = Schemas([route.answers for route in ROUTES if route.answers])
    nullable = [
        (name, member)
        for name, whole in answers.definitions.items()
        for member, schema in whole.get("properties", {}).items()
        if {"type": "null"} in schema.get("anyOf", [])
    ]
    assert ("EndedAttempt", "reason") in nullable
    for name, member in nullable:
        assert valid(DOCUMENT["components"]["schemas"][name]["properties"][member], None), (name, member)


def test_no_variant_of_a_value_takes_whatever_the_others_do() -> None:
    """A client generated from such a schema would know only the other variant, and could not read a relayed object."""
    wholes = DOCUMENT["components"]["schemas"]
    members = [(name, each) for name, whole in wholes.items() for each in whole.get("properties", {}).values()]
    assert [name for name, each in members if {} in each.get("anyOf", [])] == []
    payload = wholes["Buffered"]["properties"]["payload"]
    assert [valid(payload, value) for value in ({"message": "Hello."}, "Hello.", 5)] == [True, True, False]


def test_a_header_that_an_error_of_the_catalogue_has_is_named() -> None:
    refused = {
        (code, header)
        for _, _, found in operations()
        for answer in found["responses"].values()
        for code in resolved(answer).get("x-error-codes", [])
        for header in resolved(answer)["headers"]
    }
    carried = {
        (code, name.decode().title().replace("Www-", "WWW-"))
        for code, entry in CATALOGUE.items()
        for name, _ in entry.headers
        if name != b"connection"
    }
    described = {code for code, _ in refused}
    assert {(code, header) for code, header in carried if code in described} <= refused
    assert ("signature.invalid", "Signature-Error") in refused
    assert ("thread.unknown", "Link") in refused
    canceling = operation("POST", "/api/v1/tasks/{id}:cancel")  # fails in a form of its own
    assert "Signature-Error" in canceling["responses"]["default"]["headers"]
    assert ("task.paused", "Retry-After") in refused
