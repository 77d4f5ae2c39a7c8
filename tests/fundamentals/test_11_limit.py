"""11. A limit is exact and per client address, and every answer says how much of it the client has left."""

import asyncio

from tests.support.node_under_test import NodeUnderTest


async def test_of_thirty_posts_at_once_exactly_ten_are_taken(node: NodeUnderTest) -> None:
    messages = [{"message": f"Report number {number} is ready to be read."} for number in range(30)]
    answers = await asyncio.gather(*(node.client.post("/api/v1/relay", json=message) for message in messages))
    assert sorted(answer.status_code for answer in answers) == [200] * 10 + [429] * 20
    assert all("ratelimit" in answer.headers for answer in answers)
    assert all(int(answer.headers["retry-after"]) <= 60 for answer in answers if answer.status_code == 429)


async def test_another_address_has_a_limit_of_its_own(node: NodeUnderTest) -> None:
    for number in range(11):
        await node.client.post("/api/v1/relay", json={"message": f"Report number {number} is ready to be read."})
    other = await node.client_at("198.51.100.9").post("/api/v1/relay", json={"message": "Hello from elsewhere."})
    assert other.status_code == 200
