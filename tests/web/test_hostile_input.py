"""Whatever a client sends, the answer is a clear error: never a 500, never a hang (DESIGN 6)."""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import httpx2
import pytest

from tests.support.http_scope import http_scope
from tests.support.limits import NO_LIMITS
from tests.support.node_under_test import NodeUnderTest
from tests.support.servers import PATIENCE

JSON = {"content-type": "application/json"}
SESSION = "01a1fbd5-10f1-7326-b473-b7b7836b6ce8"

POSTS = [
    "/api/v1/relay",
    "/api/v1/board",
    f"/api/v1/board/{SESSION}/replies",
    "/api/v1/board/search",
    "/api/v1/tasks",
    f"/api/v1/tasks/{SESSION}/claim",
    f"/api/v1/tasks/{SESSION}/transition",
    f"/api/v1/tasks/{SESSION}/complete",
    "/api/v1/sessions",
    f"/api/v1/sessions/{SESSION}/messages",
    f"/api/v1/sessions/{SESSION}/destroy",
    "/api/v1/feedback",
]

NOT_JSON = {
    "nothing but a brace": b"{",
    "a trailing comma": b'{"message": "hello",}',
    "a comment": b'{"message": "hello"} // there',
    "a single quote": b"{'message': 'hello'}",
    "NaN": b'{"message": "hello", "n": NaN}',
    "Infinity": b'{"message": "hello", "n": -Infinity}',
    "a lone surrogate": b'{"message": "\\ud800"}',
    "a raw control character": b'{"message": "a\x01b"}',
    "a byte order mark": b'\xef\xbb\xbf{"message": "hello"}',
    "UTF-16": '{"message": "hello"}'.encode("utf-16"),
    "bad UTF-8 in a string": b'{"message": "\xff\xfe"}',
    "bad UTF-8 in a field nobody reads": b'{"message": "hello", "title": "A title", "body": "A body", "x": "\xc3\x28"}',
    "lists 100,000 deep": b"[" * 100_000,
    "objects 100,000 deep": b'{"a":' * 100_000,
    "closed lists 100,000 deep": b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "nesting one level over the limit": b'{"x":' + b"[" * 64 + b"]" * 64 + b"}",
    "two documents": b'{"message": "hello"}{"message": "hello"}',
    "only white space": b"  \n ",
    "NUL bytes": b"\x00\x00\x00\x00",
}


pytestmark = pytest.mark.settings(limits=NO_LIMITS)


@pytest.mark.parametrize("path", POSTS)
async def test_what_is_not_json_is_refused_everywhere(node: NodeUnderTest, path: str) -> None:
    for name, body in NOT_JSON.items():
        response = await node.client.post(path, content=body, headers=JSON)
        assert response.status_code == 422, (name, response.status_code, response.text[:200])
        item = response.json()["detail"][0]
        assert item["loc"][0] == "body", name
        assert item["msg"], name
        assert item["type"], name


@pytest.mark.parametrize(
    ("text", "half", "place"),
    [
        (r"\ud800", r"\ud800", 9),
        (r"\uD83D\uDE00 \uDE00", r"\uDE00", 22),
        (r"\\\ud83d\\\ude00", r"\ud83d", 11),
    ],
)
async def test_half_of_a_surrogate_pair_is_named(node: NodeUnderTest, text: str, half: str, place: int) -> None:
    wrong = f"body is not JSON: {half} at character {place} is half of a surrogate pair"
    for path in (f"/api/v1/sessions/{SESSION}/messages", "/api/v1/relay"):
        response = await node.client.post(path, content=f'{{"body":"{text}"}}', headers=JSON)
        assert response.json()["detail"] == [{"loc": ["body"], "msg": wrong, "type": "json_invalid"}]


@pytest.mark.parametrize("number", ["1e400", "9" * 5000])
async def test_a_number_that_no_client_could_read_back_is_refused(node: NodeUnderTest, number: str) -> None:
    body = f'{{"message": "hello", "n": {number}}}'
    response = await node.client.post("/api/v1/relay", content=body, headers=JSON)
    assert response.status_code == 422


@pytest.mark.parametrize("path", POSTS)
async def test_json_of_the_wrong_shape_is_refused_everywhere(node: NodeUnderTest, path: str) -> None:
    for body in (b"[]", b"5", b'"text"', b"true", b"null", b"[{}]"):
        response = await node.client.post(path, content=body, headers=JSON)
        assert response.status_code == 422, body


async def test_nesting_up_to_the_limit_is_taken(node: NodeUnderTest) -> None:
    body = b'{"message": "hello", "x":' + b"[" * 63 + b"]" * 63 + b"}"
    assert (await node.client.post("/api/v1/relay", content=body, headers=JSON)).status_code == 200


async def test_brackets_in_a_text_are_no_nesting(node: NodeUnderTest) -> None:
    body = json.dumps({"message": "Look at this list: " + "[" * 200}).encode()
    assert (await node.client.post("/api/v1/relay", content=body, headers=JSON)).status_code == 200


@pytest.mark.parametrize("path", POSTS)
async def test_a_body_of_many_small_parts_is_refused_unread(node: NodeUnderTest, path: str) -> None:
    """1 MiB of `[],` would block a process for a quarter of a second, and of `[[[…]]],` for a whole one."""
    for part in (b"[]", b"{}", b"[" * 60 + b"]" * 60):
        body = b'{"message": "Hello", "x":[' + b",".join([part] * (1_000_000 // (len(part) + 1))) + b"]}"
        response = await node.client.post(path, content=body, headers=JSON)
        assert response.status_code == 422
        assert response.json()["detail"][0]["msg"] == "body holds more than 20000 objects and lists"


@pytest.mark.parametrize("path", ["/api/v1/tasks", "/api/v1/tasks/claim-next"])
async def test_a_body_of_many_texts_that_its_type_has_no_room_for_is_refused_unread(
    node: NodeUnderTest, path: str
) -> None:
    """1 MiB of `"a",` as skills would block a process for a quarter of a second, because each is matched with a
    pattern.
    """
    body = {"publisher_id": "p", "assignee_id": "p", "title": "Sort a list", "skills": ["a"] * 20_000}
    response = await node.client.post(path, json=body)
    assert response.status_code == 422
    assert response.json()["detail"][0]["msg"] == "body holds more than 20000 names and texts"


@pytest.mark.parametrize("end", [b"]}}", b"tttttt"])
async def test_a_contract_of_many_long_numbers_is_refused_unread(node: NodeUnderTest, end: bytes) -> None:
    """1 MiB of them as a result_schema, which is too long for one, would block a process for 1.5 s."""
    numbers = b",".join([b"1e300"] * 1_001)
    body = b'{"publisher_id": "p", "title": "Sort a list", "result_schema": {"enum": [' + numbers + end
    response = await node.client.post("/api/v1/tasks", content=body, headers=JSON)
    assert response.status_code == 422
    assert response.json()["detail"][0]["msg"] == "body holds more than 1000 numbers with an exponent"


async def test_an_exponent_in_a_text_does_not_count(node: NodeUnderTest) -> None:
    offer = {"publisher_id": "p", "title": "Sort a list", "description": "Sort what you find: " + "1e3 " * 1_500}
    assert (await node.client.post("/api/v1/tasks", json=offer)).status_code == 201


async def test_where_any_json_is_taken_texts_do_not_count_nor_do_quotes_within_a_text(node: NodeUnderTest) -> None:
    for path, body in (
        ("/api/v1/relay", {"message": "Hello there", "x": ["a"] * 30_000}),
        ("/api/v1/sessions", {"label": "quotes", "x": '"' * 50_000}),
    ):
        assert (await node.client.post(path, json=body)).is_success


async def test_as_many_parts_as_are_allowed_are_taken_and_those_in_texts_do_not_count(node: NodeUnderTest) -> None:
    parts: list[object] = [[], {}] * 9_998
    body = {"message": "Hello there", "x": parts, "y": ['"[[{{\\', "[" * 30_000, '\\"]]}}', "{" * 30_000]}
    response = await node.client.post("/api/v1/relay", json=body)
    assert response.status_code == 200, response.text
    body["x"] = [*parts, [], []]
    assert (await node.client.post("/api/v1/relay", json=body)).status_code == 422


async def test_as_many_names_as_fit_are_taken_whatever_their_order(node: NodeUnderTest) -> None:
    """An encoder that sorts them could exhaust the stack and kill the process, as with 60,000 names in order."""
    names = dict.fromkeys([f"{number:06d}" for number in range(95_000)], 1)
    response = await node.client.post("/api/v1/relay", json={"message": "Hello there"} | names)
    assert response.status_code == 200, response.text
    kept = await node.client.get(f"/api/v1/relay/{response.json()['reference_id']}")
    assert len(kept.json()["payload"]) == 95_001


async def test_a_text_cannot_hide_the_depth_of_what_follows(node: NodeUnderTest) -> None:
    deep = "[" * 70 + "]" * 70
    for text in ('"]]]]"', '"\\\\"', '"\\""', '"\\\\\\"]]]"'):
        body = f'{{"message": "Hello", "a": [{",".join([text] * 100)}], "x": {deep}}}'.encode()
        response = await node.client.post("/api/v1/relay", content=body, headers=JSON)
        assert response.status_code == 422, text
        assert "64 levels" in response.json()["detail"][0]["msg"]


@pytest.mark.parametrize("number", ["1e300", "-1e-300", "9" * 300, "0.1", "-0", "1E+2", "18446744073709551617"])
async def test_any_number_that_a_client_can_read_back_is_taken(node: NodeUnderTest, number: str) -> None:
    body = f'{{"message": "Hello there", "public": false, "n": {number}}}'.encode()
    response = await node.client.post("/api/v1/relay", content=body, headers=JSON)
    assert response.status_code == 200
    kept = await node.client.get(f"/api/v1/relay/{response.json()['reference_id']}")
    assert kept.content.endswith(f'"n": {number}}}}}'.encode())


async def test_the_last_of_duplicate_keys_wins(node: NodeUnderTest) -> None:
    body = b'{"title": "First title", "title": "Second title", "body": "Which title is it?"}'
    response = await node.client.post("/api/v1/board", content=body, headers=JSON)
    assert response.json()["title"] == "Second title"


@pytest.mark.parametrize("path", POSTS)
async def test_an_announced_body_that_is_too_large_is_not_read(node: NodeUnderTest, path: str) -> None:
    async def nothing() -> AsyncGenerator[bytes]:
        pytest.fail("the body was read")
        yield b""

    headers = JSON | {"content-length": str(2 * 1024 * 1024)}
    response = await node.client.post(path, content=nothing(), headers=headers)
    assert response.status_code == 413


@pytest.mark.parametrize("path", POSTS)
async def test_a_body_that_grows_too_large_is_cut_off(node: NodeUnderTest, path: str) -> None:
    sent = 0

    async def endless() -> AsyncGenerator[bytes]:
        nonlocal sent
        while True:
            sent += 65536
            yield b" " * 65536

    headers = JSON | {"transfer-encoding": "chunked"}
    response = await asyncio.wait_for(node.client.post(path, content=endless(), headers=headers), PATIENCE)
    assert response.status_code == 413
    assert sent <= 2 * 1024 * 1024


@pytest.mark.parametrize(
    "query",
    [
        *("limit=%ff", "limit=%00", "limit=1&limit=x", "limit=" + "9" * 5000, "%ff=1&limit=0"),
        *("offset=1e3", "offset=1E1", "limit=20.0", "offset=-0.0", "limit=%2B5", "offset="),
    ],
)
async def test_a_bad_query_is_refused(node: NodeUnderTest, query: str) -> None:
    response = await node.client.get(f"/api/v1/board?{query}")
    assert response.status_code == 422
    assert response.json()["detail"][0]["loc"][0] == "query"


@pytest.mark.parametrize(
    "asked",
    [
        *("board/x?since_seq=1e1", "board/x?limit=20.0", "sessions/x/messages?since_seq=1.0", "artifacts/x?wait=inf"),
        *("events?topic=board&limit=1.0", "tasks?status=offered&since=1e1", "tasks/x/callbacks?since=1.0"),
    ],
)
async def test_a_number_in_a_query_is_written_in_one_way(node: NodeUnderTest, asked: str) -> None:
    """`1e1` must not be accepted for an integer, whether its parameter has a description or not."""
    response = await node.client.get(f"/api/v1/{asked}")
    assert (response.status_code, response.headers["x-error-code"]) == (422, "request.invalid")


@pytest.mark.parametrize(
    "path", ["/api/v1/board/%00", "/api/v1/board/..%2f..%2fetc", "/api/v1/board/%F0%9F", "/api/v1/tasks/a:b"]
)
async def test_a_strange_path_is_not_found(node: NodeUnderTest, path: str) -> None:
    assert (await node.client.get(path)).status_code in {400, 404}


@pytest.mark.parametrize(("hosts", "status"), [([], 400), (["a", "b"], 400), ([""], 400), (["a"], 200)])
async def test_exactly_one_host_is_asked_for(node: NodeUnderTest, hosts: list[str], status: int) -> None:
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(dict(message))

    headers = [*((b"host", host.encode()) for host in hosts), *[(b"x-forwarded-for", b"10.0.0.1")] * 2]
    await node.app(http_scope("GET", "/health", *headers), receive, send)
    assert sent[0]["status"] == status
    assert (list(json.loads(sent[1]["body"])) == ["error"]) == (status == 400)


async def test_every_answer_has_the_common_headers(node: NodeUnderTest) -> None:
    answers: list[httpx2.Response] = [
        await node.client.get("/health"),
        await node.client.get("/nothing/here"),
        await node.client.request("DELETE", "/api/v1/board"),
        await node.client.post("/api/v1/relay", content=b"{", headers=JSON),
        await node.client.post("/api/v1/relay", json={"message": "Hello there"}),
        await node.client.get("/api/v1/board/unknown"),
    ]
    ids = [answer.headers["x-request-id"] for answer in answers]
    assert len(set(ids)) == len(ids)
    for answer in answers:
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["access-control-allow-origin"] == "*"
    for answer in answers[1:4]:
        assert answer.headers["link"] == '</llms-full.txt#errors>; rel="help"'
        assert answer.headers["x-error-code"]


async def test_a_path_that_takes_other_methods_names_them(node: NodeUnderTest) -> None:
    response = await node.client.request("PUT", "/api/v1/board")
    assert response.status_code == 405
    assert response.headers["allow"] == "GET, HEAD, OPTIONS, POST"
    assert response.json() == {"error": "This path takes only GET, HEAD, OPTIONS, POST."}


async def test_head_is_get_without_a_body(node: NodeUnderTest) -> None:
    got = await node.client.get("/api/v1/board")
    head = await node.client.head("/api/v1/board")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == got.headers["content-length"]


async def test_a_browser_may_ask_before_it_posts(node: NodeUnderTest) -> None:
    asked = {"origin": "https://app.example", "access-control-request-method": "POST"}
    response = await node.client.options("/api/v1/relay", headers=asked)
    assert response.status_code == 204
    assert "POST" in response.headers["access-control-allow-methods"]
    assert "Idempotency-Key" in response.headers["access-control-allow-headers"]
    assert "access-control-allow-credentials" not in response.headers


@pytest.mark.parametrize("key", ["", "x" * 256])
async def test_a_key_of_a_bad_length_is_refused(node: NodeUnderTest, key: str) -> None:
    response = await node.client.post("/api/v1/relay", json={"message": "Hello"}, headers={"idempotency-key": key})
    assert response.status_code == 422


@pytest.mark.parametrize("key", ["", "x" * 256])
async def test_a_key_of_a_bad_length_is_refused_even_if_the_body_has_one(node: NodeUnderTest, key: str) -> None:
    body = {"assignee_id": "summary-agent", "idempotency_key": "k" * 16}
    response = await node.client.post("/api/v1/tasks/claim-next", json=body, headers={"idempotency-key": key})
    assert (response.status_code, response.json()["detail"][0]["loc"]) == (422, ["header", "Idempotency-Key"])
