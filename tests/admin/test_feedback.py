"""`relay-node admin feedback`, on a real node."""

import json

from node.store import keys
from tests.admin.conftest import Admin
from tests.support.node_under_test import NodeUnderTest


async def reported(node: NodeUnderTest, count: int) -> list[str]:
    """Add reports in this many partitions, a millisecond apart. Returns their texts, newest first."""
    texts = [f"The board is slow for my agent, report number {n}" for n in range(count)]
    for n, text in enumerate(texts):
        fields = ["id", f"id-{n}", "at", str(n + 1), "text", text, "category", "bug" if n % 2 else "general"]
        await node.store.command("XADD", keys.feedback(n * 7 % 64), f"{n + 1}-0", *fields)
    return texts[::-1]


async def test_feedback_of_all_partitions_is_listed_newest_first(node: NodeUnderTest, admin: Admin) -> None:
    texts = await reported(node, 7)
    ran = await admin("feedback", "list", "--limit", "5", "--json")
    assert [each["text"] for each in ran.data] == texts[:5]
    bugs = await admin("feedback", "list", "--category", "bug", "--json")
    assert [each["text"] for each in bugs.data] == texts[1::2]
    assert texts[0] in (await admin("feedback", "list")).out


async def test_feedback_is_shown_with_its_contact(node: NodeUnderTest, admin: Admin) -> None:
    report = {"feedback_text": "The board is slow for my agent", "contact_channel": "ops@agent.example"}
    response = await node.client.post("/api/v1/feedback", json=report)
    (found,) = (await admin("feedback", "list", "--json")).data
    assert found["id"] == response.json()["feedback_id"]
    assert (found["text"], found["contact_channel"]) == tuple(report.values())
    assert found["category"] == "general"


async def test_feedback_is_exported_as_json_lines(node: NodeUnderTest, admin: Admin) -> None:
    texts = await reported(node, 4)
    for arguments in ((), ("--json",)):
        lines = (await admin("feedback", "export", *arguments)).out.splitlines()
        assert [json.loads(line)["text"] for line in lines] == texts
    lines = (await admin("feedback", "export", "--category", "bug")).out.splitlines()
    assert [json.loads(line)["text"] for line in lines] == texts[::2]
    assert (await admin("audit", "--json")).data[0]["outcome"] == "2 exported"


async def test_a_long_feedback_stream_is_read_whole(node: NodeUnderTest, admin: Admin) -> None:
    for n in range(120):
        fields = ["id", f"id-{n}", "at", str(n), "text", f"report {n}", "category", "bug"]
        await node.store.command("XADD", keys.feedback(n % 2), f"{n + 1}-0", *fields)
    lines = (await admin("feedback", "export")).out.splitlines()
    assert [json.loads(line)["id"] for line in lines] == [f"id-{n}" for n in reversed(range(120))]


async def test_what_others_wrote_cannot_move_the_cursor(node: NodeUnderTest, admin: Admin) -> None:
    fields = ["id", "a", "at", "1", "text", "one\x1b[2J\ntwo", "category", "bug"]
    await node.store.command("XADD", keys.feedback(0), "*", *fields)
    assert (await admin("feedback", "list")).out.splitlines()[1].endswith("one two")
