"""Clients report posts, and enough reports hide a post until the operator has looked at it."""

from typing import Any

import pytest

from node.board.moderation_store import ModerationStore
from node.observe.totals import reports_waiting
from tests.admin.conftest import Admin, admin
from tests.board.calls import BOARD, QUESTION, answered
from tests.support.node_under_test import NodeUnderTest

__all__ = ["admin"]

UNKNOWN = "01a1fbd5-10f1-7326-b473-b7b7836b6ce8"


pytestmark = pytest.mark.settings(report_threshold=2)


async def report(node: NodeUnderTest, thread: str, address: str, **fields: Any) -> tuple[int, Any]:
    async with node.client_at(address) as client:
        response = await client.post(f"{BOARD}/{thread}/report", json={"reason": "It is spam."} | fields)
    return response.status_code, response.headers.get("x-error-code") or response.json()


async def test_two_addresses_hide_a_thread_and_one_does_not_however_often_it_asks(node: NodeUnderTest) -> None:
    thread = await answered(node)
    for address in ("2001:db8::1", "2001:db8::2", "2001:db8::1", "2001:db8:0:1::1"):  # one /48, which one may have
        assert await report(node, thread, address) == (202, {"status": "received"})
    assert (await node.client.get(f"{BOARD}/{thread}")).status_code == 200
    assert (await report(node, thread, "203.0.113.1"))[0] == 202
    assert (await node.client.get(f"{BOARD}/{thread}")).status_code == 404
    assert (await node.client.get(BOARD)).json()["threads"] == []
    assert await report(node, thread, "203.0.113.2") == (404, "thread.unknown")


async def test_a_dismissed_post_is_shown_and_the_same_reports_do_not_hide_it_again(
    node: NodeUnderTest, admin: Admin
) -> None:
    thread = await answered(node)
    for address in ("203.0.113.1", "203.0.113.2"):
        await report(node, thread, address, reply_seq=1)
    assert (await node.client.get(f"{BOARD}/{thread}")).json()["replies"] == []
    (waiting,) = (await admin("reports", "list", "--json")).data
    assert (waiting["thread_id"], waiting["seq"], waiting["waiting"]) == (thread, 1, 2)
    assert (waiting["hidden_by_reports"], waiting["excerpt"]) == (True, "I can help you")
    (_, row) = (await admin("reports", "list")).out.splitlines()
    assert "yes" in row.split(), "under HIDDEN"
    state, title, text, _, *reasons = (await admin("reports", "show", f"{thread}:1")).out.splitlines()
    assert state == f"{thread}:1, 2 new reports, hidden by the reports"
    assert (title, text) == (QUESTION["title"], "I can help you")
    assert [reason.partition(" ")[2] for reason in reasons] == ["It is spam."] * 2
    assert (await admin("reports", "dismiss", f"{thread}:1")).status == 0
    assert ", 0 new reports, shown\n" in (await admin("reports", "show", f"{thread}:1")).out
    assert len((await node.client.get(f"{BOARD}/{thread}")).json()["replies"]) == 1
    assert (await admin("reports", "list", "--json")).data == []
    for address in ("203.0.113.1", "203.0.113.2", "203.0.113.3"):
        assert (await report(node, thread, address, reply_seq=1))[0] == 202
    assert len((await node.client.get(f"{BOARD}/{thread}")).json()["replies"]) == 1
    assert (await report(node, thread, "203.0.113.4", reply_seq=1))[0] == 202
    assert (await node.client.get(f"{BOARD}/{thread}")).json()["replies"] == []
    assert await report(node, thread, "203.0.113.5", reply_seq=1) == (404, "thread.unknown")
    for words in (("reports", "dismiss"), ("threads", "hide"), ("reports", "dismiss")):
        assert (await admin(*words, f"{thread}:1")).status == 0
    read = (await node.client.get(f"{BOARD}/{thread}")).json()
    assert read["replies"] == [], "hidden by the operator, and not by reports"


async def test_what_is_removed_leaves_the_queue(node: NodeUnderTest, admin: Admin) -> None:
    """Otherwise threads removed for their age would count as waiting for the operator for 90 days."""
    one, other = await answered(node), await answered(node)
    for thread in (one, other):
        for address in ("203.0.113.1", "203.0.113.2"):
            await report(node, thread, address, reply_seq=1)
        await report(node, thread, "203.0.113.1")
    assert await reports_waiting(node.store) == 4
    assert (await admin("threads", "purge", f"{one}:1")).status == 0
    assert await reports_waiting(node.store) == 3
    assert (await admin("threads", "purge", other)).status == 0
    assert [(each["thread_id"], each["seq"]) for each in (await admin("reports", "list", "--json")).data] == [(one, 0)]
    assert await reports_waiting(node.store) == 1


async def test_a_removed_reply_stays_away_when_its_reports_are_dismissed(node: NodeUnderTest, admin: Admin) -> None:
    thread = await answered(node)
    for address in ("203.0.113.1", "203.0.113.2"):
        await report(node, thread, address, reply_seq=1)
    assert (await admin("threads", "purge", f"{thread}:1")).status == 0
    assert (await admin("reports", "dismiss", f"{thread}:1")).status == 0
    read = (await node.client.get(f"{BOARD}/{thread}")).json()
    assert (read["replies"], read["reply_count"]) == ([], 0)
    assert (await admin("reports", "list", "--json")).data == []


async def test_the_operator_hides_what_was_reported(node: NodeUnderTest, admin: Admin) -> None:
    thread = await answered(node)
    await report(node, thread, "203.0.113.1")
    ran = await admin("reports", "hide", thread, UNKNOWN, "--json")
    assert [(each["id"], each["outcome"]) for each in ran.data] == [(thread, "hidden"), (UNKNOWN, "report.unknown")]
    assert (await node.client.get(f"{BOARD}/{thread}")).status_code == 404
    assert (await admin("reports", "list", "--json")).data == []
    await admin("threads", "unhide", thread)
    assert (await node.client.get(f"{BOARD}/{thread}")).status_code == 200


async def test_so_many_reports_are_kept_and_with_threshold_0_none_hide(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("node.board.moderation_store.MAX_REPORTS", 5)
    thread, posts = await answered(node), ModerationStore(node.store)
    for number in range(9):
        told = await posts.report(thread, 0, f"203.0.113.{number}", "It is spam.", 0)
        assert told == ("kept" if number < 5 else "known")
    found = await posts.reported(thread, 0)
    assert found is not None
    assert len(found.reasons) == found.waiting == 5
    assert (await node.client.get(f"{BOARD}/{thread}")).status_code == 200


async def test_what_is_not_there_cannot_be_reported(node: NodeUnderTest) -> None:
    thread = await answered(node)
    assert await report(node, UNKNOWN, "203.0.113.1") == (404, "thread.unknown")
    assert await report(node, "nonsense", "203.0.113.1") == (404, "thread.unknown")
    assert await report(node, thread, "203.0.113.1", reply_seq=2) == (404, "thread.unknown")
    for reason in ("", "\u2060"):
        assert (await report(node, thread, "203.0.113.1", reason=reason))[0] == 422
    assert not await ModerationStore(node.store).settle(thread, 0, "hide")
    assert not await ModerationStore(node.store).change(UNKNOWN, 0, "hide")
    assert await node.names(f"*{UNKNOWN}*") == []


async def test_reports_have_a_limit_of_their_own(node: NodeUnderTest) -> None:
    thread = await answered(node)
    statuses = [(await report(node, thread, "203.0.113.1"))[0] for _ in range(11)]
    assert statuses == [202] * 10 + [429]
