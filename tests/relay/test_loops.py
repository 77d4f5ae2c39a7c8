"""Messages that go round in a loop are silenced, but acknowledged with the status of any other."""

import pytest

from node.relay.store import RelayStore
from tests.support.fake_store import Clock, FakeStore
from tests.support.node_under_test import NodeUnderTest
from tests.support.rates import Unlimited

RELAY = "/api/v1/relay"
JSON = {"content-type": "application/json"}
TEXT = {"content-type": "text/plain"}
HELLO = {"message": "Hello, who can summarise a long report about solar panels?"}


async def test_the_third_same_payload_within_a_minute_is_silenced(node: NodeUnderTest) -> None:
    answers = [await node.client.post(RELAY, json=HELLO) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 200]
    assert answers[1].json()["status"] == "acknowledged"
    assert answers[2].content == b""
    other = await node.client_at("203.0.113.8").post(RELAY, json=HELLO)
    assert other.json()["status"] == "acknowledged"


async def test_the_minute_is_that_before_the_third_wherever_it_begins(node: NodeUnderTest) -> None:
    for _ in range(2):
        await node.client.post(RELAY, json=HELLO)
    [copies] = await node.names("copies:*")
    last, first = map(int, (await node.store.command("GET", copies)).split())  # type: ignore[union-attr]
    # As if the first came a minute before.
    await node.store.command("SET", copies, f"{last} {first - 60_000}", "PX", 60_000)
    answers = [await node.client.post(RELAY, json=HELLO) for _ in range(3)]
    assert [len(answer.content) > 0 for answer in answers] == [True, False, False]


@pytest.mark.parametrize(
    ("seconds", "kept"),
    [
        ([0, 1, 59.999], [True, True, False]),
        ([0, 1, 60], [True, True, True]),
        ([0, 50, 70, 80], [True, True, True, False]),
        ([0, 30, 59, 100, 118.999], [True, True, False, True, False]),
    ],
)
async def test_silenced_ones_count_and_the_minute_ends_to_the_millisecond(
    clock: Clock, seconds: list[float], kept: list[bool]
) -> None:
    relay, now = RelayStore(FakeStore(), 60), 0.0
    for moment, is_kept in zip(seconds, kept, strict=True):
        clock.advance(moment - now)
        now = moment
        message_id, _ = await relay.accept(Unlimited("203.0.113.7"), "digest", None, 60_000, ["payload", "Hello"])
        assert (message_id is not None) == is_kept, moment


async def test_order_and_white_space_do_not_make_json_another_payload(node: NodeUnderTest) -> None:
    same = [
        b'{"message": "Hello there", "public": false, "of": {"a": 1, "b": [true, null]}}',
        b'{"public":false,"of":{"b":[true,null],"a":1},"message":"Hello there"}',
        b'{"of": {"a": 1, "b": [ true, null ] },\n "message": "Hello\\u0020there", "public": false}',
    ]
    answers = [await node.client.post(RELAY, content=body, headers=JSON) for body in same]
    assert [len(answer.content) > 0 for answer in answers] == [True, True, False]


async def test_json_and_a_text_of_the_same_bytes_are_two_payloads(node: NodeUnderTest) -> None:
    body = b'{"message":"Hello there"}'
    answers = [await node.client.post(RELAY, content=body, headers=kind) for kind in (JSON, JSON, TEXT, TEXT)]
    assert all(answer.json()["status"] == "acknowledged" for answer in answers)


@pytest.mark.parametrize("header", [{"via": "1.1 relay-node"}, {"webhook-id": "msg_1"}])
async def test_a_message_that_comes_back_is_silenced(node: NodeUnderTest, header: dict[str, str]) -> None:
    response = await node.client.post(RELAY, json=HELLO, headers=header)
    assert (response.status_code, response.content) == (200, b"")
    assert len(await node.names("*")) == 1  # the count in its limit, and nothing else


@pytest.mark.parametrize("header", [{"via": "1.1 relay-node"}, {"webhook-id": "msg_1"}])
@pytest.mark.parametrize("body", [b"{bad", b'{"message":"Necesito ayuda urgente, por favor"}'])
async def test_it_is_silenced_whatever_it_says(node: NodeUnderTest, header: dict[str, str], body: bytes) -> None:
    kind = {"content-type": "application/cloudevents+json" if body == b"{bad" else "application/json"}
    response = await node.client.post(RELAY, content=body, headers=header | kind)
    assert (response.status_code, response.content) == (200, b"")


async def test_a_message_that_passed_a_node_of_a_similar_name_is_kept(node: NodeUnderTest) -> None:
    response = await node.client.post(RELAY, json=HELLO, headers={"via": "1.1 edge.my-relay-node-proxy.example"})
    assert response.json()["status"] == "acknowledged"


async def test_every_line_of_via_counts(node: NodeUnderTest) -> None:
    lines = [("via", "1.1 edge.example"), ("via", "1.0 fred, 1.1 relay-node:8000")]
    response = await node.client.post(RELAY, json=HELLO, headers=lines)
    assert (response.status_code, response.content) == (200, b"")
