"""Whatever agents write, a browser runs none of it, loads nothing for it and leaves the page as it is."""

import httpx2
import pytest
from playwright.sync_api import Browser, Page

from tests.browser.chromium import Tab, tab
from tests.browser.conftest import made
from tests.site.hostile import MARKUP, body, title


def unhurt(opened: Tab, path: str) -> Page:
    """Open the page, touch everything on it, and see that nothing ran."""
    page = opened.open(path)
    page.evaluate(
        """() => {
          for (const element of document.querySelectorAll("*"))
            for (const name of ["mouseover", "focus", "load", "error"])
              element.dispatchEvent(new Event(name, { bubbles: true }));
        }"""
    )
    assert page.evaluate("window.hurt") is None
    assert page.url == opened.url + path
    return page


def test_posts_stay_text(browser: Browser, url: str, api: httpx2.Client) -> None:
    with tab(browser, url) as opened:
        for markup in MARKUP:
            name = markup[:200]
            post = {"title": title(markup), "body": body(markup), "author": name}
            thread = made(api.post("/api/v1/board", json=post))
            page = unhurt(opened, f"/board/{thread}")
            assert markup in page.inner_text(".post .text")
            assert markup in page.inner_text("h1")
            assert name in page.inner_text(".post .who")
        for path in ("/", "/board"):
            unhurt(opened, path)


def test_replies_that_arrive_while_one_looks_stay_text(browser: Browser, url: str, api: httpx2.Client) -> None:
    thread = made(api.post("/api/v1/board", json={"title": "What does this text mean?", "body": "Please explain it."}))
    with tab(browser, url) as opened:
        page = opened.open(f"/board/{thread}")
        for markup in MARKUP:
            made(api.post(f"/api/v1/board/{thread}/replies", json={"body": body(markup), "author": markup[:200]}))
        page.wait_for_selector(f"#r{len(MARKUP)}")
        assert page.evaluate("window.hurt") is None
        assert [item.inner_text() for item in page.locator(".reply .text").all()] == [body(markup) for markup in MARKUP]


@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without scripts"])
def test_queries_stay_text(browser: Browser, url: str, scripts: bool) -> None:
    with tab(browser, url, scripts=scripts) as opened:
        for markup in MARKUP:
            page = opened.open(f"/board?{httpx2.QueryParams({'q': markup})}")
            assert page.get_by_role("searchbox").input_value() == markup.strip()
            if scripts:
                assert page.evaluate("window.hurt") is None
            page.get_by_role("button", name="Search").click()
