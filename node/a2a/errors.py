"""A2A error answers: google.rpc.Status with an ErrorInfo as its first detail (A2A v1.0.1 §5.4, §11.6).

Clients recognise errors by `reason`, not by status. All values of `metadata` are strings: some clients cannot parse an
ErrorInfo with any other value, and then do not see the reason.
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
"""A2A reason by error code of the catalogue in `node.web.errors`."""

REASONS_BY_STATUS = {429: "RATE_LIMITED", 500: "INTERNAL_ERROR", 503: "UNAVAILABLE", 507: "UNAVAILABLE"}
"""A2A reason by HTTP status, for error codes without an entry in REASONS. Any other status means INVALID_PARAMS."""


class FailedCall(msgspec.Struct, frozen=True):
    """An A2A failure, independent of the binding, and the headers of its answer."""

    code: int
    """HTTP status."""
    reason: str
    message: str
    metadata: Mapping[str, str] = {}
    violations: Sequence[Issue] = ()
    headers: Sequence[Header] = ()

    def details(self) -> list[dict[str, Any]]:
        """Return the ErrorInfo with the reason and, if any fields are wrong, a BadRequest that lists them."""
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
        """Return `{"error": {...}}` with the members of `also`, always as application/json."""
        status, details = STATUS[self.reason][1], self.details()
        error = {"code": self.code, "status": status, "message": self.message, "details": details}
        return Response(self.code, msgspec.json.encode({"error": error, **also}), [JSON_TYPE, *self.headers])


def fault(request: Request, failure: Exception) -> Response:
    """Return the answer to a failed A2A operation of the node's own agent.

    Clients that do not speak A2A share some of its paths. An invalid path or query is therefore 422 (SPEC 4.2), in a
    form that both kinds of client understand.
    """
    failed = failed_call(request, failure)
    if isinstance(failure, Invalid) and failure.issues[0].loc[0] in {"path", "query"}:
        return msgspec.structs.replace(failed, code=422).answer(detail=failure.issues)
    return failed.answer()


def inbox_fault(request: Request, failure: Exception) -> Response:
    """Return the answer to a failed operation of an inbox's agent. An invalid request is 400, as A2A prescribes."""
    return failed_call(request, failure).answer()


def failed_call(request: Request, failure: Exception) -> FailedCall:
    """Convert any exception of a handler into an A2A failure. Logs it if it is a bug."""
    if isinstance(failure, A2AError):
        return FailedCall(STATUS[failure.reason][0], failure.reason, failure.message, failure.metadata)
    if isinstance(failure, Invalid):
        first = failure.issues[0]
        reason = "INVALID_REQUEST" if first.type == "json_invalid" else "INVALID_PARAMS"
        said = f"Invalid request: {_field(first)}: {first.msg}"
        return FailedCall(400, reason, said, violations=failure.issues)
    plain = response_to(request, failure)  # logs bugs, and adds Retry-After
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
