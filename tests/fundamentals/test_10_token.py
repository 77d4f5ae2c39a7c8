"""10. A capability token proves one right and is stored nowhere: it is derived from the node's secret when needed."""

from node.common.tokens import Tokens
from tests.support.node_under_test import NodeUnderTest


def test_a_token_is_the_same_each_time_and_different_for_each_right() -> None:
    tokens = Tokens("a secret that only the processes of one node have")
    assert tokens.issue("claim", "task-1", "1") == tokens.issue("claim", "task-1", "1")
    assert tokens.issue("claim", "task-1", "1") != tokens.issue("claim", "task-1", "2")
    assert tokens.issue("claim", "task-1", "1") != tokens.issue("destroy", "task-1", "1")


async def test_a_copy_of_redis_gives_nobody_a_right(node: NodeUnderTest) -> None:
    session = (await node.client.post("/api/v1/sessions", json={})).json()
    stored = [await node.store.command("DUMP", name, key=name) for name in await node.names("*")]
    assert session["destroy_token"].encode() not in b"".join(dump for dump in stored if isinstance(dump, bytes))
    destroyed = {"destroy_token": session["destroy_token"]}
    response = await node.client.post(f"/api/v1/sessions/{session['session_id']}/destroy", json=destroyed)
    assert response.status_code == 200
