"""How long the Idempotency-Keys of requests to a session are remembered."""

from node.store import keys
from tests.sessions.test_sessions import messages, opened
from tests.support.node_under_test import NodeUnderTest


async def test_the_key_of_a_line_is_not_known_for_longer_than_the_session(node: NodeUnderTest) -> None:
    session = await opened(node)
    await node.client.post(messages(session), json={"body": "step 1"}, headers={"idempotency-key": "step-1"})
    [record] = await node.names("idem:*")
    of_session = keys.session(session["session_id"])
    ends = [await node.store.command("PEXPIRETIME", name, key=name) for name in (record, of_session)]
    assert ends[0] == ends[1]
