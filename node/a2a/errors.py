"""Failures as A2A clients read them: google.rpc.Status with an ErrorInfo first (A2A v1.0.1 §5.4, §11.6).

Clients map errors by `reason`, not by status. The values of `metadata` are strings: with others, some clients cannot
read the reason.
"""

import time
from typing import Any

import msgspec

from node.a2a.refusal import A2AError
from node.common.refusal import Invalid, Issue, Refused
from node.common.timestamps import timestamp
from node.web.errors import CATALOGUE, response_to, sentence
from node.web.http import JSON_TYPE, Header, Request, Response

DOMAIN = "a2a-protocol.org"

STATUS: dict[str, tuple[int, str]] = {
    "TASK_NOT_FOUND": (404, "NOT_FOUND"),
    "METHOD_NOT_FOUND": (404, "NOT_FOUND"),
    "INBOX_NOT_FOUND": (404, "NOT_FOUND"),
    "METHOD_NOT_ALLOWED": (405, "UNIMPLEMENTED"),
    "CLIENT_BLOCKED": (403, "PERMISSION_DENIED"),
    "TASK_NOT_CANCELABLE": (400, "FAILED_PRECONDITION"),
    "UNSUPPORTED_OPERATION": (400, "FAILED_PRECONDITION"),
    "PUSH_NOTIFICATION_NOT_SUPPORTED": (400, "FAILED_PRECONDITION"),
    "CONTENT_TYPE_NOT_SUPPORTED": (400, "INVALID_ARGUMENT"),
    "VERSION_NOT_SUPPORTED": (400, "FAILED_PRECONDITION"),
    "INVALID_REQUEST": (400, "INVALID_ARGUMENT"),
    "INVALID_PARAMS": (400, "INVALID_ARGUMENT"),
    "RATE_LIMITED": (429, "RESOURCE_EXHAUSTED"),
    "UNAVAILABLE": (503, "UNAVAILABLE"),
    "INTERNAL_ERROR": (500, "INTERNAL"),
}

REASONS = {
    "task.unknown": "TASK_NOT_FOUND",
    "path.unknown": "METHOD_NOT_FOUND",
    "method.unknown": "METHOD_NOT_ALLOWED",
    "client.blocked": "CLIENT_BLOCKED",
    "path.spelling": "METHOD_NOT_FOUND",
    "origin.refused": "CLIENT_BLOCKED",
    "host.invalid": "INVALID_REQUEST",
    "host.foreign": "INVALID_REQUEST",
    "task.publisher": "TASK_NOT_CANCELABLE",
    "task.state": "TASK_NOT_CANCELABLE",
    "receipt.unknown": "TASK_NOT_FOUND",
    "inbox.unknown": "INBOX_NOT_FOUND",
    "inbox.settled": "TASK_NOT_CANCELABLE",
    "inbox.turn": "UNSUPPORTED_OPERATION",
    "inbox.policy": "CLIENT_BLOCKED",
    "body.media_type": "CONTENT_TYPE_NOT_SUPPORTED",
    "body.encoded": "CONTENT_TYPE_NOT_SUPPORTED",
    "body.too_large": "INVALID_REQUEST",
    "body.stalled": "INVALID_REQUEST",
    "body.incomplete": "INVALID_REQUEST",
    "body.coding": "INVALID_REQUEST",
}
"""The reason that A2A clients know, by the code of our catalogue."""

REASONS_BY_STATUS = {429: "RATE_LIMITED", 500: "INTERNAL_ERROR", 503: "UNAVAILABLE", 507: "UNAVAILABLE"}
"""The reason for codes that have none of their own, by their HTTP status. For any other it is INVALID_PARAMS."""


def fault(request: Request, failure: Exception) -> Response:
    """The answer to a failed A2A operation of the node's own agent.

    Its paths are shared with readers who speak no A2A, so a wrong path or query is 422 (SPEC 4.2), in a form that both
    understand.
    """
    if isinstance(failure, Invalid) and failure.issues[0].loc[0] in {"path", "query"}:
        issues = list(failure.issues)
        said = _sentence(issues)
        return status_response(
            422, "INVALID_ARGUMENT", "INVALID_PARAMS", said, violations=issues, also={"detail": issues}
        )
    return inbox_fault(request, failure)


def inbox_fault(request: Request, failure: Exception) -> Response:
    """The answer to a failed operation of an inbox's agent, just as the protocol has it: what cannot be read is 400."""
    if isinstance(failure, A2AError):
        code, status = STATUS[failure.reason]
        return status_response(code, status, failure.reason, failure.message, metadata=failure.metadata)
    if isinstance(failure, Invalid):
        return _invalid(failure)
    plain = response_to(request, failure)  # logs what is a bug, and knows Retry-After
    code = dict(plain.headers).get(b"x-error-code", b"server.bug").decode()
    reason = REASONS.get(code) or REASONS_BY_STATUS.get(plain.status, "INVALID_PARAMS")
    violations: list[Issue] = []
    if isinstance(failure, Refused) and code == "language.not_english":
        violations = [Issue((str(failure.facts["field"]),), "Must be plain English (en-US).", "value_error")]
    said = sentence(failure) if isinstance(failure, Refused) else CATALOGUE[code].sentence
    kept = [header for header in plain.headers if header != JSON_TYPE]
    status = STATUS[reason][1]
    return status_response(plain.status, status, reason, said, violations=violations, headers=kept)


def status_response(
    code: int,
    status: str,
    reason: str,
    message: str,
    *,
    metadata: dict[str, str] | None = None,
    violations: list[Issue] | None = None,
    headers: list[Header] | None = None,
    also: dict[str, Any] | None = None,
) -> Response:
    """`{"error": {...}}`, always as application/json."""
    now = timestamp(time.time_ns() // 1_000_000)
    details: list[dict[str, Any]] = [
        {
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": reason,
            "domain": DOMAIN,
            "metadata": {**(metadata or {}), "timestamp": now},
        }
    ]
    if violations:
        fields = [{"field": _field(issue), "description": issue.msg} for issue in violations]
        details.append({"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": fields})
    error = {"code": code, "status": status, "message": message, "details": details}
    return Response(code, msgspec.json.encode({"error": error, **(also or {})}), [JSON_TYPE, *(headers or [])])


def _invalid(failure: Invalid) -> Response:
    issues = list(failure.issues)
    reason = "INVALID_REQUEST" if issues[0].type == "json_invalid" else "INVALID_PARAMS"
    return status_response(400, "INVALID_ARGUMENT", reason, _sentence(issues), violations=issues)


def _sentence(issues: list[Issue]) -> str:
    return f"Invalid request: {_field(issues[0])}: {issues[0].msg}"


def _field(issue: Issue) -> str:
    steps = issue.loc[1:] if issue.loc[0] in {"body", "query", "path", "header"} else issue.loc
    return ".".join(map(str, steps)) or str(issue.loc[0])
