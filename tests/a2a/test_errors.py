"""Failures in the form that A2A clients read."""

from string import Formatter

import msgspec
import pytest

from node.a2a.errors import fault
from node.a2a.inboxes.rpc import OTHER_CODE, rpc_fault
from node.a2a.refusal import A2AError
from node.common.refusal import Refused
from node.web.errors import CATALOGUE
from node.web.http import Scope
from tests.support.lone_request import lone_request

LIMITS = [code for code, entry in CATALOGUE.items() if entry.status == 429]
UNREAD = ("body.stalled", "body.incomplete")
OUTAGES = [code for code, entry in CATALOGUE.items() if entry.status in (503, 507)]


SCOPE: Scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": []}


@pytest.mark.parametrize(
    ("named", "status"),
    [
        ("TASK_NOT_FOUND", "NOT_FOUND"),
        ("TASK_NOT_CANCELABLE", "FAILED_PRECONDITION"),
        ("PUSH_NOTIFICATION_NOT_SUPPORTED", "FAILED_PRECONDITION"),
        ("UNSUPPORTED_OPERATION", "FAILED_PRECONDITION"),
        ("CONTENT_TYPE_NOT_SUPPORTED", "INVALID_ARGUMENT"),
        ("VERSION_NOT_SUPPORTED", "FAILED_PRECONDITION"),
    ],
)
def test_a_refusal_that_the_protocol_names_has_its_status(named: str, status: str) -> None:
    """A2A v1.0.1 §5.4."""
    response = fault(lone_request(SCOPE), A2AError(named, "No."))
    error = msgspec.json.decode(response.body)["error"]
    assert (error["status"], error["code"]) == (status, response.status)


@pytest.mark.parametrize(
    ("failure", "why"),
    [(ZeroDivisionError(), "INTERNAL_ERROR"), *((Refused(code), "INVALID_REQUEST") for code in UNREAD)],
)
def test_a_bug_and_a_body_that_does_not_come_are_no_wrong_parameters(failure: Exception, why: str) -> None:
    [info] = msgspec.json.decode(fault(lone_request(SCOPE), failure).body)["error"]["details"]
    assert info["reason"] == why


@pytest.mark.parametrize("code", [*LIMITS, *OUTAGES])
def test_no_limit_and_no_outage_is_taken_for_a_wrong_parameter(code: str) -> None:
    request = lone_request(SCOPE)
    facts = {name: 1 for _, name, _, _ in Formatter().parse(CATALOGUE[code].sentence) if name}
    refused = Refused(code, retry_after=5, **facts)
    [info] = msgspec.json.decode(fault(request, refused).body)["error"]["details"]
    assert info["reason"] == ("RATE_LIMITED" if code in LIMITS else "UNAVAILABLE")
    by_rpc = rpc_fault(request, refused)
    assert (by_rpc.status, msgspec.json.decode(by_rpc.body)["error"]["code"]) == (CATALOGUE[code].status, OTHER_CODE)
    assert dict(by_rpc.headers)[b"retry-after"] == b"5"
