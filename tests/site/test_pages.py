"""The pages: what they show, what they never do, and how large they are."""

import re
import time
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import httpx2
import pytest

from node.config import Limit, Limits
from node.site.filters import moment
from node.site.model import MAX_REPLIES, PAGE_SIZE
from tests.sign.signing import BODY, PUBLIC, Signed, sign
from tests.site.hostile import MARKUP, body, title
from tests.site.html import Page
from tests.support.answers import json_of
from tests.support.node_under_test import NodeUnderTest, running, settings_for
from tests.support.servers import RedisServer

UNLIMITED = Limits(board=Limit(0, 1), reply=Limit(0, 1), task=Limit(0, 1), search=Limit(0, 1))
MAX_PAGE_BYTES = 60_000  # without images
ATOM = "{http://www.w3.org/2005/Atom}"
ADDRESSES = re.compile(r"(/|#|http://node\.example/)")

SENTENCE = "Who can parse a large file of readings in a sandbox? "


pytestmark = pytest.mark.settings(limits=UNLIMITED)


async def opened(node: NodeUnderTest, **fields: str) -> str:
    """Post a thread, and return its id."""
    post = {"title": "Looking for a parser of large files", "body": SENTENCE, **fields}
    return json_of(await node.client.post("/api/v1/board", json=post), 201)["id"]


async def replied(node: NodeUnderTest, thread: str, **fields: str) -> None:
    answer = await node.client.post(f"/api/v1/board/{thread}/replies", json={"body": SENTENCE, **fields})
    assert answer.status_code == 201, answer.text


async def offered(node: NodeUnderTest, **fields: Any) -> str:
    """Offer a task, and return its id."""
    task = {"publisher_id": "report-desk", "title": "Summarise a report about solar panels", **fields}
    return json_of(await node.client.post("/api/v1/tasks", json=task), 201)["id"]


async def shown(node: NodeUnderTest, path: str, status: int = 200) -> Page:
    answer = await node.client.get(path)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    return sound(answer)


def sound(answer: httpx2.Response) -> Page:
    """Check what must hold for every page, and return the page."""
    page = Page(answer.text)
    assert (page.unbalanced, page.left_open) == ([], [])
    assert len(answer.content) < MAX_PAGE_BYTES
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cross-origin-opener-policy"] == "same-origin"
    assert "camera=()" in answer.headers["permissions-policy"]
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert [script["src"].startswith("/static/site.") for script in page.all("script")] == [True]
    assert len(page.all("h1")) == 1
    levels = [int(tag[1]) for tag, _ in page.elements if tag in {"h1", "h2", "h3", "h4"}]
    assert all(below <= above + 1 for above, below in pairwise(levels))  # no heading level is skipped
    landmarks = page.landmarks()
    assert len(set(landmarks)) == len(landmarks)  # landmarks can be told apart
    for tag, attributes in page.elements:
        assert tag not in {"style", "base", "iframe", "img", "math"}
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
        for name in ("href", "src", "action"):
            assert ADDRESSES.match(attributes.get(name, "/")), attributes
    return page


@pytest.mark.parametrize(
    "path",
    ["/", "/board", "/board?status=closed", "/tasks", "/reference", "/reference/board", "/recipes/http-curl"],
)
async def test_an_empty_node_has_pages(node: NodeUnderTest, path: str) -> None:
    page = await shown(node, path)
    assert page.all("html")[0]["lang"] == "en"
    assert "None" not in page.text


async def test_the_home_page_tells_how_to_begin_and_what_is_going_on(node: NodeUnderTest) -> None:
    thread, task = await opened(node), await offered(node)
    page = await shown(node, "/")
    assert "curl http://node.example/api/v1/relay" in page.text
    assert '"url": "http://node.example/api/v1/mcp"' in page.text
    assert "10 a minute" in page.text
    assert "no limit" in page.text
    assert {f"/board/{thread}", f"/tasks/{task}", "/llms.txt", "/openapi.json", "/.well-known/agent-card.json"} <= set(
        page.links()
    )


async def test_the_first_request_in_python_runs_as_printed(node: NodeUnderTest) -> None:
    text = (await shown(node, "/")).text
    program = text[text.index("import json\n") : text.index("print(urlopen(request).read().decode())")]
    scope: dict[str, Any] = {}
    exec(program, scope)
    request = scope["request"]
    path = request.full_url.removeprefix("http://node.example")
    answer = await node.client.request(
        request.get_method(), path, content=request.data, headers=dict(request.header_items())
    )
    assert answer.json()["status"] == "acknowledged"


async def test_the_home_page_stands_without_the_store(tmp_path: Path) -> None:
    with RedisServer(tmp_path) as redis:
        async with running(settings_for(redis.url)) as node:
            redis.kill()
            page = await shown(node, "/")
            assert "out of reach" in page.text
            refused = await shown(node, "/board", status=503)
            assert "out of reach" in refused.text


async def test_a_thread_has_a_page_with_everything_about_it(node: NodeUnderTest) -> None:
    thread = await opened(node, author="csv-agent", body="First line.\n    an indented line of the text\nLast line.")
    await replied(node, thread, author="parser-7", body="I can do that for you, if you send me the file.")
    page = await shown(node, f"/board/{thread}")
    assert "First line.\n    an indented line of the text\nLast line." in page.text
    assert "I can do that for you" in page.text
    for fact in ("csv-agent", "parser-7", "1 reply"):
        assert fact in page.text
    assert {"id": "r1", "class": "reply", "data-seq": "1"} in page.all("li")
    alternates = {(link.get("type"), link["href"]) for link in page.all("link") if link["rel"] == "alternate"}
    assert ("application/json", f"/api/v1/board/threads/{thread}") in alternates
    graph = {meta["property"]: meta["content"] for meta in page.all("meta") if "property" in meta}
    assert graph["og:title"] == "Looking for a parser of large files"
    assert graph["og:url"] == f"http://node.example/board/{thread}"


async def test_a_signed_thread_shows_the_fingerprint_of_its_key(node: NodeUnderTest) -> None:
    request = sign(params=f";created={int(time.time())}", request=Signed(body=BODY))
    answer = await node.client.post("/api/v1/board", content=request.body, headers=request.headers)
    assert answer.status_code == 201, answer.text
    page = await shown(node, f"/board/{answer.json()['id']}")
    assert f"thumbprint {PUBLIC.thumbprint}" in page.text
    assert "Signed with the key " in page.text
    assert f"Signed; thumbprint of the key: {PUBLIC.thumbprint}" in {mark.get("title") for mark in page.all("span")}
    assert "signed" in (await shown(node, "/board")).text
    unsigned = await shown(node, f"/board/{await opened(node)}")
    assert "igned" not in unsigned.text


async def test_what_unknown_agents_wrote_is_called_so(node: NodeUnderTest) -> None:
    page = await shown(node, f"/board/{await opened(node)}")
    assert "never as instructions" in page.text


@pytest.mark.parametrize("thread", ["nope", "01a1fbd5-10f1-7326-b473-b7b7836b6ce8", "%3Cscript%3E"])
async def test_an_unknown_thread_has_a_page_of_its_own(node: NodeUnderTest, thread: str) -> None:
    page = await shown(node, f"/board/{thread}", status=404)
    assert "No such thread" in page.text


BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


@pytest.mark.parametrize("path", ["/nothing", "/a/b/c", "/%3Cscript%3E"])
async def test_at_an_unknown_path_a_browser_is_shown_a_page(node: NodeUnderTest, path: str) -> None:
    answer = await node.client.get(path, headers=BROWSER)
    assert (answer.status_code, answer.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert (answer.headers["x-error-code"], answer.headers["vary"]) == ("path.unknown", "Accept")
    assert answer.headers["cache-control"] == "no-cache"
    page = sound(answer)
    assert "There is nothing here" in page.text
    assert "<script>" not in page.text


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("GET", "/nothing", {}),
        ("GET", "/nothing", {"accept": "text/html;q=0, */*"}),
        ("GET", "/nothing", {"accept": "text/html;q=0.1, application/json"}),
        ("GET", "/api/v1/nothing", BROWSER),
        ("POST", "/nothing", BROWSER),
    ],
)
async def test_a_path_that_is_unknown_to_programs_stays_json(
    node: NodeUnderTest, method: str, path: str, headers: dict[str, str]
) -> None:
    answer = await node.client.request(method, path, headers=headers)
    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/json")
    assert answer.headers["vary"] == "Accept"


@pytest.mark.parametrize(
    ("path", "counterpart"),
    [
        ("/", "/.well-known/agent.json"),
        ("/reference", "/openapi.json"),
        ("/reference/board", "/openapi.json"),
        ("/tasks", f"/api/v1/tasks?status=offered&limit={PAGE_SIZE}&offset=0"),
    ],
)
async def test_a_page_names_its_counterpart_for_programs(node: NodeUnderTest, path: str, counterpart: str) -> None:
    links = (await shown(node, path)).all("link")
    assert counterpart in [link["href"] for link in links if link.get("type") == "application/json"]
    assert (await node.client.get(counterpart)).headers["content-type"] == "application/json"


async def test_a_closed_thread_says_so_and_is_listed_apart(node: NodeUnderTest, empty_redis: RedisServer) -> None:
    thread = await opened(node)
    (key,) = empty_redis.do("KEYS", f"thread:*{thread}")
    empty_redis.do("HSET", key, "status", "closed")
    page = await shown(node, f"/board/{thread}")
    assert "takes no more replies" in page.text
    assert not [element for _, element in page.elements if "data-follow" in element]
    assert f"/board/{thread}" not in (await shown(node, "/board")).links()
    closed = await shown(node, "/board?status=closed")
    assert f"/board/{thread}" in closed.links()
    assert "/api/v1/board" not in str(closed.all("link")), "which lists open threads only"


async def test_long_lists_have_pages(node: NodeUnderTest) -> None:
    threads = [await opened(node, title=f"Looking for reader number {number}") for number in range(PAGE_SIZE + 1)]
    first = await shown(node, "/board")
    assert "board" in [element.get("data-follow") for _, element in first.elements]
    assert f"/board/{threads[0]}" not in first.links()
    (older,) = [link for link in first.links() if "offset" in link]
    second = await shown(node, older)
    assert not [element for _, element in second.elements if "data-follow" in element]
    assert f"/board/{threads[0]}" in second.links()
    assert f"/board/{threads[1]}" not in second.links()


@pytest.mark.settings(limits=Limits())
@pytest.mark.parametrize("path", ["/board?q=reports", "/agents?q=reports"])
async def test_a_search_on_a_page_counts_as_one(node: NodeUnderTest, path: str) -> None:
    assert '"search";' in (await node.client.get(path)).headers["ratelimit-policy"]


async def test_a_thread_of_long_replies_is_cut_into_pages(node: NodeUnderTest) -> None:
    long = SENTENCE * 300
    thread = await opened(node, body=long)
    for _ in range(4):
        await replied(node, thread, body=long)
    seen: list[str] = []
    path = f"/board/{thread}"
    while path:
        page = await shown(node, path)
        seen += [item["data-seq"] for item in page.all("li") if "data-seq" in item]
        path = next((link for link in page.links() if "since_seq" in link), "")
    assert seen == ["1", "2", "3", "4"]


async def test_a_page_whose_replies_are_hidden_leads_on_to_the_later_ones(
    node: NodeUnderTest, empty_redis: RedisServer
) -> None:
    thread = await opened(node)
    for _ in range(2 * MAX_REPLIES + 1):
        await replied(node, thread)
    (key,) = empty_redis.do("KEYS", f"thread:*{thread}")
    empty_redis.do("HSET", key, "hidden_replies", ",".join(map(str, range(2, MAX_REPLIES + 2))))
    later = f"/board/{thread}?since_seq="
    for since, shown_replies, next_page in (
        (0, ["1"], [f"{later}{MAX_REPLIES}"]),
        (1, [], [f"{later}{MAX_REPLIES + 1}"]),
        (MAX_REPLIES + 1, [str(seq) for seq in range(MAX_REPLIES + 2, 2 * MAX_REPLIES + 2)], []),
    ):
        page = await shown(node, f"{later}{since}")
        assert [item["data-seq"] for item in page.all("li") if "data-seq" in item] == shown_replies
        assert [link for link in page.links() if link.startswith(later)] == next_page


async def test_new_replies_are_sent_to_an_open_page(node: NodeUnderTest) -> None:
    thread = await opened(node)
    await replied(node, thread, author="first")
    await replied(node, thread, author="second")
    answer = await node.client.get(f"/board/{thread}/replies?since_seq=1")
    page = Page(answer.text)
    assert ([item["data-seq"] for item in page.all("li")], "2 replies" in page.text) == (["2"], True)
    nothing = await node.client.get(f"/board/{thread}/replies?since_seq=2")
    assert (nothing.status_code, nothing.content, nothing.headers["cache-control"]) == (204, b"", "no-cache")


async def test_a_text_that_is_its_own_title_is_listed_once(node: NodeUnderTest) -> None:
    # As in a relayed message.
    await opened(node, title="Who can read a long report?", body="Who can read a long report?")
    assert (await shown(node, "/board")).text.count("Who can read a long report?") == 1


async def test_a_task_has_a_page_and_a_request_that_claims_it(node: NodeUnderTest) -> None:
    terms = {"lease_seconds": 900, "skills": ["plain-words"], "deadline": "2099-01-02T03:04:00Z"}
    task = await offered(node, description="One page of plain English.", **terms)
    offers = await shown(node, "/tasks")
    assert f"/tasks/{task}" in offers.links()
    assert "plain-words" in offers.text
    page = await shown(node, f"/tasks/{task}")
    assert "One page of plain English." in page.text
    assert "Skills: plain-words" in page.text
    assert "until 2 Jan 2099, 03:04 UTC" in page.text
    assert f"curl http://node.example/api/v1/tasks/{task}/claim" in page.text
    await node.client.post(f"/api/v1/tasks/{task}/claim", json={"assignee_id": "summary-agent"})
    claimed = await shown(node, f"/tasks/{task}")
    assert "summary-agent" in claimed.text
    assert "/claim" not in claimed.text
    assert f"/tasks/{task}" not in (await shown(node, "/tasks")).links()
    await shown(node, "/tasks/nope", status=404)


async def test_a_task_that_cannot_be_claimed_yet_says_so(node: NodeUnderTest) -> None:
    task = f"/api/v1/tasks/{await offered(node, max_attempts=2, retry_seconds=3600)}"
    claim = (await node.client.post(f"{task}/claim", json={"assignee_id": "summary-agent"})).json()
    failure = {"claim_token": claim["claim_token"], "code": "input.unreadable"}
    retry_at = (await node.client.post(f"{task}/fail", json=failure)).json()["retry_at"]
    page = await shown(node, task.removeprefix("/api/v1"))
    assert f"paused until {moment(retry_at)}" in page.text
    assert "Claim it" not in page.text


async def test_nothing_that_users_wrote_becomes_markup(node: NodeUnderTest) -> None:
    for markup in MARKUP:
        name = markup[:200]
        thread = await opened(node, title=title(markup), body=body(markup), author=name)
        await replied(node, thread, body=body(markup), author=name)
        task = await offered(node, title=title(markup), description=body(markup), publisher_id=name)
        for path in (f"/board/{thread}", "/board", "/", "/tasks", f"/tasks/{task}", f"/board/{thread}/replies"):
            answer = await node.client.get(path)
            page = Page(answer.text) if path.endswith("/replies") else sound(answer)
            assert markup in page.text, path
        feed = ElementTree.fromstring((await node.client.get("/board.atom")).content)
        assert feed.findtext(f"{ATOM}entry/{ATOM}title") == title(markup)
        assert markup in (feed.findtext(f"{ATOM}entry/{ATOM}content") or "")


async def test_no_query_becomes_markup(node: NodeUnderTest) -> None:
    for markup in MARKUP:
        sound(await node.client.get("/board", params={"q": markup}))
        refused = await node.client.get("/board", params={"status": markup})
        assert refused.status_code == 422
        sound(refused)


async def test_a_page_says_what_is_wrong_with_its_query(node: NodeUnderTest) -> None:
    page = await shown(node, "/board?threshold=7&offset=-1", status=422)
    assert "Expected int >= 0; Expected float <= 1.0" in page.text


async def test_a_page_that_has_not_changed_is_not_sent_again(node: NodeUnderTest) -> None:
    thread = await opened(node, title="Is anybody reading this in the year to come?")
    first = await node.client.get(f"/board/{thread}")
    again = await node.client.get(f"/board/{thread}", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    await replied(node, thread)
    changed = await node.client.get(f"/board/{thread}", headers={"if-none-match": first.headers["etag"]})
    assert changed.status_code == 200


async def test_every_link_of_the_fixed_pages_leads_somewhere(node: NodeUnderTest) -> None:
    fixed = {"/", "/board", "/tasks", "/reference"}
    fixed |= {link for link in (await shown(node, "/reference")).links() if re.fullmatch(r"/reference/\w+", link)}
    targets: set[str] = set()
    for path in fixed:
        page = await shown(node, path)
        anchors = {attributes.get("id") for _, attributes in page.elements}
        for link in page.links():
            target, _, anchor = link.partition("#")
            assert target or anchor in anchors, link
            targets.add(target or path)
    for target in targets:
        assert (await node.client.get(target)).status_code == 200, target


async def test_the_reference_shows_code_as_code(node: NodeUnderTest) -> None:
    """Code must not be shown with backticks around it."""
    assert "`" not in (await node.client.get("/reference")).text
    assert "<code>now</code>" in (await node.client.get("/reference/events")).text


async def test_a_reference_link_from_the_overview_has_its_anchor(node: NodeUnderTest) -> None:
    overview = await shown(node, "/reference")
    for link in overview.links():
        target, _, anchor = link.partition("#")
        if anchor and target:
            page = await shown(node, target)
            assert anchor in {attributes.get("id") for _, attributes in page.elements}, link


@pytest.mark.parametrize("path", ["/board?q=tides&threshold=0.5", "/agents?q=tides", "/tasks?offset=0", "/board?x=1"])
async def test_a_page_names_the_parameters_that_it_does_not_know(node: NodeUnderTest, path: str) -> None:
    """Parameters of a search must not be named, nor an unknown parameter twice."""
    answer = await node.client.get(path)
    assert answer.headers.get_list("x-ignored-fields") == (["query.x"] if path.endswith("x=1") else [])
