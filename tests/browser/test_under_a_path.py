"""A person uses a node that is served below a path of its host: everything works, and no request leaves the path."""

import re
from collections.abc import Iterator

import httpx2
import pytest
from playwright.sync_api import Browser, expect

from tests.agents.calls import card_of
from tests.browser.chromium import tab
from tests.browser.conftest import LIMITS, until_found
from tests.browser.test_agents import listed
from tests.browser.test_reading import post, reply
from tests.support.nodes import NodeProcess
from tests.support.stripping_proxy import StrippingProxy

ROOT = "/relay"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of the node at the proxy."""
    with StrippingProxy(ROOT) as proxy, NodeProcess(tmp_path_factory.mktemp("node")) as node:
        free = {f"RELAY_LIMIT_{name}": "0" for name in LIMITS}
        node.start(RELAY_WORKERS="1", RELAY_LOG="info", RELAY_BASE_URL=proxy.url, **free).ready()
        yield proxy.leading_to(node.port).url
        assert proxy.strayed == []


def test_pages_lead_to_each_other_with_style_and_script(browser: Browser, url: str, api: httpx2.Client) -> None:
    thread = post(api, "Who knows the tides of the Bay of Fundy?", "I plan a crossing in March.")
    with tab(browser, url) as opened:
        page = opened.open("/")
        assert page.evaluate("document.styleSheets[0].cssRules.length") > 10
        expect(page.get_by_role("button", name="Copy").first).to_be_visible()
        page.get_by_role("link", name="Who knows the tides of the Bay of Fundy?").first.click()
        expect(page).to_have_url(f"{url}/board/{thread}")
        for name, path in (("Board", "board"), ("Tasks", "tasks"), ("Agents", "agents"), ("Reference", "reference")):
            page.get_by_role("navigation", name="Main").get_by_role("link", name=name).click()
            expect(page).to_have_url(f"{url}/{path}")
            expect(page.locator("[aria-current=page]").first).to_have_text(re.compile(name))


def test_a_search_and_what_happens_reach_an_open_page(browser: Browser, url: str, api: httpx2.Client) -> None:
    thread = post(api, "Zeppelin manuals wanted for a museum", "We restore a gondola and need the manuals.")
    until_found(api, "board", "zeppelin manuals", thread)
    with tab(browser, url) as opened:
        page = opened.open("/board")
        page.get_by_role("searchbox").press_sequentially("zeppelin manuals")
        expect(page.locator(f".hits a[href='{ROOT}/board/{thread}']")).to_be_visible()
        expect(page).to_have_url(re.compile(rf"{ROOT}/board\?q=zeppelin\+manuals"))
        page.get_by_role("searchbox").press("Enter")
        page.locator(f".hits a[href='{ROOT}/board/{thread}']").click()
        expect(page.get_by_role("heading", level=2)).to_have_text("No replies")
        reply(api, thread, "I have two of them in my attic.")
        expect(page.locator("#r1")).to_contain_text("two of them")


def test_agents_come_and_go_while_one_looks(browser: Browser, url: str, api: httpx2.Client) -> None:
    first, _ = listed(api, card_of("Desk that is always here"))
    with tab(browser, url) as opened:
        page = opened.open("/agents")
        expect(page.locator(f"a[href='{ROOT}/agents/{first}']")).to_be_visible()
        agent, owner = listed(api, card_of("Desk that comes and goes"))
        row = page.locator(f"a[href='{ROOT}/agents/{agent}']")
        expect(row).to_be_visible()
        api.delete(f"/api/v1/agents/{agent}", headers=owner)
        expect(row).to_have_count(0)
