"""A whole node in processes of its own, and a browser that opens its pages."""

import time
from collections.abc import Iterator

import httpx2
import msgspec
import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.browser.chromium import launch
from tests.sign.signing import Signed, sign
from tests.support.nodes import NodeProcess
from tests.support.servers import PATIENCE, until

LIMITS = ("BOARD", "REPLY", "TASK", "CLAIM", "SEARCH", "AGENT", "INBOX", "STREAM")


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """One Chromium for all tests."""
    expect.set_options(timeout=PATIENCE * 1000)
    with sync_playwright() as playwright:
        chromium = launch(playwright)
        yield chromium
        chromium.close()


@pytest.fixture(scope="package")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a node run by `relay-node serve`."""
    with NodeProcess(tmp_path_factory.mktemp("node")) as node:
        node.start(RELAY_WORKERS="1", RELAY_LOG="info", **{f"RELAY_LIMIT_{name}": "0" for name in LIMITS})
        yield node.ready().url


@pytest.fixture
def api(url: str) -> Iterator[httpx2.Client]:
    """A client of the same node's API.

    Each request has a connection of its own: the node closes connections that are idle for 5 s, as may happen while a
    page loads.
    """
    with httpx2.Client(base_url=url, timeout=PATIENCE, limits=httpx2.Limits(max_keepalive_connections=0)) as client:
        yield client


def made(answer: httpx2.Response) -> str:
    """Return the id of the created entity."""
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


def until_found(api: httpx2.Client, path: str, query: str, entity: str) -> None:
    """Wait until a search finds the thread or agent. A page opened earlier would keep showing no hits."""

    def is_found() -> bool:
        return entity in api.post(f"/api/v1/{path}/search", json={"query": query}).raise_for_status().text

    until(is_found, f"a hit for {query}")


def signed(api: httpx2.Client, path: str, **fields: str) -> httpx2.Response:
    """Post the fields in a request that is signed now."""
    request = Signed(path=path, body=msgspec.json.encode(fields), headers={"host": api.base_url.netloc.decode()})
    params = f';created={int(time.time())};nonce="{time.monotonic_ns()}"'
    request = sign(params=params, request=request)
    return api.post(path, content=request.body, headers=request.headers)
