"""A dry run announces what a real run does, including each refusal and its reason."""

import pytest

from node.store import keys
from node.tasks.model import STATUSES
from tests.admin.conftest import Admin, Ran
from tests.admin.test_threads import UNKNOWN
from tests.board.calls import BOARD, answered
from tests.support.node_under_test import NodeUnderTest
from tests.tasks.calls import offered


def refused(ran: Ran, done: str) -> dict[str, str]:
    """Return the reason for each target that was refused, or that a dry run says would be refused."""
    outcomes = {each["id"]: each["outcome"] for each in ran.data}
    return {target: outcome for target, outcome in outcomes.items() if outcome not in ("dry run", done)}


@pytest.mark.parametrize(("command", "done"), [("hide", "hidden"), ("unhide", "shown"), ("purge", "purged")])
async def test_posts(node: NodeUnderTest, admin: Admin, command: str, done: str) -> None:
    thread, other = await answered(node), await answered(node)
    await admin("threads", "purge", f"{other}:1")
    await admin("threads", "hide", f"{thread}:1")
    await node.client.post(f"{BOARD}/{thread}/replies", json={"body": "I can help you, too"})
    # The number of a missing reply must not be taken for the thread, which exists and may be purged.
    named = [f"{thread}:1", f"{thread}:2", f"{thread}:3", f"{other}:1", f"{thread}:", UNKNOWN, f"{UNKNOWN}:1", "a"]
    dry = await admin("threads", command, *named, "--dry-run", "--json")
    ran = await admin("threads", command, *named, "--json")
    assert refused(dry, done) == refused(ran, done) == dict.fromkeys(named[2:], "thread.unknown")
    assert dry.status == ran.status == 1
    assert (await admin("threads", "show", thread)).status == 0


async def test_contracts_of_every_status(node: NodeUnderTest, admin: Admin) -> None:
    named = {status: (await offered(node))["id"] for status in STATUSES}
    for status, task in named.items():
        await node.store.command("HSET", keys.task(task), "status", status)
    over = dict.fromkeys([named[each] for each in ("submitted", "completed", "failed", "expired")], "task.state")
    for command, word, why in (("cancel", "canceled", over), ("purge", "purged", {})):
        dry = await admin("tasks", command, *named.values(), UNKNOWN, "--dry-run", "--json")
        ran = await admin("tasks", command, *named.values(), UNKNOWN, "--json")
        assert refused(dry, word) == refused(ran, word) == why | {UNKNOWN: "task.unknown"}
        assert dry.status == ran.status == 1
