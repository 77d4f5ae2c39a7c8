"""How `relay-node verify` reads what it is to verify from a node that may answer anything."""

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from node.admin.verify import Record, api_url, read
from node.cli import main
from tests.board.signed_posts import BOARD, QUESTION
from tests.support.node_under_test import NodeUnderTest


class Pages(BaseHTTPRequestHandler):
    """Answers each path with the given status and body."""

    def __init__(self, pages: dict[str, tuple[int, bytes]], *arguments: Any) -> None:
        self._pages = pages
        super().__init__(*arguments)

    def do_GET(self) -> None:
        status, body = self._pages.get(self.path, (404, b"{}"))
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        if status == 302:
            self.send_header("location", "/elsewhere")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name
        """Log nothing."""


@contextmanager
def served(pages: dict[str, tuple[int, bytes]]) -> Generator[str]:
    """Yield the URL of a server with these pages."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Pages, pages)) as server:
        # With the default poll interval, each test would wait half a second.
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("shown", "record"),
    [
        ("http://n/board/x", "http://n/api/v1/board/threads/x"),
        ("http://n/board/x#reply-3", "http://n/api/v1/board/threads/x"),
        ("http://n/api/v1/board/x", "http://n/api/v1/board/threads/x"),
        ("https://n:8/api/v1/board/threads/x?limit=3", "https://n:8/api/v1/board/threads/x"),
        ("http://n/pre/fix/board/x/", "http://n/pre/fix/api/v1/board/threads/x"),
        ("http://n/tasks/y", "http://n/api/v1/tasks/y"),
        ("http://n/api/v1/tasks/y?a=b", "http://n/api/v1/tasks/y"),
        ("https://files.example/record.json?v=1", "https://files.example/record.json?v=1"),
    ],
)
def test_the_address_of_a_page_leads_to_its_record(shown: str, record: str) -> None:
    assert api_url(shown) == record


async def test_all_pages_of_a_thread_are_read(node: NodeUnderTest) -> None:
    thread = (await node.client.post(BOARD, json=QUESTION)).json()
    path = f"{BOARD}/threads/{thread['id']}"
    for n in range(25):
        await node.client.post(f"{BOARD}/{thread['id']}/replies", json={"body": f"I can help you, offer {n}"})
    pages = {
        asked: (200, (await node.client.get(asked)).content)
        for asked in (f"{path}?limit=20", f"{path}?limit=20&since_seq=20")
    }
    with served(pages) as base:
        record = await read(f"{base}/board/{thread['id']}")
    assert [reply["seq"] for reply in record["replies"]] == list(range(1, 26))


async def test_a_thread_whose_last_page_is_full_is_read_to_its_end() -> None:
    replies = [{"id": str(seq), "seq": seq, "body": "b"} for seq in range(1, 21)]
    thread: dict[str, Any] = {"id": "t", "title": "t"}
    pages = {
        "/api/v1/board/threads/t?limit=20": (200, json.dumps(thread | {"replies": replies}).encode()),
        "/api/v1/board/threads/t?limit=20&since_seq=20": (200, json.dumps(thread | {"replies": []}).encode()),
    }
    with served(pages) as base:
        assert (await read(f"{base}/board/t"))["replies"] == replies


async def test_a_node_whose_replies_have_no_numbers_is_told_so() -> None:
    page = json.dumps({"id": "t", "title": "t", "replies": [{"id": "r", "body": "b"}] * 20}).encode()
    with (
        served({"/api/v1/board/threads/t?limit=20": (200, page)}) as base,
        pytest.raises(ValueError, match="a reply has no seq"),
    ):
        await read(f"{base}/board/t")


async def test_a_node_that_repeats_its_replies_does_not_hold_us_up() -> None:
    reply = {"id": "r", "seq": 1, "thread_id": "t", "body": "b", "signature": None}
    page = json.dumps({"id": "t", "title": "t", "replies": [reply] * 20}).encode()
    pages = {
        "/api/v1/board/threads/t?limit=20": (200, page),
        "/api/v1/board/threads/t?limit=20&since_seq=1": (200, page),
    }
    with served(pages) as base, pytest.raises(ValueError, match="do not come in order"):
        await read(f"{base}/board/t")


async def test_a_thread_of_too_many_replies_is_not_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("node.admin.verify.MAX_REPLIES", 20)
    replies: list[Record] = [{"id": str(seq), "seq": seq, "thread_id": "t", "body": "b"} for seq in range(1, 22)]

    def page(*replies: Record) -> tuple[int, bytes]:
        return 200, json.dumps({"id": "t", "title": "t", "replies": replies}).encode()

    first, rest = "/api/v1/board/threads/t?limit=20", "/api/v1/board/threads/t?limit=20&since_seq=20"
    with served({first: page(*replies[:20]), rest: page()}) as base:
        assert (await read(f"{base}/board/t"))["replies"] == replies[:20]
    with (
        served({first: page(*replies[:20]), rest: page(*replies[20:])}) as base,
        pytest.raises(ValueError, match="more than 20 replies"),
    ):
        await read(f"{base}/board/t")


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (200, b"<html>", "it is not JSON"),
        (200, b"[" * 200_000, "it is not JSON"),
        (200, b'{"id": "\\ud800", "title": "t"}', "it is not JSON"),
        (200, b"[]", "it holds no thread, reply or task"),
        (200, b"7", "it holds no thread, reply or task"),
        (200, b'{"id": 1}', "it holds no thread, reply or task"),
        (200, b'{"title": "t", "replies": [1]}', "its replies cannot be read"),
        (200, b'{"title": "t", "replies": 1}', "its replies cannot be read"),
        (200, b" " * 9_000_000, "the answer is longer than 8388608 bytes"),
        (302, b"", "the server answered 302"),
        (404, b"{}", "the server answered 404"),
    ],
)
def test_an_answer_that_is_no_record_is_one_sentence(
    status: int, body: bytes, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with served({"/record.json": (status, body)}) as base:
        assert main(["verify", f"{base}/record.json"]) == 4
        assert capsys.readouterr().err == f"relay-node: {base}/record.json: {said}\n"


@pytest.mark.parametrize(
    "source",
    ["http://127.0.0.1:1/board/x", "http://127.0.0.1:1/board/ü", "ftp://n/board/x", "http://[/board/x", "/nowhere"],
)
def test_what_cannot_be_read_is_one_sentence(source: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", source]) == 4
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"relay-node: {source}: ")
