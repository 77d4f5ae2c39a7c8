"""A person reads the board, searches it and sees replies arrive, also without scripts."""

import re

import httpx2
import pytest
from playwright.sync_api import Browser, expect

from tests.browser.chromium import tab
from tests.browser.conftest import made, signed, until_found

PLACES = """(element, characters) => characters.map((character) => {
  const range = document.createRange();
  range.setStart(element.firstChild, character);
  range.setEnd(element.firstChild, character + 1);
  return range.getBoundingClientRect().left;
})"""
"""Returns the distances of some characters of a text from the left edge."""

SCRIPTS = pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without scripts"])


def post(api: httpx2.Client, title: str, body: str, **fields: str) -> str:
    return made(api.post("/api/v1/board", json={"title": title, "body": body, **fields}))


def reply(api: httpx2.Client, thread: str, body: str) -> None:
    made(api.post(f"/api/v1/board/{thread}/replies", json={"body": body, "author": "peer"}))


@SCRIPTS
def test_a_thread_is_found_on_the_home_page_and_read(
    browser: Browser, url: str, api: httpx2.Client, scripts: bool
) -> None:
    post(api, "Who knows the tides of the Bay of Fundy?", "I plan a crossing in March and need the hours of ebb.")
    with tab(browser, url, scripts=scripts) as opened:
        page = opened.open("/")
        page.get_by_role("link", name="Who knows the tides of the Bay of Fundy?").first.click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Who knows the tides of the Bay of Fundy?")
        expect(page.get_by_text("I plan a crossing in March")).to_be_visible()


def test_white_space_of_a_post_is_kept(browser: Browser, url: str, api: httpx2.Client) -> None:
    body = "The table of readings follows below.\n    first    1.5\n    second  12.25\n" + "very-long-word-" * 40
    thread = post(api, "Readings of two instruments in a table", body)
    with tab(browser, url) as opened:
        text = opened.open(f"/board/{thread}").locator(".post .text")
        assert text.inner_text() == body
        assert text.evaluate("element => element.scrollWidth <= element.clientWidth")


def test_a_line_from_right_to_left_reads_as_one(browser: Browser, url: str, api: httpx2.Client) -> None:
    """The question mark must stand at the end of its line."""
    lines = (
        "Can you translate this line into English for me, please?",
        "\u05e9\u05dc\u05d5\u05dd \u05dc\u05da?",
        "Thank you.",
    )
    thread = post(api, "Can you translate a line of an old letter?", "\n".join(lines))
    with tab(browser, url) as opened:
        text = opened.open(f"/board/{thread}").locator(".text").first
        first, last = text.evaluate(PLACES, [len(lines[0]) + 1, len(lines[0]) + len(lines[1])])
    assert last < first


def test_a_search_finds_while_one_types(browser: Browser, url: str, api: httpx2.Client) -> None:
    thread = post(api, "Zeppelin manuals wanted for a museum", "We restore a gondola and need the original manuals.")
    until_found(api, "board", "zeppelin manuals", thread)
    with tab(browser, url) as opened:
        page = opened.open("/board")
        told = page.get_by_role(
            "status"
        ).element_handle()  # screen readers announce changes only in elements that were there before
        page.get_by_role("searchbox").press_sequentially("zeppelin manuals")
        expect(page.locator(f"a[href='/board/{thread}']")).to_be_visible()
        expect(page.locator(".hits mark").first).to_have_text("Zeppelin")
        expect(page.locator(".score").first).to_have_text(re.compile(r"^Score (0\.\d\d|1\.00)\s*$"))
        expect(page).to_have_url(re.compile(r"q=zeppelin\+manuals"))
        assert told
        assert re.match(r"\d+ threads?", told.inner_text())
        page.get_by_role("searchbox").fill("")
        expect(page.get_by_role("link", name="Closed")).to_be_visible()


def test_a_search_finds_without_scripts(browser: Browser, url: str, api: httpx2.Client) -> None:
    thread = post(api, "Lighthouse keepers of the northern coast", "I collect the names of keepers between two wars.")
    until_found(api, "board", "lighthouse keepers", thread)
    with tab(browser, url, scripts=False) as opened:
        page = opened.open("/board")
        page.get_by_role("searchbox").fill("lighthouse keepers")
        page.get_by_role("button", name="Search").click()
        expect(page.locator(f"a[href='/board/{thread}']")).to_be_visible()
        expect(page.get_by_role("searchbox")).to_have_value("lighthouse keepers")


def test_a_search_that_finds_nothing_offers_a_way_on(browser: Browser, url: str) -> None:
    with tab(browser, url, scripts=False) as opened:
        page = opened.open("/board?q=xylophone+quartets&threshold=1")
        expect(page.locator(".count")).to_contain_text("No thread")
        page.get_by_role("link", name="Back to all threads").click()
        expect(page).to_have_url(f"{url}/board")


def test_replies_appear_in_an_open_page(browser: Browser, url: str, api: httpx2.Client) -> None:
    thread = post(api, "Is the mirror in Lisbon up again?", "It has not answered since this morning.")
    with tab(browser, url) as opened:
        page = opened.open(f"/board/{thread}")
        expect(page.get_by_role("heading", level=2)).to_have_text("No replies")
        reply(api, thread, "It is up again since ten minutes ago.")
        expect(page.locator("#r1")).to_contain_text("It is up again")
        expect(page.get_by_role("heading", level=2)).to_have_text("1 reply")
        reply(api, thread, "I can confirm that it answers.")
        expect(page.locator("#r2")).to_contain_text("I can confirm")
        expect(page.locator(".reply")).to_have_count(2)


def test_threads_that_are_new_or_answered_come_to_the_top_of_an_open_board(
    browser: Browser, url: str, api: httpx2.Client
) -> None:
    first = post(api, "Weather balloons over the northern sea", "Who has launched one there and got the data back?")
    with tab(browser, url) as opened:
        page = opened.open("/board")
        rows = page.locator("[data-list] > li")
        expect(rows.first).to_contain_text("Weather balloons")
        post(api, "Old maps of the river delta are wanted", "I compare the banks of then with the banks of now.")
        expect(rows.first).to_contain_text("Old maps of the river delta")
        count = rows.count()
        reply(api, first, "I have launched two of them last winter.")
        expect(rows.first).to_contain_text("Weather balloons")
        expect(rows.first).to_contain_text("1 reply")
        assert rows.count() == count


def test_a_thread_that_is_closed_says_so_in_an_open_page_and_leaves_an_open_board(
    browser: Browser, url: str, api: httpx2.Client
) -> None:
    body = "The old one has run dry, and the herd needs another before the summer."
    thread = made(signed(api, "/api/v1/board", title="Where is there a well in the dunes?", body=body))
    other = post(api, "Is the ford of the river passable?", "The herd has to cross it before the summer.")
    with tab(browser, url) as reading, tab(browser, url) as listing:
        page, board = reading.open(f"/board/{thread}"), listing.open("/board")
        expect(page.get_by_role("heading", name="Reply", exact=True)).to_be_visible()
        row = board.locator(f"a[href='/board/{thread}']")
        expect(row).to_be_visible()
        assert signed(api, f"/api/v1/board/{thread}/close").status_code == 200
        expect(page.get_by_text("This thread is closed.")).to_be_visible()
        expect(page.get_by_role("heading", name="Reply", exact=True)).to_have_count(0)
        expect(row).to_have_count(0)
        expect(board.locator(f"a[href='/board/{other}']")).to_be_visible()


def test_replies_are_there_after_a_reload_without_scripts(browser: Browser, url: str, api: httpx2.Client) -> None:
    thread = post(api, "Is the mirror in Oslo up again?", "It has not answered since yesterday evening.")
    with tab(browser, url, scripts=False) as opened:
        page = opened.open(f"/board/{thread}")
        reply(api, thread, "It is up again since this morning.")
        page.reload()
        expect(page.locator("#r1")).to_contain_text("It is up again")


@SCRIPTS
def test_older_threads_can_be_reached(browser: Browser, url: str, api: httpx2.Client, scripts: bool) -> None:
    oldest = post(api, "The first of many questions about rivers", "How long is the river that flows through Vienna?")
    for number in range(20):
        post(api, f"Question number {number} about rivers", "How long is the river that flows through this town?")
    newest = post(api, "The last of many questions about rivers", "How long is the river that flows through Ulm?")
    with tab(browser, url, scripts=scripts) as opened:
        page = opened.open("/board")
        link = page.locator(f"a[href='/board/{oldest}']")
        expect(link).to_have_count(0)
        if scripts:  # a new thread moves one that is already shown to the next page, too
            later = post(api, "One more question about rivers", "How long is the river that flows through Linz?")
            expect(page.locator(f"a[href='/board/{later}']")).to_be_visible()
        page.get_by_role("link", name="Older").click()
        expect(link).to_be_visible()
        threads = page.locator("[data-list] > li h3 a").evaluate_all("links => links.map(link => link.href)")
        assert len(threads) == len(set(threads))
        expect(page.locator(f"a[href='/board/{newest}']")).to_have_count(1 if scripts else 0)


def test_the_first_request_can_be_copied_in_three_languages(browser: Browser, url: str) -> None:
    with tab(browser, url) as opened:
        page = opened.open("/")
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        for name, part in (("curl", f"curl {url}/api/v1/relay"), ("Python", "urlopen"), ("MCP", "mcpServers")):
            page.get_by_text(name, exact=True).first.click()
            page.locator(".try").get_by_role("button", name="Copy").locator("visible=true").click()
            expect(page.locator(".try button:visible")).to_have_text("Copied")
            assert part in page.evaluate("navigator.clipboard.readText()")


def test_the_request_that_claims_a_contract_is_seen_as_a_whole(browser: Browser, url: str, api: httpx2.Client) -> None:
    """The button that copies the request must leave enough room for `/claim` to stay visible."""
    contract = made(api.post("/api/v1/tasks", json={"publisher_id": "desk", "title": "Summarise a report"}))
    with tab(browser, url) as opened:
        code = opened.open(f"/tasks/{contract}").locator(".code pre")
        assert code.evaluate("it => it.scrollWidth <= it.clientWidth")


def test_a_list_stands_apart_from_the_sentence_above_it(browser: Browser, url: str, api: httpx2.Client) -> None:
    """The first contract's line must not touch the sentence above it."""
    made(api.post("/api/v1/tasks", json={"publisher_id": "desk", "title": "Summarise a report"}))
    with tab(browser, url) as opened:
        page = opened.open("/tasks")
        lead, rows = page.locator(".lead").bounding_box(), page.locator(".rows").bounding_box()
        assert lead
        assert rows
        assert rows["y"] - (lead["y"] + lead["height"]) >= 16


def test_the_three_languages_are_there_without_scripts(browser: Browser, url: str) -> None:
    with tab(browser, url, scripts=False) as opened:
        page = opened.open("/")
        expect(page.get_by_text("mcpServers")).to_be_hidden()
        page.get_by_text("MCP", exact=True).first.click()
        expect(page.get_by_text("mcpServers")).to_be_visible()
        expect(page.get_by_role("button", name="Copy")).to_have_count(0)


def test_an_unknown_thread_leads_back_to_the_board(browser: Browser, url: str) -> None:
    with tab(browser, url) as opened:
        page = opened.open("/board/nope", status=404)
        page.get_by_role("link", name="Go to the board").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Board")
