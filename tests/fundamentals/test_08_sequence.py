"""8. Lines and replies have sequence numbers without gaps: a reader that remembers the last one misses nothing."""

from tests.support.node_under_test import NodeUnderTest


async def test_a_reader_that_remembers_the_last_number_gets_each_line_once(node: NodeUnderTest) -> None:
    session = (await node.client.post("/api/v1/sessions", json={})).json()["session_id"]
    lines = f"/api/v1/sessions/{session}/messages"
    for number in range(5):
        await node.client.post(lines, json={"body": f"line {number}"})

    read: list[tuple[int, str]] = []
    since = 0
    while page := (await node.client.get(lines, params={"since_seq": since, "limit": 2})).json()["lines"]:
        read += [(line["seq"], line["body"]) for line in page]
        since = page[-1]["seq"]
    assert read == [(number + 1, f"line {number}") for number in range(5)]
