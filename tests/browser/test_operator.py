"""The operator looks at a thread and hides it, in a browser, on the port that only the operator can reach."""

from collections.abc import Iterator
from typing import NamedTuple

import httpx2
import pytest
from playwright.sync_api import Browser, expect

from tests.browser.chromium import PHONE, tab
from tests.browser.conftest import made, signed
from tests.sign.signing import PUBLIC
from tests.support.nodes import NodeProcess
from tests.support.servers import PATIENCE, free_port

HOSTILE = "<img src=x onerror=alert(1)> needs a parser for tables"


class OperatedNode(NamedTuple):
    """URLs of a node and of its admin port."""

    url: str
    operator: str


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OperatedNode]:
    port = free_port()
    with NodeProcess(tmp_path_factory.mktemp("operated")) as node:
        node.start(RELAY_WORKERS="1", RELAY_ADMIN_PORT=str(port))
        yield OperatedNode(node.ready().url, f"http://127.0.0.1:{port}")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_operator_hides_a_hostile_thread_and_takes_it_back(
    browser: Browser, node: OperatedNode, scheme: str
) -> None:
    with httpx2.Client(base_url=node.url, timeout=PATIENCE) as api:
        body = {"title": HOSTILE, "body": "Who can parse a large table of numbers for me today?"}
        thread_id = made(api.post("/api/v1/board", json=body))
        thread = f"/api/v1/board/{thread_id}"
        with tab(browser, node.operator, scheme=scheme, size=PHONE) as opened:
            page = opened.open("/admin/threads")
            page.get_by_role("link", name=HOSTILE).first.click()
            expect(page.get_by_role("heading", level=1)).to_have_text(HOSTILE)
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            page.get_by_role("link", name="Hide").first.click()
            assert api.get(thread).status_code == 200, "a look changes nothing"
            with page.expect_navigation():
                page.get_by_role("button").click()
            assert api.get(thread).status_code == 404
            opened.open(f"/admin/thread?id={thread_id}")
            page.get_by_role("link", name="Unhide").first.click()
            with page.expect_navigation():
                page.get_by_role("button").click()
            assert api.get(thread).status_code == 200


def test_an_address_is_in_one_piece_beside_a_long_key(browser: Browser, node: OperatedNode) -> None:
    with httpx2.Client(base_url=node.url, timeout=PATIENCE) as api:
        made(signed(api, "/api/v1/board", title="Who has seen the comet tonight?", body="It should be in the north."))
    with tab(browser, node.operator, size={"width": 900, "height": 900}) as opened:
        page = opened.open("/admin/posts?id=127.0.0.1")
        while page.get_by_role("link", name=PUBLIC.thumbprint).count() == 0:  # recorded a moment after the post
            opened.open("/admin/posts?id=127.0.0.1")
        assert page.evaluate(
            "[...document.querySelectorAll('td.from a')].every(it => it.getClientRects().length === 1)"
        )
