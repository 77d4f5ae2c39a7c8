"""The running node conforms to its own OpenAPI document, operation by operation.

Each documented example either works unchanged or is refused as documented. Whatever the schema of a body or parameter
excludes is refused with 422: a missing required field, a null, another type, a value out of range.
"""

import copy
import json
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any, cast

import httpx2
import pytest
import pytest_asyncio
from openapi_schema_validator import OAS30ReadValidator  # pyright: ignore[reportUnknownVariableType]
from referencing import Registry
from referencing.jsonschema import DRAFT4

from tests.support.limits import NO_LIMITS
from tests.support.node_under_test import NodeUnderTest

Schema = dict[str, Any]
Case = tuple[str, str, dict[str, Any]]
"""Method, path and operation."""

ID = "01a1fbd5-10f1-7326-b473-b7b7836b6ce8"
JSON_TYPE = "application/json"
ENDLESS = "/mcp/sse"
"""A path whose answer is a stream that the client ends; tests/mcp covers it."""

PROTOCOLS = re.compile(r"/api/v1/(message:|a2a/|inboxes/\{address}/a2a|mcp|tasks/\{id}:)|/mcp/")
"""Paths of A2A and MCP, which have their own forms of errors and their own conformance suites."""

OTHER_LANGUAGE = "language.not_english"
"""SPEC 7 requires 400 for this code, whether the text or its `language` is the reason."""


pytestmark = pytest.mark.settings(limits=NO_LIMITS)


class Document:
    """The node's description of itself."""

    def __init__(self, content: dict[str, Any]) -> None:
        self._content = content
        self._registry = Registry[Any]().with_resource("urn:doc", DRAFT4.create_resource({"id": "urn:doc", **content}))

    def operations(self) -> Iterator[Case]:
        for path, methods in self._content["paths"].items():
            for method, operation in methods.items():
                if path != ENDLESS:
                    yield method.upper(), path, operation

    def resolved(self, member: Schema) -> Schema:
        while "$ref" in member:
            found: Any = self._content
            for step in member["$ref"].removeprefix("#/").split("/"):
                found = found[step]
            member = found
        return member

    def fits(self, schema: Schema, value: object) -> bool:
        validator = cast("Any", OAS30ReadValidator)(_absolute(schema), registry=self._registry)
        return validator.is_valid(value)

    def breach(self, operation: dict[str, Any], answer: httpx2.Response) -> str | None:
        """Return how the answer differs from the operation's documentation; None if it does not."""
        responses = operation["responses"]
        if str(answer.status_code) not in responses:
            return None if "default" in responses else f"status {answer.status_code} is not documented"
        response = self.resolved(responses[str(answer.status_code)])
        content = response.get("content", {})
        if not answer.content or not content:
            return None if not answer.content else "a body is not documented"
        kind = answer.headers["content-type"].partition(";")[0]
        if kind not in content:
            return f"{kind} is not documented"
        if kind == JSON_TYPE and not self.fits(content[kind]["schema"], answer.json()):
            return f"the body does not fit its schema: {answer.text[:200]}"
        return None


@pytest_asyncio.fixture
async def document(node: NodeUnderTest) -> AsyncIterator[Document]:
    yield Document((await node.client.get("/openapi.json")).json())


async def test_every_operation_answers_as_documented(node: NodeUnderTest, document: Document) -> None:
    breaches: list[str] = []
    for method, path, operation in document.operations():
        answer = await call(node, method, path, operation, example(operation))
        breach = document.breach(operation, answer)
        if breach or answer.status_code >= 500:
            breaches.append(f"{method} {path}: {breach or answer.status_code}")
    assert breaches == []


async def test_what_the_schema_of_a_body_excludes_is_refused(node: NodeUnderTest, document: Document) -> None:
    taken: list[str] = []
    for method, path, operation in document.operations():
        body = example(operation)
        if body is None or PROTOCOLS.match(path):
            continue
        schema = document.resolved(operation["requestBody"]["content"][JSON_TYPE]["schema"])
        for what, wrong in excluded(document, schema, body):
            assert not document.fits(schema, wrong), f"{method} {path}: the schema allows {what}"
            answer = await call(node, method, path, operation, wrong)
            breach = document.breach(operation, answer)
            if breach or not (answer.status_code == 422 or answer.headers.get("x-error-code") == OTHER_LANGUAGE):
                taken.append(f"{method} {path} with {what}: {answer.status_code} {breach or ''}")
    assert "\n".join(taken) == ""


async def test_what_the_schema_of_a_parameter_excludes_is_refused(node: NodeUnderTest, document: Document) -> None:
    taken: list[str] = []
    for method, path, operation in document.operations():
        for parameter in map(document.resolved, operation.get("parameters", [])):
            if parameter["in"] != "query" or PROTOCOLS.match(path):
                continue
            for text in excluded_texts(parameter["schema"]):
                answer = await call(node, method, path, operation, None, {parameter["name"]: text})
                if answer.status_code != 422 or document.breach(operation, answer):
                    taken.append(f"{method} {path}?{parameter['name']}={text}: {answer.status_code}")
    assert "\n".join(taken) == ""


async def test_an_answer_that_names_what_it_ignored_has_a_documented_header(
    node: NodeUnderTest, document: Document
) -> None:
    named: dict[str, bool] = {}
    for method, path, operation in document.operations():
        body = example(operation)
        more = {**body, "unknown_here": 1} if body else body
        answer = await call(node, method, path, operation, more, {"unknown_here": "1"})
        if "x-ignored-fields" in answer.headers:
            responses = operation["responses"]
            response = document.resolved(responses.get(str(answer.status_code), responses.get("default")))
            named[f"{method} {path}: {answer.status_code}"] = "X-Ignored-Fields" in response["headers"]
    assert named
    assert [answer for answer, is_documented in named.items() if not is_documented] == []


async def call(
    node: NodeUnderTest,
    method: str,
    path: str,
    operation: dict[str, Any],
    body: object,
    query: dict[str, str] | None = None,
) -> httpx2.Response:
    """Call the operation, with ids of things that do not exist."""
    content = operation.get("requestBody", {}).get("content", {})
    if content and JSON_TYPE not in content:
        kind, media = next(iter(content.items()))
        headers = {"content-type": kind}
        return await node.client.request(method, concrete(path), content=media["example"], headers=headers)
    if content:
        sent = json.dumps(body).encode()
        return await node.client.request(method, concrete(path), content=sent, headers={"content-type": JSON_TYPE})
    return await node.client.request(method, concrete(path), params=query)


def concrete(path: str) -> str:
    return re.sub(r"\{\w+\}", ID, path)


def example(operation: dict[str, Any]) -> Any:
    return operation.get("requestBody", {}).get("content", {}).get(JSON_TYPE, {}).get("example")


def excluded(document: Document, schema: Schema, body: dict[str, Any]) -> Iterator[tuple[str, object]]:
    """Return variants of a valid body, each with one member that the schema excludes, and the name of what is wrong."""
    yield "a list for the body", [body]
    yield "null for the body", None
    for name in schema.get("required", []):
        yield f"no {name}", {key: value for key, value in body.items() if key != name}
    for name, member in schema.get("properties", {}).items():
        whole = document.resolved(member)
        for what, value in wrong_values(whole):
            changed = copy.deepcopy(body)
            changed[name] = value
            yield f"{what} for {name}", changed


def wrong_values(schema: Schema) -> Iterator[tuple[str, object]]:
    has_null = None in schema.get("enum", [])
    kind = schema.get("type") or ("string" if has_null else None)
    if kind is None:
        return
    if not schema.get("nullable") and not has_null:
        yield "null", None
    if kind != "object":
        yield "an object", {"a": 1}
    if kind != "array":
        yield "a list", [1]
    if kind != "boolean":
        yield "true", True
    if kind == "string":
        yield "a number", 5
        if "enum" in schema:
            yield "a word that is not listed", "nonsense"
        if "maxLength" in schema:
            yield "too long a text", "word " * (schema["maxLength"] // 5 + 1)
        if schema.get("minLength"):
            yield "too short a text", "a" * (schema["minLength"] - 1)
    if kind in {"integer", "number"}:
        yield "a text", "5"
        if "minimum" in schema:
            yield "too small a number", schema["minimum"] - 1
        if "maximum" in schema:
            yield "too large a number", schema["maximum"] + 1
    if kind == "integer":
        yield "half a number", 60.5


def excluded_texts(schema: Schema) -> Iterator[str]:
    kind = schema.get("type")
    if kind in {"integer", "number"}:
        yield from ("", "x", "null", "1,5", "0x10")
        if "minimum" in schema:
            yield str(schema["minimum"] - 1)
        if "maximum" in schema:
            yield str(schema["maximum"] + 1)
    if kind == "integer":
        yield "1.5"
    if "enum" in schema:
        yield from ("nonsense", "null")


def _absolute(schema: Any) -> Any:
    if isinstance(schema, dict):
        members = cast("Schema", schema)
        return {name: f"urn:doc{one}" if name == "$ref" else _absolute(one) for name, one in members.items()}
    if isinstance(schema, list):
        return [_absolute(one) for one in cast("list[Any]", schema)]
    return schema
