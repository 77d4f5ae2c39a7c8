"""The operator's pages on the admin port show and do what the commands do, and only for the operator."""

import html
import http.client
import json
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import httpx2
import pytest

from node.admin.page.actions import ACTIONS
from node.admin.page.csrf import CsrfTokens
from node.admin.page.views import VIEWS
from node.admin.port import LazyPages
from node.config import Settings
from node.observe.metrics.server import AdminRequest, InstanceState
from tests.observe.scrape import AdminPort
from tests.support.nodes import NodeProcess
from tests.support.servers import PATIENCE, free_port, until

POST = {"title": "Looking for a parser", "body": "Who can parse 40 MB of CSV in a sandbox?", "author": "an-agent"}
TOKEN = re.compile(r'name="token" value="(\w+)"')


class Page(NamedTuple):
    """Answer of the admin port."""

    status: int
    headers: http.client.HTTPMessage
    text: str


class Operator:
    """The operator of a running node. An HTTP client stands in for the browser."""

    def __init__(self, node: NodeProcess, port: int) -> None:
        self.node, self.port = node, port
        self.host = f"127.0.0.1:{port}"
        self.api = httpx2.Client(base_url=node.url, timeout=PATIENCE)

    def ask(self, method: str, path: str, body: str = "", **headers: str) -> Page:
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            client.request(method, path, body or None, named)
            answer = client.getresponse()
            return Page(answer.status, answer.headers, html.unescape(answer.read().decode()))
        finally:
            client.close()

    def see(self, path: str) -> str:
        """Return a page, which must exist."""
        page = self.ask("GET", path)
        assert page.status == 200, page.text
        return page.text

    def token(self, act: str, target: str) -> str:
        found = TOKEN.search(self.see(f"/admin/act/{act}?id={quote(target)}"))
        assert found
        return found[1]

    def confirm(self, act: str, target: str, **fields: str) -> Page:
        form = urlencode({"id": target, "token": self.token(act, target), **fields})
        return self.ask("POST", f"/admin/act/{act}", form, Origin=f"http://{self.host}", Sec_Fetch_Site="same-origin")

    def thread(self, **fields: str) -> str:
        return self.api.post("/api/v1/board", json=POST | fields).json()["id"]

    def status(self, thread: str) -> int:
        return self.api.get(f"/api/v1/board/{thread}").status_code

    def audit(self) -> str:
        return self.see("/admin")


@pytest.fixture(scope="module")
def operator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    port = free_port()
    with NodeProcess(tmp_path_factory.mktemp("node")) as node:
        limits = {f"RELAY_LIMIT_{name}": "0" for name in ("BOARD", "REPLY")}
        node.start(RELAY_WORKERS="1", RELAY_ADMIN_PORT=str(port), **limits)
        node.ready()
        until(lambda: AdminPort(port).answers("/ready", 200), "the admin port is ready")
        opened = Operator(node, port)
        yield opened
        opened.api.close()


def noted(operator: Operator, thread: str) -> None:
    """Wait until a worker has recorded who posted a thread."""
    until(lambda: "from 127.0.0.1" in re.sub("<[^>]+>", "", operator.see(f"/admin/thread?id={thread}")), "it is noted")


def test_pages_show_what_the_commands_show(operator: Operator) -> None:
    thread = operator.thread(title="How do I read a page of this node?")
    reply = operator.api.post(f"/api/v1/board/{thread}/replies", json={"body": "I can help you with that question."})
    assert reply.status_code == 201
    report = {"reason": "It is advertising for a shop.", "reply_seq": 1}
    assert operator.api.post(f"/api/v1/board/{thread}/report", json=report).status_code < 300
    noted(operator, thread)
    assert "Redis" in operator.see("/admin")
    assert "How do I read a page" in operator.see("/admin/threads")
    assert "127.0.0.1" in operator.see("/admin/threads")
    for path in ("/admin", "/admin/threads", "/admin/reports"):
        levels = [int(level) for level in re.findall(r"<h(\d)", operator.see(path))]
        assert levels[0] == 1
        assert all(below <= above + 1 for above, below in pairwise(levels)), path  # no heading level is skipped
    assert "I can help you" in operator.see(f"/admin/thread?id={thread}")
    assert f"{thread}:1" in operator.see("/admin/reports").replace("%3A", ":")
    assert "advertising for a shop" in operator.see(f"/admin/report?id={thread}:1")
    assert thread in operator.see("/admin/posts?id=127.0.0.0/8")
    assert "Clients" in operator.see("/admin/clients?by=refused&days=7")
    assert "nobody" not in operator.see("/admin/blocked")


@pytest.mark.parametrize("act", ["hide", "close"])
def test_an_act_is_done_once_it_is_confirmed_and_audited(operator: Operator, act: str) -> None:
    thread = operator.thread()
    undo = {"hide": "unhide", "close": "reopen"}[act]

    def state() -> str:
        found = operator.api.get(f"/api/v1/board/{thread}")
        return found.json()["status"] if found.status_code == 200 else "hidden"

    assert operator.confirm(act, thread).status == 200
    assert state() == {"hide": "hidden", "close": "closed"}[act]
    assert f"threads {act}" in operator.audit()
    assert "admin page, 127.0.0.1" in operator.audit()
    assert operator.confirm(undo, thread).status == 200
    assert state() == "open"


def test_reports_are_settled_and_clients_blocked_and_purged(operator: Operator) -> None:
    thread = operator.thread()
    operator.api.post(f"/api/v1/board/{thread}/report", json={"reason": "It is spam for everybody."})
    assert thread in operator.see("/admin/reports")
    assert operator.confirm("dismiss", thread).status == 200
    assert thread not in operator.see("/admin/reports")
    assert operator.confirm("block", "203.0.113.0/24", reason="floods <us>", seconds="3600").status == 200
    blocked = operator.see("/admin/blocked")
    assert "203.0.113.0/24" in blocked
    assert "floods <us>" in blocked
    assert "admin page, 127.0.0.1" in blocked
    assert operator.confirm("unblock", "203.0.113.0/24").status == 200
    assert "203.0.113.0/24" not in operator.see("/admin/blocked")
    noted(operator, thread)
    asked = operator.see("/admin/act/purge?id=127.0.0.1")
    assert thread in asked
    assert "This cannot be undone" in asked
    assert operator.status(thread) == 200
    assert operator.confirm("purge", "127.0.0.1").status == 200
    assert operator.status(thread) == 404


@pytest.mark.parametrize("act", ACTIONS)
def test_a_get_never_acts(operator: Operator, act: str) -> None:
    thread = operator.thread()
    target = "127.0.0.1" if ACTIONS[act].command.startswith("clients") else thread
    operator.ask("GET", f"/admin/act/{act}?{urlencode({'id': target, 'token': 'x', 'seconds': '60'})}")
    assert operator.status(thread) == 200
    assert operator.api.post(f"/api/v1/board/{thread}/replies", json={"body": "I am still here."}).status_code == 201


def test_what_cannot_be_done_has_no_button(operator: Operator) -> None:
    page = operator.ask("GET", "/admin/act/hide?id=01a1fbd5-10f1-7326-b473-b7b7836b6ce8")
    assert (page.status, TOKEN.search(page.text)) == (404, None)


def test_a_form_that_no_browser_has_sent_is_not_ours() -> None:
    forms = CsrfTokens()
    token = forms.token("hide", "1")
    assert forms.is_confirmed("hide", "1", token, {"origin": "https://Node:9100", "host": "node:9100"})
    for headers in ({}, {"host": "node:9100"}, {"origin": "null", "host": ""}):
        assert not forms.is_confirmed("hide", "1", token, headers)


def test_another_page_in_the_browser_does_nothing(operator: Operator) -> None:
    thread = operator.thread()
    token, own = operator.token("hide", thread), f"http://{operator.host}"
    form = urlencode({"id": thread, "token": token})
    tries: list[tuple[str, dict[str, str]]] = [
        (form, {}),
        (form, {"Origin": "http://evil.example"}),
        (form, {"Origin": "null"}),
        (form, {"Origin": f"http://localhost:{operator.port}"}),
        (form, {"Origin": own, "Sec_Fetch_Site": "cross-site"}),
        (form, {"Origin": own, "Sec_Fetch_Site": "same-site"}),
        (urlencode({"id": thread}), {"Origin": own}),
        (urlencode({"id": thread, "token": "é"}), {"Origin": own}),
        (urlencode({"id": thread, "token": operator.token("close", thread)}), {"Origin": own}),
        (urlencode({"id": thread, "token": operator.token("hide", operator.thread())}), {"Origin": own}),
    ]
    for body, headers in tries:
        assert operator.ask("POST", "/admin/act/hide", body, **headers).status == 403, (body, headers)
    assert (
        operator.ask("POST", "/admin/act/hide", form, Host="evil.example", Origin="http://evil.example").status == 421
    )
    assert operator.status(thread) == 200
    assert operator.ask("POST", "/admin/act/hide", form, Origin=own).status == 200
    assert operator.status(thread) == 404


@pytest.mark.parametrize("view", VIEWS)
def test_no_page_is_for_another_host_or_kept_or_framed(operator: Operator, view: str) -> None:
    assert operator.ask("GET", f"/admin{view}", Host="evil.example").status == 421
    page = operator.ask("GET", f"/admin{view}?id=x")
    assert page.headers["cache-control"] == "no-store"
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "script" not in policy
    assert "<script" not in page.text
    assert operator.ask("POST", f"/admin{view}", "id=x", Origin=f"http://{operator.host}").status == 405


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/admin/nothing", 404),
        ("GET", "/admin/act/nothing?id=x", 404),
        ("GET", "/admin/act/hide?id=", 400),
        ("GET", "/admin/act/hide?id=--help", 404),
        ("GET", "/admin/act/block?id=everybody", 400),
        ("GET", "/admin/thread?id=nope", 404),
        ("GET", "/admin/thread?id=-h", 404),
        ("GET", "/admin/report?id=nope", 404),
        ("GET", "/admin/threads?status=lost", 400),
        ("GET", "/admin/threads?offset=x", 400),
        ("GET", "/admin/clients?days=0", 400),
        ("GET", "/admin?" + "&".join(f"a{number}=1" for number in range(20)), 400),
        ("GET", "/administrator", 404),
        ("GET", "/static/none.css", 404),
        ("GET", "/static/../server.py", 404),
        ("POST", "/metrics", 405),
        ("POST", "/admin/act/hide", 411),
    ],
)
def test_what_no_page_asks_for_is_answered_clearly(operator: Operator, method: str, path: str, status: int) -> None:
    client = http.client.HTTPConnection("127.0.0.1", operator.port, timeout=PATIENCE)
    client.putrequest(method, path)
    client.endheaders()
    assert client.getresponse().status == status
    client.close()


def test_a_form_that_is_too_long_is_not_read(operator: Operator) -> None:
    assert operator.ask("POST", "/admin/act/hide", "id=" + "x" * 20_000).status == 413


def test_the_public_port_has_none_of_it(operator: Operator) -> None:
    for path in ("/admin", *(f"/admin{view}" for view in VIEWS), *(f"/admin/act/{act}?id=x" for act in ACTIONS)):
        assert operator.api.get(path).status_code == 404, path
        assert operator.api.post(path, data={"id": "x"}).status_code in {404, 405}, path
    paths: dict[str, Any] = json.loads(operator.node.get("/openapi.json"))["paths"]
    assert not [path for path in paths if path.startswith("/admin")]


async def ready() -> InstanceState:
    return InstanceState(ok=True)


async def test_another_machine_gets_no_page_and_loads_nothing(tmp_path: Path) -> None:
    pages = LazyPages(Settings(data_dir=tmp_path))
    for peer in ("192.0.2.7", "10.0.0.1", "2001:db8::1", "::ffff:192.0.2.7"):
        answer = await pages.answer(AdminRequest("GET", "/admin", peer, {}, b"", ready))
        assert answer.status == 403
        assert b"ssh -L" in answer.body
    for peer in ("127.0.0.1", "::1", "::ffff:127.0.0.1"):
        assert (await pages.answer(AdminRequest("GET", "/admin/nothing", peer, {}, b"", ready))).status == 404
    await pages.close()
