"""Failures as A2A clients read them: google.rpc.Status with an ErrorInfo first (A2A v1.0.1 §5.4, §11.6).

Clients map errors by `reason`, not by status. The values of `metadata` are strings: with others, some clients cannot
read the reason.
"""

import time
from collections.abc import Mapping, Sequence
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
    "INBOX_POLICY": (403, "PERMISSION_DENIED"),
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
    "inbox.policy": "INBOX_POLICY",
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


class FailedCall(msgspec.Struct, frozen=True):
    """A failure as the protocol has it, whatever the binding, and the headers of its answer."""

    code: int
    """The status of HTTP."""
    reason: str
    message: str
    metadata: Mapping[str, str] = {}
    violations: Sequence[Issue] = ()
    headers: Sequence[Header] = ()

    def details(self) -> list[dict[str, Any]]:
        """The reason, and which fields are wrong if any are."""
        details: list[dict[str, Any]] = [
            {
                "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                "reason": self.reason,
                "domain": DOMAIN,
                "metadata": {**self.metadata, "timestamp": timestamp(time.time_ns() // 1_000_000)},
            }
        ]
        if self.violations:
            fields = [{"field": _field(issue), "description": issue.msg} for issue in self.violations]
            details.append({"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": fields})
        return details

    def answer(self, **also: object) -> Response:
        """`{"error": {...}}`, always as application/json."""
        status, details = STATUS[self.reason][1], self.details()
        error = {"code": self.code, "status": status, "message": self.message, "details": details}
        return Response(self.code, msgspec.json.encode({"error": error, **also}), [JSON_TYPE, *self.headers])


def fault(request: Request, failure: Exception) -> Response:
    """The answer to a failed A2A operation of the node's own agent.

    Its paths are shared with readers who speak no A2A, so a wrong path or query is 422 (SPEC 4.2), in a form that both
    understand.
    """
    failed = failed_call(request, failure)
    if isinstance(failure, Invalid) and failure.issues[0].loc[0] in {"path", "query"}:
        return msgspec.structs.replace(failed, code=422).answer(detail=failure.issues)
    return failed.answer()


def inbox_fault(request: Request, failure: Exception) -> Response:
    """The answer to a failed operation of an inbox's agent, just as the protocol has it: what cannot be read is 400."""
    return failed_call(request, failure).answer()


def failed_call(request: Request, failure: Exception) -> FailedCall:
    """A failure as the protocol reports it."""
    if isinstance(failure, A2AError):
        return FailedCall(STATUS[failure.reason][0], failure.reason, failure.message, failure.metadata)
    if isinstance(failure, Invalid):
        first = failure.issues[0]
        reason = "INVALID_REQUEST" if first.type == "json_invalid" else "INVALID_PARAMS"
        said = f"Invalid request: {_field(first)}: {first.msg}"
        return FailedCall(400, reason, said, violations=failure.issues)
    plain = response_to(request, failure)  # logs what is a bug, and knows Retry-After
    code = dict(plain.headers).get(b"x-error-code", b"server.bug").decode()
    reason = REASONS.get(code) or REASONS_BY_STATUS.get(plain.status, "INVALID_PARAMS")
    violations: list[Issue] = []
    if isinstance(failure, Refused) and code == "language.not_english":
        violations = [Issue((str(failure.facts["field"]),), "Must be plain English (en-US).", "value_error")]
    said = sentence(failure) if isinstance(failure, Refused) else CATALOGUE[code].sentence
    kept = [header for header in plain.headers if header != JSON_TYPE]
    return FailedCall(plain.status, reason, said, violations=violations, headers=kept)


def _field(issue: Issue) -> str:
    steps = issue.loc[1:] if issue.loc[0] in {"body", "query", "path", "header"} else issue.loc
    return ".".join(map(str, steps)) or str(issue.loc[0])
