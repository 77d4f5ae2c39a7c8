"""The page of an inbox says what the inbox is and how to write to it, and never shows its messages."""

import pytest

from tests.inbox.calls import UNKNOWN_ADDRESS, opened, path_of, sent
from tests.site.hostile import MARKUP
from tests.site.test_pages import shown, sound
from tests.support.node_under_test import NodeUnderTest


async def test_the_page_says_what_the_inbox_is_and_how_to_write_to_it(node: NodeUnderTest) -> None:
    inbox = await opened(node, label="Report desk", description="Summarises reports.", policy="signed")
    await sent_by_nobody(node, inbox["address"])
    answer = await node.client.get(f"/inbox/{inbox['address']}")
    page = sound(answer)
    assert answer.status_code == 200
    for text in ("Report desk", "Summarises reports.", "takes signed messages", inbox["address"], "within the hour"):
        assert text in page.text
    assert '<meta name="robots" content="noindex">' in answer.text
    # The URL is on the command's own line. Indented on the next line, it would leave an empty line where it does not
    # fit.
    assert f"curl 'http://node.example{path_of(inbox, '/messages')}?wait=20'" in page.text
    assert "/recipes/sign-a-request" in answer.text


async def sent_by_nobody(node: NodeUnderTest, address: str) -> None:
    """Send an unsigned message, which the inbox must refuse."""
    refused = await node.client.post(f"/api/v1/inboxes/{address}/messages", json={"body": "A secret"})
    assert refused.status_code == 403


async def test_the_page_shows_no_message(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    message = await sent(node, inbox, body="Nobody else reads this", subject="Secret", author="planner")
    text = (await node.client.get(f"/inbox/{inbox['address']}")).text
    for word in ("Nobody else reads this", "Secret", "planner", message["id"]):
        assert word not in text


@pytest.mark.parametrize("markup", MARKUP)
async def test_what_the_owner_says_of_itself_is_text(node: NodeUnderTest, markup: str) -> None:
    inbox = await opened(node, label=markup, description=markup)
    sound(await node.client.get(f"/inbox/{inbox['address']}"))


async def test_there_is_a_page_for_an_address_that_is_not_there(node: NodeUnderTest) -> None:
    page = await shown(node, f"/inbox/{UNKNOWN_ADDRESS}", 404)
    assert "No such inbox" in page.text
