"""Each path has one spelling: what a proxy's rules pass or block is what the node serves."""

import httpx2
import pytest

from tests.support.node_under_test import NodeUnderTest

SESSION = "01a1fbd5-10f1-7326-b473-b7b7836b6ce8"


def code(response: httpx2.Response) -> tuple[int, str]:
    return response.status_code, response.headers.get("x-error-code", "")


@pytest.mark.parametrize(
    "path",
    [
        *("//api/v1/board", "/api//v1/board", "/api/v1/board/", "/api/v1/board//", "/api/v1//relay", "/llms.txt/"),
        *("/api%2Fv1/board", "/api/v1%2fboard", "/%61pi/v1/board", "/api/v1/boar%64", "/api/%761/board", "/%2e/health"),
        *(
            f"/api/v1/sessions/{SESSION}/messages/",
            f"/api/v1/sessions/{SESSION}/message%73",
            "/mcp%2Fmessages",
            "/he%61lth",
        ),
        *("//blobs/x", "/%62lobs/x", "/board/%2E%2e/", "//evil.example/", "/\\evil.example/"),
    ],
)
async def test_another_spelling_of_a_path_is_not_served(node: NodeUnderTest, path: str) -> None:
    """Litestar drops empty path components and Granian decodes escapes, so a proxy that watches /api/v1/relay would see
    none of these.
    """
    for method in ("GET", "POST"):
        response = await node.client.request(method, f"http://node.example{path}")
        assert code(response) == (404, "path.spelling")
        assert response.json()["error"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/api/v1/message:send/"),
        ("POST", "/api/v1/tasks/a%2Fb:cancel"),
        ("GET", f"/api/v1/inboxes/{'a' * 27}/a2a/tasks/a%2Fb"),
        ("GET", f"/api/v1/inboxes/{'a' * 27}/a2a/tasks/a%2fb/pushNotificationConfigs"),
    ],
)
async def test_a_protocol_says_so_in_its_own_form(node: NodeUnderTest, method: str, path: str) -> None:
    """An official A2A client escapes the slash in an id, and must get an error of a form that it knows."""
    response = await node.client.request(method, f"http://node.example{path}", json={})
    error = response.json()["error"]
    assert (response.status_code, error["status"], error["details"][0]["reason"]) == (
        404,
        "NOT_FOUND",
        "METHOD_NOT_FOUND",
    )


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("//", "/"),
        ("/board/", "/board"),
        ("//board", "/board"),
        ("/board/?q=solar", "/board?q=solar"),
        (f"/board//{SESSION}/", f"/board/{SESSION}"),
    ],
)
async def test_a_reader_of_a_page_is_led_to_its_path(node: NodeUnderTest, path: str, meant: str) -> None:
    for method in ("GET", "HEAD"):
        response = await node.client.request(method, f"http://node.example{path}")
        assert (response.status_code, response.headers["location"]) == (308, meant)
    assert code(await node.client.post(f"http://node.example{path}")) == (404, "path.spelling")


async def test_what_needs_an_escape_or_may_have_one_is_served(node: NodeUnderTest) -> None:
    message = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "Hello from agent A."}]}}
    assert (await node.client.post("http://node.example/api/v1/message%3Asend", json=message)).status_code == 200
    assert code(await node.client.get("/api/v1/board/%F0%9F")) == (404, "thread.unknown")


async def test_mcp_clients_may_write_a_slash_at_the_end(node: NodeUnderTest) -> None:
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    assert (await node.client.post("/api/v1/mcp/", json=ping)).status_code == 200
    assert (await node.client.get("/api/v1/mcp/")).status_code == 405
