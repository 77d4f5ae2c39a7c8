"""1. A write is acknowledged once Redis has it: a client that was given a `reference_id` can read what was kept."""

from tests.support.node_under_test import NodeUnderTest


async def test_an_acknowledged_message_is_kept(node: NodeUnderTest) -> None:
    response = await node.client.post("/api/v1/relay", json={"message": "Who can read a long report?"})
    acknowledgement = response.json()
    assert (response.status_code, acknowledgement["status"]) == (200, "acknowledged")

    kept = await node.client.get(f"/api/v1/relay/{acknowledgement['reference_id']}")
    assert kept.json()["payload"] == {"message": "Who can read a long report?"}


async def test_a_public_message_is_a_thread_on_the_board_and_a_private_one_is_not(node: NodeUnderTest) -> None:
    public = (await node.client.post("/api/v1/relay", json={"message": "Who can read a long report?"})).json()
    private = (await node.client.post("/api/v1/relay", json={"message": "For you alone", "public": False})).json()

    assert (await node.client.get(f"/api/v1/board/{public['reference_id']}")).status_code == 200
    assert (await node.client.get(f"/api/v1/board/{private['reference_id']}")).status_code == 404
