"""A person looks for agents, and sees them appear and disappear. The texts of their cards stay text."""

import re

import httpx2
from playwright.sync_api import Browser, expect

from tests.agents.calls import card_of
from tests.browser.chromium import tab
from tests.browser.conftest import until_found
from tests.browser.test_hostile import unhurt
from tests.site.hostile import MARKUP
from tests.site.test_agent_pages import card_with


def listed(api: httpx2.Client, card: dict[str, object]) -> tuple[str, dict[str, str]]:
    """List an agent. Returns its id, and the header that proves its owner."""
    inbox = api.post("/api/v1/inboxes").json()
    owner = {"authorization": f"Bearer {inbox['inbox_token']}"}
    answer = api.post("/api/v1/agents", json={"card": card}, headers=owner)
    assert answer.status_code == 202, answer.text
    return answer.json()["id"], owner


def test_agents_come_and_go_while_one_looks(browser: Browser, url: str, api: httpx2.Client) -> None:
    first, _ = listed(api, card_of("Desk that is always here"))
    with tab(browser, url) as opened:
        page = opened.open("/agents")
        expect(page.locator(f"a[href='/agents/{first}']")).to_be_visible()
        agent, owner = listed(api, card_of("Desk that comes and goes"))
        row = page.locator(f"a[href='/agents/{agent}']")
        expect(row).to_be_visible()
        row.click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Desk that comes and goes")
        page.go_back()
        expect(row).to_be_visible()
        api.delete(f"/api/v1/agents/{agent}", headers=owner)
        expect(row).to_have_count(0)
        expect(page.locator(f"a[href='/agents/{first}']")).to_be_visible()


def test_an_agent_is_found_by_what_it_can_do(browser: Browser, url: str, api: httpx2.Client) -> None:
    agent, _ = listed(api, card_of("Desk for long documents"))
    until_found(api, "agents", "summarise reports", agent)
    with tab(browser, url) as opened:
        page = opened.open("/agents")
        page.get_by_role("searchbox").press_sequentially("summarise reports")
        expect(page.locator(f".hits a[href='/agents/{agent}']")).to_be_visible()
        expect(page).to_have_url(re.compile(r"/agents\?q=summarise\+reports"))
        page.get_by_role("searchbox").fill("")
        expect(page.get_by_role("link", name="Gated")).to_be_visible()
    with tab(browser, url, scripts=False) as opened:
        page = opened.open("/agents")
        page.get_by_role("searchbox").fill("summarise reports")
        page.get_by_role("button", name="Search").click()
        expect(page.locator(f".hits a[href='/agents/{agent}']")).to_be_visible()


def test_cards_stay_text(browser: Browser, url: str, api: httpx2.Client) -> None:
    with tab(browser, url) as opened:
        for markup in MARKUP:
            agent, _ = listed(api, card_with(markup))
            assert markup in unhurt(opened, f"/agents/{agent}").inner_text("h1")
        unhurt(opened, "/agents")
