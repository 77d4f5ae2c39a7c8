"""Long queries, paths and signatures either cost about as much as short ones, or are charged by their length."""

import pytest

from node.common.refusal import Invalid
from node.web import handling, http
from node.web.dispatch import MAX_PATH_BYTES
from node.web.handling import ESCAPE_COST, MAX_NAMED_QUERY_BYTES
from node.web.http import MAX_PARAMETERS, Request, parameters_of
from node.web.signature import FIELD_COST
from node.web.throughput import BURST_SECONDS
from tests.support.answers import json_of
from tests.support.node_under_test import NodeUnderTest

RATE = 64 * 1024  # so that a bucket is soon empty
UNKNOWN = "01a1fbd5-10f1-7326-b473-b7b7836b6ce8"


pytestmark = pytest.mark.settings(client_throughput=RATE)


def parameters(count: int) -> str:
    return "&".join(f"p{number}=1" for number in range(count))


async def test_a_query_has_so_many_parameters_at_most(node: NodeUnderTest) -> None:
    assert (await node.client.get(f"/api/v1/board?{parameters(MAX_PARAMETERS)}")).status_code == 200
    [issue] = json_of(await node.client.get(f"/api/v1/board?{parameters(MAX_PARAMETERS + 1)}"), 422)["detail"]
    assert (issue["loc"], str(MAX_PARAMETERS) in issue["msg"]) == (["query"], True)


def test_a_query_may_be_typed_without_escapes() -> None:
    """Such a query must not be refused as one that is not UTF-8."""
    assert parameters_of("q=café&café=caf%C3%A9+é".encode()) == {"q": "café", "café": "café é"}


@pytest.mark.parametrize("value", [b"caf\xe9", b"caf%E9", b"\xc3%A9"])
def test_a_query_that_is_no_utf_8_is_refused(value: bytes) -> None:
    with pytest.raises(Invalid, match="not valid UTF-8"):
        parameters_of(b"q=" + value)


async def test_a_long_query_that_nobody_wants_is_not_read(node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    named: list[int] = []

    def name_parameters(request: Request) -> None:
        named.append(len(request.scope["query_string"]))

    monkeypatch.setattr(handling, "name_parameters", name_parameters)
    for size in (MAX_NAMED_QUERY_BYTES, MAX_NAMED_QUERY_BYTES + 1):
        assert (await node.client.get("/health?" + "a" * size)).status_code == 200
    assert named == [MAX_NAMED_QUERY_BYTES]


@pytest.mark.usefixtures("no_refill")
@pytest.mark.parametrize("value", ["%41" * 10_000, "%" * 16_000], ids=["letters", "percent signs"])
async def test_escapes_in_queries_count_by_their_number(node: NodeUnderTest, value: str) -> None:
    times = 0
    while (response := await node.client.get(f"/api/v1/board?z={value}")).status_code == 200:
        times += 1
        assert times * ESCAPE_COST * value.count("%") < 2 * BURST_SECONDS * RATE
    assert response.headers["x-error-code"] == "limit.throughput"


@pytest.mark.parametrize("path", ["/api/v1/tasks", f"/api/v1/tasks/{UNKNOWN}", "/api/v1/board", "/health"])
async def test_the_escapes_of_a_query_are_read_as_often_as_they_are_counted(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    read: list[bytes] = []

    def counted(query: bytes) -> dict[str, str]:
        read.append(query)
        return parameters_of(query)

    monkeypatch.setattr(http, "parameters_of", counted)
    await node.client.get(f"{path}?z={'%41' * 100}", headers={"accept": "application/a2a+json"})
    assert len(read) == 1


@pytest.mark.usefixtures("no_refill")
async def test_what_is_taken_apart_of_a_signature_counts_by_its_size(node: NodeUnderTest) -> None:
    """Parsing 12 kB of parameters of a refused signature takes 3.7 ms."""
    field = "sig=()" + "".join(f";p{number}=@1" for number in range(500))
    path, times = f"/api/v1/inboxes/{'a' * 27}/messages", 0
    headers = {"signature-input": field, "signature-key": field, "signature": field}
    while (response := await node.client.get(path, headers=headers)).status_code == 400:
        times += 1
        assert times * FIELD_COST * 3 * len(field) < 2 * BURST_SECONDS * RATE
    assert response.headers["x-error-code"] == "limit.throughput"


async def test_a_path_that_is_longer_than_any_is_refused_before_it_is_looked_at(node: NodeUnderTest) -> None:
    answers = [await node.client.get("/" + "a" * size) for size in (MAX_PATH_BYTES - 1, MAX_PATH_BYTES)]
    assert [answer.status_code for answer in answers] == [404, 414]
    assert answers[1].headers["x-error-code"] == "path.long"
