"""A node at https://HOST/PATH, behind a proxy that strips the path: every address that it gives leads below
that path.
"""

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx2
import msgspec
import pytest
import pytest_asyncio

from node.config import Settings
from tests.agents.calls import card_of, listed
from tests.artifacts.calls import DATA, complete, register, upload, verified
from tests.mcp.streams import EventStream
from tests.site.html import Page
from tests.support.node_under_test import NodeUnderTest, running, settings_for, until
from tests.support.servers import Cluster, RedisServer

HOST = "http://node.example"
ROOT = "/relay"
BASE = HOST + ROOT

SEEN = (
    *("/board/0", "/board?", "/tasks/0", "/agents/", "/inbox/", "/recipes/", "/reference/board", "/static/site."),
    *("/board.atom", "/sitemap.xml", "/favicon.svg", "/llms-full.txt", "/.well-known/", "/api/v1/board/threads/0"),
)
"""Some of the addresses that the walk must visit."""

WHERE = {"href", "src", "action", "data-page", "data-replies"}
"""Attributes that hold an address."""

ABSOLUTE = re.compile(r"http://node\.example[^\s\"'<>`\\)\],|&]*")
LOCATION = re.compile(r"<([^>]*)>")
ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-|/[\w-]{43}(?![\w-])|/ag_\w+")
"""An id of a created entity."""
PARAMETER = "[^:]+"

BLANK = re.compile(r"[${…]")
"""Placeholders in a path, which a reader fills in."""


@pytest_asyncio.fixture
async def node(empty_redis: RedisServer | Cluster) -> Any:
    settings = msgspec.structs.replace(settings_for(empty_redis.url, embedding_model="none"), base_url=f"{BASE}/")
    async with running(settings) as node:
        yield node


class Walk:
    """Follows every address that the node gives, as a client behind the proxy does."""

    def __init__(self, node: NodeUnderTest, document: dict[str, Any], made: str) -> None:
        """`made`: a text with the ids of everything that exists; all other ids are examples."""
        self._node = node
        self._made = made
        self._operations = [
            ([re.sub(r"\\\{\w+\\\}", PARAMETER, re.escape(step)) for step in _steps(path)], answered(operations))
            for path, operations in document["paths"].items()
        ]
        """The documented paths, each component as a pattern, and their methods."""
        self.streams = {
            path
            for path, operations in document["paths"].items()
            if "text/event-stream" in str(operations.get("get", {}).get("responses"))
        }
        self.seen: dict[str, int] = {}
        """Addresses below the path, with the status of the answer; 0 if they do not support GET."""

    async def follow(self, url: str, found_in: str) -> None:
        """Request an address, and then the addresses in its answer."""
        whole = urljoin(BASE, url)
        if not whole.startswith(f"{HOST}/") and whole != HOST:
            return  # the address leads elsewhere
        path = urlsplit(whole).path
        assert path == ROOT or path.startswith(f"{ROOT}/"), f"{url} in {found_in} leads out of {ROOT}"
        asked = whole.removeprefix(BASE).partition("#")[0] or "/"
        if asked in self.seen or asked.startswith("/blobs/"):  # /blobs/ takes PUT, and is tried below
            return
        methods, is_base = self._known(path.removeprefix(ROOT))
        if is_base and not methods:
            self.seen[asked] = 0
            return
        found = ID.search(asked)
        if BLANK.search(asked) or (found and found[0] not in self._made):
            assert methods, f"{url} in {found_in}: no operation has such a path"
            return
        if (methods and "get" not in methods) or asked.partition("?")[0] in self.streams:
            self.seen[asked] = 0
            return
        await self.ask(asked, found_in)

    async def ask(self, asked: str, found_in: str) -> None:
        """Request a path, as the proxy forwards it."""
        answer = await self._node.client.get(asked)
        self.seen[asked] = answer.status_code
        needs_token = answer.status_code == 401 and asked.startswith("/api/v1/inboxes/")
        assert answer.status_code in (200, 204, 307) or needs_token, f"{asked} in {found_in}: {answer.status_code}"
        for url in addresses(answer):
            await self.follow(url, asked)

    def _known(self, path: str) -> tuple[set[str], bool]:
        """Return the methods documented for a path, and whether there are operations below it."""
        steps = _steps(path)
        fits = [each for each in self._operations if all(map(re.fullmatch, each[0], steps))]
        exact = [each for each in fits if len(each[0]) == len(steps)]
        # If several paths match, the one with the fewest parameters counts.
        _, methods = min(exact, key=lambda each: "".join(each[0]).count(PARAMETER), default=(list[str](), set[str]()))
        return methods, any(len(shapes) > len(steps) for shapes, _ in fits)


def answered(operations: dict[str, Any]) -> set[str]:
    """Return the methods of a path. An operation that always refuses, such as the extended card of A2A, counts as a
    separate one.
    """
    return {
        name if any(status < "4" for status in operation["responses"]) else f"refused {name}"
        for name, operation in operations.items()
    }


def _steps(path: str) -> list[str]:
    return [step for step in path.split("/") if step]


def addresses(answer: httpx2.Response) -> Iterator[str]:
    """Return every address in an answer: in headers, in elements, and whole ones anywhere in its text."""
    if location := answer.headers.get("location"):
        yield location
    yield from LOCATION.findall(answer.headers.get("link", ""))
    for found in ABSOLUTE.findall(answer.text):
        yield found.rstrip(".:;")
    if answer.headers.get("content-type", "").startswith("text/html"):
        for _, attributes in Page(answer.text).elements:
            for name in WHERE & attributes.keys():
                if not attributes[name].startswith("#"):
                    yield attributes[name]


async def stored(node: NodeUnderTest) -> dict[str, Any]:
    """Upload an artifact as a client behind the proxy does, and return it."""
    artifact = (await register(node)).json()
    assert artifact["upload_url"].startswith(f"{BASE}/blobs/")
    put = await upload(node, artifact | {"upload_url": artifact["upload_url"].removeprefix(BASE)})
    assert (put.status_code, (await complete(node, artifact)).status_code) == (200, 202)
    async with node.worker():
        await verified(node, artifact)
    return artifact


async def made(node: NodeUnderTest) -> list[httpx2.Response]:
    """Create one of each thing that has an address, and return the answers."""
    client = node.client
    thread = await client.post("/api/v1/board", json={"title": "Looking for a parser", "body": "Who can parse a file?"})
    place = f"/api/v1/board/{thread.json()['id']}"
    answers = [thread, await client.post(f"{place}/replies", json={"body": "I can help you with that."})]
    answers.append(await client.post("/api/v1/relay", json={"message": "Who can read a long report?"}))
    offer = {"publisher_id": "desk", "title": "Summarise a report about solar panels"}
    answers.append(await client.post("/api/v1/tasks", json=offer))
    answers.append(await client.post("/api/v1/sessions", json={}))
    answers.append(await client.post("/api/v1/inboxes", json={}))
    address = answers[-1].json()["address"]
    answers.append(await client.post(f"/api/v1/inboxes/{address}/messages", json={"body": "A message for you."}))
    assert all(answer.is_success for answer in answers), [answer.text for answer in answers]
    artifact = await stored(node)
    answers.append(await client.get(f"/api/v1/artifacts/{artifact['id']}"))
    async with node.worker():
        agent = await listed(node, answers[5].json(), card_of())

        async def has_settled() -> bool:
            answer = await client.get(f"/api/v1/agents/{agent['id']}")
            answers[7:] = [answers[7], answer]
            return answer.is_success

        await until(has_settled)
    return answers


async def test_every_address_that_the_node_gives_is_below_its_path(node: NodeUnderTest) -> None:
    document = (await node.client.get("/openapi.json")).json()
    answers = await made(node)
    walk = Walk(node, document, " ".join(f"/{answer.text}" for answer in answers))
    for answer in answers:
        for url in addresses(answer):
            await walk.follow(url, str(answer.url))
    for path, operations in document["paths"].items():
        if "get" in answered(operations) and "{" not in path and path not in walk.streams and path not in walk.seen:
            await walk.ask(path, "/openapi.json")
    for start in SEEN:
        assert any(path.startswith(start) for path in walk.seen), start


async def test_bytes_of_an_artifact_go_both_ways(node: NodeUnderTest) -> None:
    artifact = await stored(node)
    led = await node.client.get(artifact["content_url"].removeprefix(BASE))
    place = led.headers["location"]
    assert place.startswith(f"{BASE}/blobs/")
    assert (await node.client.get(place.removeprefix(BASE))).content == DATA
    refused = await node.client.get("/blobs/nothing")
    assert refused.headers["link"] == f'<{ROOT}/llms-full.txt#errors>; rel="help"'


@pytest.mark.parametrize("path", ["/api/v1/board/nothing", "/board/nothing", "/nothing", "/api/v1/mcp"])
async def test_errors_are_explained_below_the_path(node: NodeUnderTest, path: str) -> None:
    refused = await node.client.get(path, headers={"accept": "text/html"})
    assert refused.status_code >= 400
    if path != "/api/v1/mcp":  # MCP answers in its own form
        assert refused.headers["link"] == f'<{ROOT}/llms-full.txt#errors>; rel="help"'
    for url in addresses(refused):
        assert urlsplit(urljoin(BASE, url)).path.startswith(f"{ROOT}/"), url


async def test_another_spelling_of_a_page_is_redirected_below_the_path(node: NodeUnderTest) -> None:
    led = await node.client.get("/board/?q=parser")
    assert (led.status_code, led.headers["location"]) == (308, f"{ROOT}/board?q=parser")


async def test_the_endpoint_in_the_server_card_is_below_the_path(node: NodeUnderTest) -> None:
    card = (await node.client.get("/.well-known/mcp.json")).json()
    assert urljoin(BASE, card["transport"]["endpoint"]) == card["remotes"][0]["url"] == f"{BASE}/api/v1/mcp"


async def test_the_endpoint_of_an_event_stream_is_below_the_path(node: NodeUnderTest) -> None:
    async with EventStream(node) as stream:
        assert stream.endpoint.startswith(f"{ROOT}/mcp/messages?session_id=")


async def test_a_page_may_load_what_it_names(node: NodeUnderTest) -> None:
    page = await node.client.get("/")
    allowed = set(re.findall(r"\*:\*(/[^ ;,]*)", page.headers["content-security-policy"]))
    assert allowed == {f"{ROOT}/static/", f"{ROOT}/favicon.svg"}
    elements = Page(page.text)
    assert elements.all("html")[0]["data-root"] == ROOT
    (script,) = elements.all("script")
    assert script["src"].startswith(f"{ROOT}/static/site.")
    assert "root}/api/v1/events?" in (await node.client.get(script["src"].removeprefix(ROOT))).text


async def test_crawlers_are_kept_from_the_same_paths(node: NodeUnderTest) -> None:
    rules = re.findall(r"(?:Dis)?[Aa]llow: (.*)", (await node.client.get("/robots.txt")).text)
    assert len(rules) == 6
    assert {rule for rule in rules if rule.endswith("?q=")} == {f"{ROOT}/{page}?q=" for page in ("board", "agents")}
    assert all(rule.startswith(f"{ROOT}/") for rule in rules)


@pytest.mark.parametrize(
    ("base_url", "path"),
    [
        ("", ""),
        ("https://a.example", ""),
        ("https://a.example/", ""),
        ("https://a.example/relay/", "/relay"),
        ("https://a.example/two/steps", "/two/steps"),
        ("https://a.example//b.example", "/b.example"),
        ("https://a.example/a;b,c>d%20e", "/a%3Bb%2Cc%3Ed%20e"),
    ],
)
def test_a_path_fits_in_headers_and_policies(base_url: str, path: str) -> None:
    assert Settings(base_url=base_url).public_path == path
