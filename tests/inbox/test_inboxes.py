"""Inboxes over HTTP, on a real Redis: opened, renewed, shown, closed (NETWORK 1)."""

import asyncio
import time
from datetime import datetime
from typing import Any, cast

import pytest

from node.common.timestamps import timestamp
from node.sign.keys import PublicKey
from node.store import ids, keys
from tests.agents.calls import SUMMARISE, card_of
from tests.board.signed_posts import OTHER_KEY
from tests.inbox.calls import (
    ADDRESS,
    INBOXES,
    UNKNOWN_ADDRESS,
    bearer,
    closed,
    members,
    opened,
    path_of,
    read,
    receipt,
    send_signed,
    sent,
    settled,
    signed,
)
from tests.support.answers import refused
from tests.support.node_under_test import NodeUnderTest
from tests.support.servers import WOKEN, Cluster, RedisServer

LONG = "It makes one page of a long report. " * 25
SECRET_KEY = "an-idempotency-key-of-32-characters"


async def test_an_inbox_without_a_key_has_a_random_address(node: NodeUnderTest) -> None:
    response = await node.client.post(INBOXES)
    assert response.status_code == 201
    inbox = response.json()
    assert len(inbox["address"]) == 27
    assert inbox["url"] == response.headers["location"] == f"http://node.example{path_of(inbox)}"
    assert response.headers["cache-control"] == "no-store"
    assert inbox["a2a_url"] == f"{inbox['url']}/a2a"
    shown = (await node.client.get(path_of(inbox))).json()
    assert shown == {
        "address": inbox["address"],
        "label": None,
        "description": None,
        "policy": "open",
        "is_signed": False,
        "encryption_key": None,
        "a2a_url": inbox["a2a_url"],
        "last_seen": "hour",
        "accepting": True,
    }


async def test_an_inbox_shows_what_its_owner_says(node: NodeUnderTest) -> None:
    key = PublicKey(bytes(OTHER_KEY.verify_key)).x
    wanted = {"label": "Desk", "description": "Reads reports.", "policy": "signed", "encryption_key": key}
    shown = (await node.client.get(path_of(await opened(node, **wanted)))).json()
    assert {name: shown[name] for name in wanted} == wanted


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("label", "x" * 121),
        ("label", "two\nlines"),
        ("description", "x" * 2001),
        ("policy", "closed"),
        ("contacts", ["not an address"]),
        ("contacts", [UNKNOWN_ADDRESS] * 101),
        ("encryption_key", "short"),
        ("callback_url", "http://127.0.0.1/hook"),
        ("ttl_seconds", 59),
        ("ttl_seconds", 2_592_001),
        ("card", card_of("Report desk", *[SUMMARISE | {"id": str(each), "description": LONG} for each in range(18)])),
    ],
)
async def test_a_bad_field_is_named(node: NodeUnderTest, field: str, value: Any) -> None:
    response = await node.client.post(INBOXES, json={field: value})
    assert response.status_code == 422
    assert response.json()["detail"][0]["loc"][:2] == ["body", field]


async def test_null_stands_for_the_default_of_every_field(node: NodeUnderTest) -> None:
    names = ("label", "description", "policy", "contacts", "encryption_key", "callback_url", "ttl_seconds", "card")
    inbox = await opened(node, **dict.fromkeys((*names, "rotate")))
    assert (await node.client.get(path_of(inbox))).json()["policy"] == "open"


async def test_a_renewal_with_null_goes_back_to_the_default(node: NodeUnderTest) -> None:
    inbox = await opened(node, policy="contacts", contacts=[UNKNOWN_ADDRESS], ttl_seconds=60)
    wanted = {"policy": None, "contacts": None, "ttl_seconds": None}
    renewed = await node.client.post(INBOXES, json=wanted, headers=bearer(inbox["inbox_token"]))
    assert renewed.status_code == 200
    assert (await node.client.get(path_of(inbox))).json()["policy"] == "open"
    ends_at = datetime.fromisoformat((await sent(node, inbox))["expires_at"]).timestamp()
    assert 604_800 - 60 < ends_at - time.time() < 604_800 + 60


async def test_a_signed_request_opens_the_address_of_its_key(node: NodeUnderTest) -> None:
    response = await send_signed(node, signed("POST", INBOXES, {"label": "Signed"}))
    assert response.status_code == 201, response.text
    assert response.json()["address"] == ADDRESS
    assert (await node.client.get(path_of(response.json()))).json()["is_signed"] is True


async def test_token_and_signature_renew_and_change_what_is_named(node: NodeUnderTest) -> None:
    first = (await send_signed(node, signed("POST", INBOXES, {"label": "One", "description": "Both"}))).json()
    by_token = await node.client.post(INBOXES, json={"label": "Two"}, headers=bearer(first["inbox_token"]))
    by_key = await send_signed(node, signed("POST", INBOXES, {"description": None}))
    for renewed in (by_token, by_key):
        assert renewed.status_code == 200
        assert renewed.json()["epoch"] == first["epoch"]
        assert renewed.json()["inbox_token"] == first["inbox_token"]
    shown = (await node.client.get(path_of(first))).json()
    assert (shown["label"], shown["description"]) == ("Two", None)


async def test_rotation_ends_all_earlier_tokens_and_keeps_the_messages(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    await sent(node, inbox)
    response = await node.client.post(INBOXES, json={"rotate": True}, headers=bearer(inbox["inbox_token"]))
    rotated = response.json()
    assert (response.status_code, rotated["address"]) == (200, inbox["address"])
    assert rotated["epoch"] != inbox["epoch"]
    old = await node.client.get(path_of(inbox, "/messages"), headers=bearer(inbox["inbox_token"]))
    assert refused(old) == (403, "inbox.token")
    assert [message["seq"] for message in (await read(node, rotated))["messages"]] == [1]


async def test_an_owner_who_waits_with_a_token_that_is_rotated_learns_it(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    path, token = path_of(inbox, "/messages"), bearer(inbox["inbox_token"])
    waiting = asyncio.create_task(node.client.get(path, params={"wait": 30}, headers=token))
    await node.listened_to(keys.inbox(inbox["address"]))
    await node.client.post(INBOXES, json={"rotate": True}, headers=token)
    assert refused(await asyncio.wait_for(waiting, WOKEN)) == (403, "inbox.token")


async def test_an_opening_that_is_repeated_with_its_key_gets_the_same_inbox(node: NodeUnderTest) -> None:
    headers = {"idempotency-key": SECRET_KEY}
    first = await node.client.post(INBOXES, json={"label": "Once"}, headers=headers)
    again = await node.client.post(INBOXES, json={"label": "Once"}, headers=headers)
    assert (again.status_code, again.json()) == (201, first.json())
    assert again.headers["idempotency-replayed"] == "true"
    other = await node.client.post(INBOXES, json={"label": "Twice"}, headers=headers)
    assert refused(other) == (422, "idempotency.conflict")


async def test_a_rotation_that_is_repeated_with_its_key_gets_the_new_token_again(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    headers = bearer(inbox["inbox_token"]) | {"idempotency-key": SECRET_KEY}
    first, again = [await node.client.post(INBOXES, json={"rotate": True}, headers=headers) for _ in range(2)]
    assert (again.status_code, again.json()) == (200, first.json())


async def test_a_closed_inbox_leaves_nothing_but_its_receipts(node: NodeUnderTest) -> None:
    inbox = await opened(node, label="Gone", contacts=[ADDRESS])
    message = await sent(node, inbox, subject="A secret matter")
    done = await sent(node, inbox)
    await settled(node, inbox, done, reply="Bye")
    assert (await closed(node, inbox)).json() == {"address": inbox["address"], "status": "closed"}
    for path in ("", "/messages"):
        assert refused(await node.client.get(path_of(inbox, path), headers=bearer(inbox["inbox_token"])))[0] == 404
    assert refused(await node.client.post(path_of(inbox, "/messages"), json={"body": "x"}))[0] == 404
    assert refused(await closed(node, inbox)) == (404, "inbox.unknown")
    assert (await receipt(node, inbox, message))["status"] == "expired"
    assert (await receipt(node, inbox, done))["reply"] == "Bye"
    left = [name.split(":")[0] for name in await node.names(f"inbox*{inbox['address']}*")]
    assert left == ["inbox-receipt"] * 2


async def test_a_sender_who_waits_learns_that_the_inbox_was_closed(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    message = await sent(node, inbox)
    waiting = asyncio.create_task(receipt(node, inbox, message, wait=30))
    await node.listened_to(keys.inbox_receipt(inbox["address"], message["id"]))
    await closed(node, inbox)
    assert (await asyncio.wait_for(waiting, WOKEN))["status"] == "expired"


async def test_no_message_outlives_its_inbox(node: NodeUnderTest) -> None:
    inbox = await opened(node, ttl_seconds=2_592_000)
    ends_at = round(time.time() + 3600) * 1000
    await node.store.command("HSET", keys.inbox(inbox["address"]), "ends_at", ends_at)
    assert (await sent(node, inbox))["expires_at"] == timestamp(ends_at)


async def test_an_inbox_opened_again_by_its_key_is_empty_and_its_old_tokens_are_void(node: NodeUnderTest) -> None:
    first = (await send_signed(node, signed("POST", INBOXES, {"label": "First"}))).json()
    old = await sent(node, first)
    await closed(node, first)
    response = await send_signed(node, signed("POST", INBOXES, {}))
    second = response.json()
    assert (response.status_code, second["address"]) == (201, first["address"])
    assert second["epoch"] != first["epoch"]
    assert (await node.client.get(path_of(second))).json()["label"] is None
    assert (await read(node, second))["messages"] == []
    stale = await node.client.get(path_of(second, "/messages"), headers=bearer(first["inbox_token"]))
    assert refused(stale) == (403, "inbox.token")
    assert (await receipt(node, second, old))["status"] == "expired"
    assert refused(await settled(node, second, old)) == (409, "inbox.settled")
    path = path_of(second, f"/messages/{old['id']}")
    taken_back = await node.client.delete(path, headers=bearer(old["receipt_token"]))
    assert refused(taken_back) == (409, "inbox.settled")
    assert (await sent(node, second))["seq"] == old["seq"] + 1  # numbers never repeat


async def test_a_signature_that_closed_an_inbox_does_not_close_it_again(node: NodeUnderTest) -> None:
    await send_signed(node, signed("POST", INBOXES))
    closing = signed("DELETE", f"{INBOXES}/{ADDRESS}")
    assert (await send_signed(node, closing)).status_code == 200
    await send_signed(node, signed("POST", INBOXES))
    assert refused(await send_signed(node, closing)) == (409, "signature.replayed")


async def test_a_signature_renews_once(node: NodeUnderTest) -> None:
    request = signed("POST", INBOXES, {"label": "Mine"})
    assert (await send_signed(node, request)).status_code == 201
    assert refused(await send_signed(node, request)) == (409, "signature.replayed")


async def test_a_signature_beside_a_token_renews_once_as_well(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    request = signed("POST", INBOXES, {"label": "Mine"}).with_header(*bearer(inbox["inbox_token"]).popitem())
    assert (await send_signed(node, request)).status_code == 200
    assert refused(await send_signed(node, request)) == (409, "signature.replayed")


async def test_who_shows_nothing_gets_401_and_who_shows_the_wrong_thing_403(node: NodeUnderTest) -> None:
    inbox, other = await opened(node), await opened(node)
    for shown in ({}, {"authorization": "Bearer"}, {"authorization": "Basic Zm9vOmJhcg=="}):
        none = await node.client.get(path_of(inbox, "/messages"), headers=shown)
        assert refused(none) == (401, "inbox.proof"), shown
        assert none.headers["www-authenticate"] == "Bearer"
    for token in ("nonsense", other["inbox_token"], inbox["inbox_token"][:-1]):
        wrong = await node.client.get(path_of(inbox, "/messages"), headers=bearer(token))
        assert refused(wrong) == (403, "inbox.token"), token
    by_key = await send_signed(node, signed("GET", path_of(inbox, "/messages"), key=OTHER_KEY))
    assert refused(by_key) == (403, "inbox.token")
    assert refused(await node.client.post(INBOXES, headers=bearer("nonsense"))) == (403, "inbox.token")


async def test_an_empty_token_renews_nothing_and_opens_nothing(node: NodeUnderTest) -> None:
    empty = {"authorization": "Bearer"}
    response = await node.client.post(INBOXES, headers=empty)
    assert refused(response) == (401, "inbox.proof")
    assert response.headers["www-authenticate"] == "Bearer"
    by_key = signed("POST", INBOXES).with_header("authorization", "Bearer")
    assert (await send_signed(node, by_key)).status_code == 201  # what the signature proves is enough


@pytest.mark.parametrize("address", [UNKNOWN_ADDRESS, "B" * 43, "short", "A" * 26 + "!", "\u00e4" * 27, "%FF"])
async def test_an_unknown_address_is_not_found_whatever_is_shown(node: NodeUnderTest, address: str) -> None:
    bodies = {"/settle": {"through_seq": 1}, "/messages": {"body": "Hello"}}
    calls = (("GET", ""), ("DELETE", ""), ("GET", "/messages"), ("POST", "/messages"), ("POST", "/settle"))
    for method, rest in calls:
        body = bodies[rest] if method == "POST" else None
        response = await node.client.request(method, f"{INBOXES}/{address}{rest}", json=body)
        assert refused(response) == (404, "inbox.unknown")


async def test_the_key_of_the_address_reads_settles_and_closes_without_a_token(node: NodeUnderTest) -> None:
    inbox = (await send_signed(node, signed("POST", INBOXES))).json()
    message = await sent(node, inbox)
    page = await send_signed(node, signed("GET", path_of(inbox, "/messages")))
    assert [each["id"] for each in page.json()["messages"]] == [message["id"]]
    settling = signed("POST", path_of(inbox, f"/messages/{message['id']}/settle"), {"status": "done"})
    assert (await send_signed(node, settling)).status_code == 200
    assert (await send_signed(node, signed("DELETE", path_of(inbox)))).status_code == 200


async def test_who_looks_at_callbacks_has_not_read_the_inbox(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    key = keys.inbox(inbox["address"])
    await node.store.command("HSET", key, "seen", 1)
    headers = bearer(inbox["inbox_token"])
    assert (await node.client.get(path_of(inbox, "/callbacks"), headers=headers)).status_code == 200
    assert await node.store.command("HGET", key, "seen") == b"1"
    await read(node, inbox)
    assert await node.store.command("HGET", key, "seen") != b"1"


async def test_a_poll_that_brings_nothing_new_writes_nothing(
    node: NodeUnderTest, empty_redis: RedisServer | Cluster
) -> None:
    """Owners may poll as often as they like: a poll is neither limited nor charged."""
    inbox = await opened(node)
    steps: list[int] = []
    for is_new in (True, True, False):
        if is_new:
            await sent(node, inbox)
        before = empty_redis.info("commandstats")["cmdstat_evalsha"]["calls"]
        await read(node, inbox)
        steps.append(empty_redis.info("commandstats")["cmdstat_evalsha"]["calls"] - before)
    assert steps[2] < steps[1]  # because no message was marked as read


async def test_an_inbox_stays_while_its_owner_reads(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    key = keys.inbox(inbox["address"])
    for seconds, shown in ((3500, "hour"), (3700, "day"), (90_000, "week"), (700_000, "older")):
        now = int(cast("list[bytes]", await node.store.command("TIME"))[0])
        await node.store.command("HSET", key, "seen", (now - seconds) * 1000)
        assert (await node.client.get(path_of(inbox))).json()["last_seen"] == shown
    await node.store.command("PEXPIRE", key, 5000)
    await read(node, inbox)
    left = await node.store.command("PTTL", key)
    assert isinstance(left, int)
    assert left > 29 * 86_400_000
    assert (await node.client.get(path_of(inbox))).json()["last_seen"] == "hour"


async def test_a_place_in_the_quota_lasts_as_long_as_the_inbox(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    (place,) = await node.names("held:*:inbox:203.0.113.7")
    [(name, ends)] = await members(node, place)
    earlier = ends - 2 * 86_400_000
    await node.store.command("ZADD", place, earlier, name)
    await node.store.command("HSET", keys.inbox(inbox["address"]), "held_until", earlier, "seen", 1)
    await read(node, inbox)
    [(_, extended)] = await members(node, place)
    assert extended >= ends
    await closed(node, inbox)
    assert await node.store.command("EXISTS", place) == 0


async def test_only_a_renewal_that_names_a_field_changes_the_card(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    await node.store.command("HSET", keys.inbox(inbox["address"]), "changed", 1)

    async def modified() -> str:
        card = await node.client.get(path_of(inbox, "/a2a/.well-known/agent-card.json"))
        return card.headers["last-modified"]

    for wanted, is_same in (({}, True), ({"rotate": False}, True), ({"description": "Reads reports."}, False)):
        await node.client.post(INBOXES, json=wanted, headers=bearer(inbox["inbox_token"]))
        assert (await modified() == "Thu, 01 Jan 1970 00:00:00 GMT") == is_same


def test_an_address_that_is_made_lies_in_the_partition_that_it_should() -> None:
    for partition in range(ids.PARTITIONS):
        address = ids.new_address(partition)
        assert ids.is_address(address)
        assert ids.partition_of(address) == partition
        assert not ids.is_of_key(address)


def test_no_address_that_is_made_begins_as_options_do(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = iter([b"\xfb" * 20, bytes(20)])  # -_v7… in base64url, then AAAA…

    def draw(count: int) -> bytes:
        return next(drawn)

    monkeypatch.setattr("node.store.ids.os.urandom", draw)
    assert ids.new_address() == "A" * 27
