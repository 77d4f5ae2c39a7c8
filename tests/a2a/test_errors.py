"""Failures in the form that A2A clients read."""

from string import Formatter

import msgspec
import pytest

from node.a2a.errors import fault
from node.a2a.inboxes.rpc import OTHER_CODE, rpc_fault
from node.common.refusal import Refused
from node.web.errors import CATALOGUE
from node.web.http import Scope
from tests.support.lone_request import lone_request

LIMITS = [code for code, entry in CATALOGUE.items() if entry.status == 429]
OUTAGES = [code for code, entry in CATALOGUE.items() if entry.status in (503, 507)]


@pytest.mark.parametrize("code", [*LIMITS, *OUTAGES])
def test_no_limit_and_no_outage_is_taken_for_a_wrong_parameter(code: str) -> None:
    scope: Scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": []}
    request = lone_request(scope)
    facts = {name: 1 for _, name, _, _ in Formatter().parse(CATALOGUE[code].sentence) if name}
    refused = Refused(code, retry_after=5, **facts)
    [info] = msgspec.json.decode(fault(request, refused).body)["error"]["details"]
    assert info["reason"] == ("RATE_LIMITED" if code in LIMITS else "UNAVAILABLE")
    by_rpc = rpc_fault(request, refused)
    assert (by_rpc.status, msgspec.json.decode(by_rpc.body)["error"]["code"]) == (CATALOGUE[code].status, OTHER_CODE)
    assert dict(by_rpc.headers)[b"retry-after"] == b"5"
