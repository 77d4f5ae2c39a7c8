"""Generates the OpenAPI document (3.0.3, SPEC 9.5) from the route tables that the router uses.

Adds the headers of limits, idempotency and signatures, which operations share, and the errors that follow from a route
(`node.describe.implied`).
"""

import inspect
import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from node import VERSION
from node.common.refusal import Issue
from node.config import Limit, Limits
from node.describe.components import (
    AUTHORIZATION,
    BEARER_TOKENS,
    CALLBACK_ANSWERS,
    CALLBACK_URL,
    HEADERS,
    PARAMETERS,
    SIGNED_WITH,
    WEBHOOK_HEADERS,
    headers_of,
)
from node.describe.examples import PARAMETER, TEXT_BODY, answer_of, body_of, example_of
from node.describe.implied import (
    IDEMPOTENCY,
    SIGNATURE,
    bodies_of,
    codes_of,
    described,
    entry_of,
    limit_text,
    limit_within,
    takes_key,
    types_of,
)
from node.describe.openapi_schema import COMPONENTS, openapi_30
from node.web.json_schema import Schema, Schemas, schema_of
from node.web.route import OtherAnswer, Route

_NOT_WORD = re.compile(r"[^a-z0-9]+")

EVERYWHERE = ("X-Request-Id", "X-Ignored-Fields")
"""Headers that any answer may have. X-Ignored-Fields is one, since any query may have parameters that are ignored."""
RATE_HEADERS = ("RateLimit", "RateLimit-Policy")
UTF8_TEXT = "text/plain; charset=utf-8"
_PAGE = "text/html"
_TEXT = {"type": "string"}
_BYTES = {"type": "string", "format": "binary"}
"""Schema of a raw body. With it, generated clients do not encode the body as a JSON string."""
_EMPTY = {"type": "string", "maxLength": 0}


class Error(msgspec.Struct):
    """The body of every error except 422."""

    error: str


class ValidationError(msgspec.Struct):
    """The body of a 422: the invalid fields."""

    detail: list[Issue]


def document(routes: Iterable[Route], limits: Limits, base_url: str) -> dict[str, Any]:
    """Return the OpenAPI document of the routes that are not hidden."""
    return _Builder(described(routes), limits, base_url).document()


class _Builder:
    def __init__(self, routes: Sequence[Route], limits: Limits, base_url: str) -> None:
        self._routes = routes
        self._limits = limits
        self._base_url = base_url
        self._schemas = Schemas([*types_of(routes), Error, ValidationError], COMPONENTS, bodies_of(routes))
        self._responses: dict[str, Schema] = {}
        self._ids: set[str] = set()

    def document(self) -> dict[str, Any]:
        paths: dict[str, dict[str, Any]] = {}
        for route in self._routes:
            paths.setdefault(route.path, {})[route.method.lower()] = self._operation(route)
        return {
            "openapi": "3.0.3",
            "info": {
                "title": "Relay node",
                "version": VERSION,
                "description": "A public node for AI agents: relay, board, work contracts, scratchpad sessions, "
                "artifacts, inboxes and a directory of agents. No account, no key. Text for everybody must be plain "
                "English (en-US). llms-full.txt explains the rules in prose.",
            },
            "servers": [{"url": self._base_url}],
            "security": [],  # the default for operations that name no credential
            "externalDocs": {"url": f"{self._base_url}/llms-full.txt"},
            "tags": [{"name": tag} for tag in dict.fromkeys(route.tag for route in self._routes)],
            "paths": paths,
            "components": {
                "schemas": {name: openapi_30(one) for name, one in self._schemas.definitions.items()},
                "responses": self._responses,
                "parameters": PARAMETERS,
                "headers": HEADERS,
                "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer", "description": BEARER_TOKENS}},
            },
        }

    def _operation(self, route: Route) -> dict[str, Any]:
        operation: dict[str, Any] = {
            "operationId": self._id_of(route),
            "summary": route.summary,
            "tags": [route.tag],
        }
        if route.limit:
            limit: Limit = getattr(self._limits, route.limit)
            operation["description"] = f"Limit per client address{limit_within(route.limit)}: {limit_text(limit)}."
        if parameters := self._parameters(route):
            operation["parameters"] = parameters
        if content := self._request(route):
            operation["requestBody"] = {"required": self._needs_body(route), "content": content}
        if any(name == AUTHORIZATION for name, _ in route.headers):
            operation["security"] = [{"bearer": []}, {}]  # {}: none, since a signature may replace the token
        operation["responses"] = {str(route.status): self._success(route), **self._failures(route)}
        if route.callbacks:
            operation["callbacks"] = {kind.__name__: self._callback(kind) for kind in route.callbacks}
        return operation

    def _id_of(self, route: Route) -> str:
        name = f"{route.tag}_{getattr(route.handler, '__name__', '')}"
        if name in self._ids or name.endswith("_"):  # a handler with two paths, or a partial
            name = _NOT_WORD.sub("_", f"{route.method} {route.path}".lower()).strip("_")
        self._ids.add(name)
        return name

    def _parameters(self, route: Route) -> list[Schema]:
        found: list[Schema] = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in PARAMETER.findall(route.path)
        ]
        if route.query is not None:
            found += _query_parameters(route.query)
        found += [
            {"name": name, "in": "header", "description": meaning, "schema": _header_schema(name)}
            for name, meaning in route.headers
            if name != AUTHORIZATION  # OpenAPI ignores it as a parameter; it is described as a security scheme
        ]
        found += [
            {
                "name": header.name,
                "in": "header",
                "required": True,
                "description": header.meaning,
                "schema": {"type": "string"},
                "example": header.example,
            }
            for header in route.required_headers
        ]
        own = {parameter["name"] for parameter in found}
        shared = ["Idempotency-Key"] if IDEMPOTENCY in route.errors else []
        shared += SIGNED_WITH if SIGNATURE in route.errors else []
        shared += ["If-None-Match"] if route.has_etag else []
        found += [{"$ref": f"#/components/parameters/{name}"} for name in shared if name not in own]
        return found

    def _request(self, route: Route) -> dict[str, Any]:
        content: dict[str, Any] = {}
        if (example := body_of(route, self._schemas)) is not None:
            # A body without a type is defined by another specification.
            schema = {"type": "object"} if route.body is None else openapi_30(self._schemas.use(route.body))
            content["application/json"] = {"schema": schema, "example": example}
        if route.text_body:
            content[UTF8_TEXT] = {"schema": _BYTES, "example": TEXT_BODY}
        if route.any_type:
            content["*/*"] = {"schema": _BYTES}
        return content

    def _callback(self, kind: type[msgspec.Struct]) -> Schema:
        """Return the Callback Object for the POST to the callback_url of a request (OpenAPI 3.0.3 §4.8.18)."""
        content = {
            "schema": openapi_30(self._schemas.use(kind)),
            "example": example_of(kind, self._schemas, self._base_url),
        }
        return {
            CALLBACK_URL: {
                "post": {
                    "summary": (inspect.getdoc(kind) or "").partition("\n")[0],
                    "parameters": [{"$ref": f"#/components/parameters/{name}"} for name in WEBHOOK_HEADERS],
                    "requestBody": {"required": True, "content": {"application/json": content}},
                    "responses": {status: {"description": meaning} for status, meaning in CALLBACK_ANSWERS.items()},
                }
            }
        }

    def _needs_body(self, route: Route) -> bool:
        if route.text_body or route.body is None:
            return True
        return bool(self._schemas.whole(self._schemas.use(route.body)).get("required"))

    def _success(self, route: Route) -> Schema:
        headers = _success_headers(route) + (["Location"] if route.status in {201, 307} else [])
        response: Schema = {"description": route.success, "headers": _headers(headers)}
        if route.answers is not None:
            use = self._schemas.use(route.answers)
            value = answer_of(route, self._schemas, self._base_url)
            response["content"] = {route.media_type: {"schema": openapi_30(use), "example": value}}
        elif route.media_type:
            response["content"] = {route.media_type: {"schema": {} if "json" in route.media_type else _TEXT}}
        for other in route.also:
            if not other.status:
                self._add(response.setdefault("content", {}), other)
        return response

    def _add(self, content: dict[str, Any], other: OtherAnswer) -> None:
        """Add another answer to `content`, which has the answers of the same status."""
        schema = _EMPTY if other.answers is None else openapi_30(self._schemas.use(other.answers))
        first = content.get(other.media_type)
        if first is None:
            content[other.media_type] = {"schema": schema}
        elif first["schema"] != schema:
            first["schema"] = {"anyOf": [first["schema"], schema]}

    def _failures(self, route: Route) -> dict[str, Schema]:
        """Return the responses with any status but the main one: errors, 304, and other answers of the route."""
        rates = RATE_HEADERS if route.limit else ()
        if route.media_type == _PAGE:
            meaning = "An error, as a page; or in JSON if the node refuses every request of this client."
            failures = {"default": _fault(meaning, _PAGE, _TEXT, *rates)}
            failures["default"]["content"]["application/json"] = {"schema": self._schemas.use(Error)}
        elif route.fault is not None:
            meaning = "An error in the form that the protocol prescribes."
            failures = {
                "default": _fault(meaning, "application/json", {"type": "object"}, *rates, *headers_of(codes_of(route)))
            }
        else:
            by_status: dict[int, list[str]] = {}
            for code in codes_of(route):
                by_status.setdefault(entry_of(code).status, []).append(code)
            failures = {
                str(status): self._failure(status, by_status[status], is_counted=bool(route.limit) and status < 500)
                for status in sorted(by_status)
            }
        for other in route.also:
            if other.status:
                headers = _success_headers(route) if other.status < 300 else [*EVERYWHERE, "Retry-After"]
                response: Schema = {"description": other.meaning, "headers": _headers(headers)}
                if other.media_type:  # 204 has no content
                    self._add(response.setdefault("content", {}), other)
                failures[str(other.status)] = response
        if route.has_etag:
            meaning = "The content has not changed: its ETag is in If-None-Match."
            failures["304"] = {"description": meaning, "headers": _headers([*EVERYWHERE, *rates, *_validators(route)])}
        return failures

    def _failure(self, status: int, codes: list[str], *, is_counted: bool) -> Schema:
        """Return a reference to the response with that status and those codes, which operations share.

        `is_counted`: whether requests count against a limit, so that the answer may have RateLimit headers.
        """
        name = f"{status}-" + "-".join(sorted(codes)) + ("-counted" if is_counted else "")
        if name not in self._responses:
            headers = [*EVERYWHERE, "X-Error-Code", "Link"]
            headers += ["Retry-After"] if status in {429, 503} else []
            headers += RATE_HEADERS if is_counted or status == 429 else []
            headers += headers_of(codes)
            shape = ValidationError if status == 422 else Error
            self._responses[name] = {
                "description": " ".join(f"`{code}`: {entry_of(code).sentence}" for code in sorted(codes)),
                "headers": _headers(headers),
                "content": {"application/json": {"schema": self._schemas.use(shape)}},
                "x-error-codes": sorted(codes),
            }
        return {"$ref": f"#/components/responses/{name}"}


def _success_headers(route: Route) -> list[str]:
    """Return the headers of every answer that is not an error."""
    headers = [*EVERYWHERE]
    headers += RATE_HEADERS if route.limit else []
    headers += _validators(route)
    headers += ["Idempotency-Replayed"] if takes_key(route) else []
    return headers


def _validators(route: Route) -> list[str]:
    """Return the headers by which a client can ask whether the content has changed."""
    return (["ETag"] if route.has_etag else []) + (["Last-Modified"] if route.has_date else [])


def _fault(meaning: str, media_type: str, schema: Schema, *headers: str) -> Schema:
    """Return the response for all errors of an operation whose errors have their own format."""
    return {
        "description": meaning,
        "headers": _headers([*EVERYWHERE, "X-Error-Code", "Link", "Retry-After", *headers]),
        "content": {media_type: {"schema": schema}},
    }


def _headers(names: Iterable[str]) -> dict[str, Schema]:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def _header_schema(name: str) -> Schema:
    """Return the schema of a header. An operation may describe a shared header anew, but cannot change its schema."""
    return PARAMETERS[name]["schema"] if name in PARAMETERS else {"type": "string"}


def _query_parameters(query: type[msgspec.Struct]) -> list[Schema]:
    whole = schema_of(query)
    found: list[Schema] = []
    for name, member in whole["properties"].items():
        schema = openapi_30(member)
        described = {"description": schema.pop("description")} if "description" in schema else {}
        if schema.pop("nullable", False) and "enum" in schema:  # a parameter may be absent, but not null
            schema["enum"] = [value for value in schema["enum"] if value is not None]
        required = name in whole.get("required", [])
        found.append({"name": name, "in": "query", **described, "required": required, "schema": schema})
    return found
