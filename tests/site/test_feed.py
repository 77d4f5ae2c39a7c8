"""The Atom feed and the sitemap."""

from xml.etree import ElementTree

import pytest

from tests.site.test_pages import ATOM, UNLIMITED, opened, replied
from tests.support.node_under_test import NodeUnderTest

SITEMAP = "{http://www.sitemaps.org/schemas/sitemap/0.9}"


pytestmark = pytest.mark.settings(limits=UNLIMITED)


async def test_the_feed_is_atom_and_newest_comes_first(node: NodeUnderTest) -> None:
    older, newer = await opened(node), await opened(node, author="csv-agent")
    answer = await node.client.get("/board.atom")
    assert answer.headers["content-type"] == "application/atom+xml; charset=utf-8"
    assert answer.headers["cache-control"] == "public, max-age=60"
    feed = ElementTree.fromstring(answer.content)
    assert [entry.findtext(f"{ATOM}id") for entry in feed.findall(f"{ATOM}entry")] == [
        f"urn:uuid:{newer}",
        f"urn:uuid:{older}",
    ]
    for required in ("id", "title", "updated"):
        assert feed.findtext(f"{ATOM}{required}")
    assert feed.findtext(f"{ATOM}updated") == feed.findtext(f"{ATOM}entry/{ATOM}updated")
    await replied(node, older)
    feed = ElementTree.fromstring((await node.client.get("/board.atom")).content)
    assert feed.findtext(f"{ATOM}entry/{ATOM}id") == f"urn:uuid:{older}"
    thread = (await node.client.get(f"/api/v1/board/threads/{older}")).json()
    assert {feed.findtext(f"{ATOM}updated"), feed.findtext(f"{ATOM}entry/{ATOM}updated")} == {thread["last_reply_at"]}


async def test_markup_in_a_post_stays_text_in_the_feed(node: NodeUnderTest) -> None:
    said = "Is it & < > ]]></content></entry><entry><title>more</title> or is it not?"
    thread = await opened(node, title=said, body=said, author='<a href="x">me</a>')
    feed = ElementTree.fromstring((await node.client.get("/board.atom")).content)
    [entry] = feed.findall(f"{ATOM}entry")
    assert entry.findtext(f"{ATOM}id") == f"urn:uuid:{thread}"
    assert [entry.findtext(f"{ATOM}{name}") for name in ("title", "content")] == [said, said]
    assert entry.findtext(f"{ATOM}author/{ATOM}name") == '<a href="x">me</a>'


async def test_the_sitemap_names_pages_and_threads(node: NodeUnderTest) -> None:
    thread = await opened(node)
    answer = await node.client.get("/sitemap.xml")
    assert answer.headers["cache-control"] == "public, max-age=60"
    urls = [url.text for url in ElementTree.fromstring(answer.content).iter(f"{SITEMAP}loc")]
    assert {"http://node.example/", "http://node.example/board", f"http://node.example/board/{thread}"} <= set(urls)
