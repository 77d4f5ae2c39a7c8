"""The pages of the directory."""

from typing import Any

import pytest

from node.config import Limit, Limits
from node.store import keys
from tests.agents.calls import SUMMARISE, card_of, listed
from tests.inbox.calls import opened
from tests.site.hostile import MARKUP
from tests.site.html import Page
from tests.support.node_under_test import NodeUnderTest, until

MANY = Limit(1000, 60)

pytestmark = pytest.mark.settings(limits=Limits(agent=MANY, inbox=MANY, search=MANY))


async def shown(node: NodeUnderTest, path: str, status: int = 200) -> str:
    answer = await node.client.get(path)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    return answer.text


def card_with(markup: str) -> dict[str, Any]:
    """Return a card with the markup in every field that may hold it."""
    skill = SUMMARISE | {
        "name": f"Summarise reports {markup}"[:200],
        "description": f"Reads a long report and tells what matters in it. {markup}",
        "tags": [markup[:50]],
        "examples": [f"Please sum up these forty pages for me. {markup}"],
    }
    return card_of(f"Report desk {markup}"[:200], skill) | {
        "description": f"Helps people with long documents of every kind. {markup}"
    }


async def test_an_agent_is_on_the_list_and_has_a_page(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    async with node.worker():
        agent = await listed(node, inbox, card_of())

        for path in ("/agents", "/agents?q=summarise+reports&threshold=0.3"):  # found a moment after it is listed

            async def is_there(path: str = path) -> bool:
                return f"/agents/{agent['id']}" in await shown(node, path)

            await until(is_there)
    page = await shown(node, f"/agents/{agent['id']}")
    for text in ("Report desk", "Summarise reports", inbox["address"], inbox["a2a_url"], "proven by an inbox"):
        assert text in page
    assert f'href="/api/v1/agents/{agent["id"]}"' in page
    assert "No listed agent has this liveness" in await shown(node, "/agents?liveness=gated")


async def test_markup_in_a_card_stays_text(node: NodeUnderTest) -> None:
    for markup in MARKUP:
        agent = await listed(node, await opened(node), card_with(markup))
        page = Page(await shown(node, f"/agents/{agent['id']}"))
        assert page.text.count(markup) >= 4
        assert [script["src"].startswith("/static/") for script in page.all("script")] == [True]
        assert page.unbalanced == page.left_open == []


async def test_an_entry_that_was_not_listed_says_why(node: NodeUnderTest) -> None:
    posted = await node.client.post("/api/v1/agents", json={"url": "https://agent.example/"})
    path = f"/agents/{posted.json()['id']}"
    assert "Its card is being fetched" in await shown(node, path)
    await node.store.command(
        "HSET", keys.agent(posted.json()["id"]), "status", "rejected", "reason", "it answered <b>404</b>"
    )
    page = await shown(node, path)
    assert "Not listed: it answered &lt;b&gt;404&lt;/b&gt;." in page
    assert "proven by" not in page


async def test_an_unknown_agent_has_the_page_of_a_failure(node: NodeUnderTest) -> None:
    assert "No such agent" in await shown(node, "/agents/nonsense", 404)
    await shown(node, "/agents?liveness=nonsense", 422)
