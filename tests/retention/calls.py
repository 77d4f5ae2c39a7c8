"""Calls that the retention tests share."""

from typing import Any

import msgspec

from node.retention.rules import retention_of
from node.store import keys
from tests.support.node_under_test import NodeUnderTest
from tests.tasks.calls import act, claimed

OLD = 1_000_000  # ms since 1970, long ago
TIMES = (
    *(b"created_at", b"claimed_at", b"updated_at", b"submitted_at"),
    *(b"completed_at", b"canceled_at", b"expired_at", b"failed_at"),
)
"""Time fields of a contract."""


async def look(node: NodeUnderTest, **changed: Any) -> int:
    """Run the worker's retention with these settings and enough time. Returns how much was handled."""
    return await retention_of(msgspec.structs.replace(node.settings, **changed), node.store).look(20)


async def finished(node: NodeUnderTest, result: Any, **offer: Any) -> dict[str, Any]:
    """Return a completed contract, with its tokens."""
    task = await claimed(node, **offer)
    response = await act(node, task, "complete", claim_token=task["claim_token"], result_payload=result)
    assert response.status_code == 200
    return task


async def end_long_ago(node: NodeUnderTest, task: dict[str, Any]) -> None:
    """Make a contract look as if it had been created and ended in 1970."""
    fields: Any = await node.store.command("HGETALL", keys.task(task["id"]))
    for name in TIMES:
        if name in fields[::2]:
            await node.store.command("HSET", keys.task(task["id"]), name, OLD)
    for status in ("completed", "canceled", "expired", "failed", "offered"):
        await node.store.command("ZADD", keys.tasks_with(status), "XX", OLD, task["id"])
