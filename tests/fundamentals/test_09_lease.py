"""9. A claim may have a lease: a worker that dies loses its claim, and the claim token becomes invalid."""

from node.store import keys
from tests.support.node_under_test import NodeUnderTest
from tests.tasks.calls import act, offered


async def test_a_claim_is_void_when_its_lease_has_ended_and_the_next_one_has_another_token(node: NodeUnderTest) -> None:
    task = await offered(node, lease_seconds=30)
    dead = (await act(node, task, "claim", assignee_id="crashed")).json()
    await node.store.command("HSET", keys.task(task["id"]), "lease_expires_at", 1)  # as if the 30 s were over

    second = (await act(node, task, "claim", assignee_id="next")).json()
    assert (dead["attempt"], second["attempt"]) == (1, 2)
    assert (await act(node, task, "complete", claim_token=dead["claim_token"])).status_code == 403
    assert (await act(node, task, "complete", claim_token=second["claim_token"])).status_code == 200
