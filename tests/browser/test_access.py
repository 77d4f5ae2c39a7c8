"""The pages are accessible: axe-core finds no barrier, and keyboards, small screens and reduced motion are
supported.
"""

from pathlib import Path
from typing import Any

import httpx2
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.agents.calls import card_of
from tests.browser.chromium import DESKTOP, PHONE, SMALLEST, tab
from tests.browser.conftest import made
from tests.support.servers import PATIENCE

AXE = Path(__file__).parent / "js/node_modules/axe-core/axe.min.js"
WIDER_TEXT = "* { line-height: 1.5 !important; letter-spacing: 0.12em !important; word-spacing: 0.16em !important }"
"""Text spacing that a reader may set without losing anything (WCAG 2.2, 1.4.12)."""

ADD_STYLE = (
    "css => { document.adoptedStyleSheets = [new CSSStyleSheet()]; document.adoptedStyleSheets[0].replaceSync(css) }"
)
"""Adds a style sheet of the reader's, to which the Content-Security-Policy does not apply."""

CHOICES = {
    "/board": ("nav[aria-label=Main] a[aria-current]", "nav[aria-label=Main] a:not([aria-current])"),
    "/agents": (".filter a[aria-current]", ".filter a:not([aria-current])"),
    "/": (".tabs label:has(:checked)", ".tabs label:not(:has(:checked))"),
}
"""For each page, the selected choice and the others beside it."""

PAGES = ("/", "/board", "/board?q=parser", "/board?status=closed", "/tasks", "/reference", "/reference/tasks")


@pytest.fixture(scope="module")
def paths(url: str) -> list[str]:
    """The paths of every kind of page, with content."""
    with httpx2.Client(base_url=url, timeout=PATIENCE) as api:
        post = {
            "title": "Looking for a parser of very large files, preferably one that streams and never loads all",
            "body": "Who can parse 40 MB in a sandbox?\n\n    " + "column, " * 60,
            "author": "an-agent-with-a-rather-long-name-" * 4,
        }
        thread = made(api.post("/api/v1/board", json=post))
        reply = {"body": "I can do that for you. " * 9, "author": "peer"}
        made(api.post(f"/api/v1/board/{thread}/replies", json=reply))
        task = {"publisher_id": "report-desk" * 9, "title": "Summarise a report", "description": "One page. " * 60}
        offer = made(api.post("/api/v1/tasks", json=task))
        owner = {"authorization": f"Bearer {api.post('/api/v1/inboxes').json()['inbox_token']}"}
        skill = {"id": "s", "name": "Summarise " + "w" * 90, "description": "Reads a report.", "tags": ["x" * 50]}
        card = card_of("Desk " + "with-a-rather-long-name-" * 7, skill)
        agent = api.post("/api/v1/agents", json={"card": card}, headers=owner).json()["id"]
    return [*PAGES, "/agents", "/agents?q=summarise", f"/agents/{agent}", f"/board/{thread}", f"/tasks/{offer}"]


def barriers(page: Page) -> list[str]:
    """Return the violations of at least serious impact that axe-core finds."""
    if not AXE.exists():
        pytest.fail("axe-core is not installed: run `make clients`")
    page.evaluate(AXE.read_text())  # through the debugger, to which the Content-Security-Policy does not apply
    found: dict[str, Any] = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{one['id']}: {node['html']} {node['failureSummary']}"
        for one in found["violations"]
        if one["impact"] in {"serious", "critical"}
        for node in one["nodes"]
    ]


# Colours depend only on the scheme and layout only on the size, so two combinations cover both values of each.
@pytest.mark.parametrize(("scheme", "size"), [("light", DESKTOP), ("dark", PHONE)], ids=["light", "dark"])
def test_axe_finds_no_serious_barrier(browser: Browser, url: str, paths: list[str], scheme: str, size: Any) -> None:
    with tab(browser, url, scheme=scheme, size=size, motion="reduce") as opened:
        for path in paths:
            assert barriers(opened.open(path)) == [], path
        assert barriers(opened.open("/board/nope", status=404)) == []


@pytest.mark.parametrize("size", [SMALLEST, PHONE, DESKTOP], ids=["320", "375", "1280"])
def test_nothing_is_wider_than_the_screen(browser: Browser, url: str, paths: list[str], size: Any) -> None:
    with tab(browser, url, size=size) as opened:
        for path in paths:
            page = opened.open(path)
            assert page.evaluate("document.documentElement.scrollWidth") <= size["width"], path


def test_wider_text_stays_on_the_screen(browser: Browser, url: str, paths: list[str]) -> None:
    with tab(browser, url, size=SMALLEST) as opened:
        for path in paths:
            page = opened.open(path)
            page.evaluate(ADD_STYLE, WIDER_TEXT)
            assert page.evaluate("document.documentElement.scrollWidth") <= SMALLEST["width"], path


def test_what_is_chosen_is_seen_where_the_reader_sets_the_colours(browser: Browser, url: str) -> None:
    with tab(browser, url) as opened:
        for path, both in CHOICES.items():
            page = opened.open(path)
            page.emulate_media(forced_colors="active")
            chosen, other = (
                page.locator(each).first.evaluate("element => getComputedStyle(element).borderBottomColor")
                for each in both
            )
            assert chosen != other, path


def test_posts_have_the_width_of_a_phone_to_themselves(browser: Browser, url: str, paths: list[str]) -> None:
    with tab(browser, url, size=PHONE) as opened:
        page = opened.open(paths[-2])
        for text in page.locator(".text").all():
            box = text.bounding_box()
            assert box is not None
            assert box["width"] > 0.85 * PHONE["width"]


def test_what_a_field_means_has_the_width_of_a_phone_to_itself(browser: Browser, url: str) -> None:
    with tab(browser, url, size=PHONE) as opened:
        widths = (
            opened.open("/reference/tasks")
            .locator(".members td")
            .evaluate_all("cells => cells.filter((cell) => cell.checkVisibility()).map((cell) => cell.clientWidth)")
        )
    assert widths
    assert min(widths) > 0.85 * PHONE["width"]


def test_the_keyboard_gets_everywhere(browser: Browser, url: str) -> None:
    with tab(browser, url) as opened:
        page = opened.open("/")
        page.keyboard.press("Tab")
        expect(page.get_by_text("Skip to the content")).to_be_in_viewport()
        page.keyboard.press("Enter")
        expect(page.locator("main")).to_be_focused()
        page.keyboard.press("Tab")
        expect(page.get_by_role("radio", name="curl")).to_be_focused()
        page.keyboard.press("ArrowRight")
        expect(page.get_by_text("urlopen(request)")).to_be_visible()
        page.keyboard.press("Tab")
        focus = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert focus == "solid"


def test_nothing_moves_for_those_who_asked_for_it(browser: Browser, url: str, api: httpx2.Client) -> None:
    thread = made(api.post("/api/v1/board", json={"title": "Is anybody there tonight?", "body": "I am waiting here."}))
    with tab(browser, url, motion="reduce") as opened:
        page = opened.open(f"/board/{thread}")
        made(api.post(f"/api/v1/board/{thread}/replies", json={"body": "I am here and listening to you."}))
        expect(page.locator("#r1")).to_be_visible()
        assert page.evaluate("document.getAnimations().length") == 0
