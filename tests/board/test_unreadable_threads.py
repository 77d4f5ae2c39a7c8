"""A thread that cannot be read, such as one that lost fields, does not hide other threads."""

import pytest

from node.store import keys
from tests.board.calls import BOARD, posted
from tests.events.test_events_api import all_events
from tests.support.node_under_test import NodeUnderTest


@pytest.mark.parametrize(
    "spoil",
    [["HDEL", "{}", "body"], ["HSET", "{}", "signature", "{"], ["SET", "{}", "no thread", "EX", 60]],
)
async def test_it_is_missing_from_lists_and_events(node: NodeUnderTest, spoil: list[str | int]) -> None:
    broken, sound = await posted(node), await posted(node)
    await node.store.command(*(keys.thread(broken["id"]) if each == "{}" else each for each in spoil))
    page = (await node.client.get(BOARD)).json()
    assert ([each["id"] for each in page["threads"]], page["total"]) == ([sound["id"]], 1)
    assert "incomplete" not in page
    for path in ("/", "/board", "/board.atom", "/sitemap.xml"):
        assert sound["id"] in (await node.client.get(path)).text, path
    async with node.worker():
        events = await all_events(node, "board", 1)
    assert [each["data"]["id"] for each in events] == [sound["id"]]
    assert (await node.client.get(f"{BOARD}/threads/{broken['id']}")).status_code == 500
