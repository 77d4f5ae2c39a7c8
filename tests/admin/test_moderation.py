"""The operator finds who posted what, and hides, shows and removes it: threads, replies, everything of a client."""

import time
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from node.config import Limit, Limits
from node.retention.rules import retention_of
from node.store import ids, keys
from tests.admin.conftest import Admin
from tests.board.calls import BOARD, QUESTION
from tests.board.signed_posts import send, signed
from tests.sign.signing import PUBLIC
from tests.support.node_under_test import NodeUnderTest, running, until
from tests.tasks.calls import OFFER, TASKS

MINE, OTHER = "203.0.113.7", "2001:db8:1:2::3"


pytestmark = pytest.mark.settings(limits=Limits(search=Limit(0, 1), search_characters=Limit(0, 1)))


async def posted(node: NodeUnderTest) -> str:
    """Create a thread of MINE, with one reply by each client."""
    thread = (await node.client.post(BOARD, json=QUESTION)).json()["id"]
    for address in (MINE, OTHER):
        async with node.client_at(address) as client:
            assert (await client.post(f"{BOARD}/{thread}/replies", json={"body": "I can help you"})).status_code == 201
    return thread


async def shown(node: NodeUnderTest, thread: str, query: str = "") -> Any:
    read = (await node.client.get(f"{BOARD}/{thread}{query}")).json()
    return [reply["seq"] for reply in read["replies"]], read["reply_count"], read["next_since_seq"]


async def known(node: NodeUnderTest) -> int:
    """Return for how many posts the sender is recorded."""
    found = await node.store.run_all([("ZCARD", keys.posters(each)) for each in range(ids.PARTITIONS)])
    return sum(cast("list[int]", found))


async def noted(node: NodeUnderTest, count: int) -> None:
    """Wait until a worker has recorded the senders of this many posts."""

    async def is_noted() -> bool:
        return await known(node) == count

    async with node.worker():
        await until(is_noted)


async def test_the_operator_sees_which_address_posted_what(node: NodeUnderTest, admin: Admin) -> None:
    thread = await posted(node)
    sent = {"message": "Who can summarise a long report?"}
    message = (await node.client.post("/api/v1/relay", json=sent)).json()["reference_id"]
    assert (await admin("threads", "show", thread, "--json")).data["client"] is None, "no worker has noted it yet"
    assert "from    not known: " in (await admin("threads", "show", thread)).out
    await noted(node, 4)
    found = (await admin("threads", "show", thread, "--json")).data
    assert (found["client"], found["signer"], found["body"]) == (MINE, None, QUESTION["body"])
    assert [reply["client"] for reply in found["replies"]] == [MINE, "2001:db8:1:2::/64"]
    assert (await admin("threads", "show", message, "--json")).data["client"] == MINE
    assert f"from    {MINE}\nkey     not signed\n" in (await admin("threads", "show", thread)).out
    of_mine = (await admin("clients", "posts", MINE, "--json")).data
    assert [(post["kind"], post["id"]) for post in of_mine] == [
        ("relay", message),
        ("reply", f"{thread}:1"),
        ("board", thread),
    ]
    assert of_mine[-1]["at"] == found["thread"]["created_at"]
    for name in (OTHER, "2001:db8::/32"):
        (of_other,) = (await admin("clients", "posts", name, "--json")).data
        assert of_other["id"] == f"{thread}:2"


async def test_a_signed_post_is_found_by_its_key_and_the_key_can_be_blocked(node: NodeUnderTest, admin: Admin) -> None:
    response = await send(node, signed(BOARD, QUESTION))
    await noted(node, 1)
    (found,) = (await admin("clients", "posts", PUBLIC.thumbprint, "--json")).data
    assert (found["id"], found["client"]) == (response.json()["id"], MINE)
    assert f"key     {PUBLIC.thumbprint}\n" in (await admin("threads", "show", found["id"])).out
    assert "single address" not in (await admin("clients", "posts", PUBLIC.thumbprint)).out
    assert (await admin("clients", "block", PUBLIC.thumbprint)).status == 0

    async def is_refused() -> bool:
        again = await send(node, signed(f"{BOARD}/{response.json()['id']}/close"))
        return again.status_code == 403 and again.headers["x-error-code"] == "client.blocked"

    await until(is_refused)
    assert (await node.client.post(BOARD, json=QUESTION)).status_code == 201
    assert (await admin("clients", "unblock", PUBLIC.thumbprint)).status == 0


async def test_who_posted_is_forgotten_when_the_time_is_over_or_the_setting_is_off(node: NodeUnderTest) -> None:
    await posted(node)
    await noted(node, 3)
    await retention_of(node.settings, node.store).look(5)
    assert await known(node) == 3
    await retention_of(msgspec.structs.replace(node.settings, provenance_days=0), node.store).look(5)
    assert await known(node) == 0


async def test_clients_are_ranked_by_what_they_post_keep_and_are_refused(
    node: NodeUnderTest, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(node.settings) as ending:
        await posted(ending)
        async with ending.client_at(OTHER) as client:
            for _ in range(3):
                assert (await client.post(BOARD, json={})).status_code == 422
    # A process that ends reports what it has counted.
    await noted(node, 3)
    (first, second) = (await admin("clients", "top", "--json")).data
    assert (first["client"], first["posts"], first["threads"], first["replies"], first["refused"]) == (MINE, 2, 1, 1, 0)
    assert first["bytes"] > 1000
    assert (second["client"], second["posts"], second["refused"]) == ("2001:db8:1:2::/64", 1, 3)
    assert (await admin("clients", "top", "--by", "refused", "--json")).data == [second]
    assert (await admin("clients", "top", "--days", "99999999", "--json")).data == [first, second]
    later = time.time() + 1.5 * 86400
    monkeypatch.setattr("node.admin.console.clients.time", SimpleNamespace(time=lambda: later))
    assert (await admin("clients", "top", "--json")).data == [], "a day and a half ago is not within one day"
    assert len((await admin("clients", "top", "--days", "2", "--json")).data) == 2


async def test_a_hidden_reply_is_shown_to_nobody_and_comes_back(node: NodeUnderTest, admin: Admin) -> None:
    thread = await posted(node)
    assert await shown(node, thread) == ([1, 2], 2, 2)
    assert (await admin("threads", "hide", f"{thread}:2")).status == 0
    assert await shown(node, thread) == ([1], 1, 2)
    assert await shown(node, thread, "?since_seq=1") == ([], 1, 2)
    assert (await node.client.get(f"/board/{thread}")).text.count("I can help you") == 1
    replies = (await admin("threads", "show", thread, "--json")).data["replies"]
    assert [reply["is_hidden"] for reply in replies] == [False, True]
    assert (await admin("threads", "unhide", f"{thread}:2")).status == 0
    assert await shown(node, thread) == ([1, 2], 2, 2)
    assert (await admin("threads", "hide", f"{thread}:3")).status == 1


async def test_hiding_and_closing_are_undone(node: NodeUnderTest, admin: Admin) -> None:
    thread = await posted(node)
    await admin("threads", "close", thread)
    for _ in range(2):
        assert (await admin("threads", "hide", thread)).status == 0
    assert (await node.client.get(f"{BOARD}/{thread}")).status_code == 404
    await admin("threads", "unhide", thread)
    assert (await node.client.get(f"{BOARD}/{thread}")).json()["status"] == "closed"
    await admin("threads", "hide", thread)
    await admin("threads", "reopen", thread)
    assert (await node.client.get(f"{BOARD}/{thread}")).status_code == 404
    await admin("threads", "unhide", thread)
    assert (await node.client.post(f"{BOARD}/{thread}/replies", json={"body": "I have time now"})).status_code == 201
    assert [each["id"] for each in (await node.client.get(BOARD)).json()["threads"]] == [thread]


async def test_workers_are_told_once_what_was_hidden_and_shown(node: NodeUnderTest, admin: Admin) -> None:
    thread = await posted(node)
    outbox = keys.events(ids.partition_of_id(thread))

    async def told() -> list[bytes]:
        events = cast("list[tuple[bytes, list[bytes]]]", await node.store.command("XRANGE", outbox, "-", "+"))
        return [fields[1] for _, fields in events]

    before = len(await told())
    for target in (f"{thread}:1", thread):
        for action in ("hide", "hide", "unhide", "unhide"):
            assert (await admin("threads", action, target)).status == 0
    await admin("threads", "purge", thread)
    changes = [b"reply.hidden", b"reply.shown", b"thread.hidden", b"thread.opened", b"thread.purged"]
    assert (await told())[before:] == changes


async def test_of_a_thread_that_was_hidden_and_is_shown_again_nobody_is_told_that_it_was_closed(
    node: NodeUnderTest, admin: Admin
) -> None:
    """Otherwise readers of the board's events would be told `thread.closed` about an open thread."""
    thread, closed = await posted(node), await posted(node)
    await admin("threads", "hide", thread, closed)
    await admin("threads", "close", closed)
    await admin("threads", "unhide", thread, closed)
    later = await posted(node)
    told: list[tuple[str, str]] = []

    async def both_are_told() -> bool:
        events = await node.client.get("/api/v1/events", params={"topic": "board", "cursor": "earliest"})
        told[:] = [
            (each["type"], each["data"].get("thread_id", each["data"]["id"])) for each in events.json()["events"]
        ]
        return len([each for _, each in told if each == later]) == 3

    async with node.worker():
        await until(both_are_told)
    posts = ["thread.posted", "reply.added", "reply.added"]
    assert [kind for kind, each in told if each == thread] == posts
    assert [kind for kind, each in told if each == closed] == [*posts, "thread.closed"]


async def test_what_is_hidden_is_not_found_and_what_is_shown_again_is(node: NodeUnderTest, admin: Admin) -> None:
    thread = (await node.client.post(BOARD, json=QUESTION)).json()["id"]
    await node.client.post(f"{BOARD}/{thread}/replies", json={"body": "A zebra grazes in the meadow"})

    async def hits(query: str) -> list[Any]:
        asked = {"query": query, "threshold": 0.9}
        found = await node.client.post("/api/v1/board/search", json=asked)
        return [hit["thread_id"] for hit in found.json().get("hits", [])]

    async def found() -> bool:
        return await hits("zebra meadow") == [thread]

    async def not_found() -> bool:
        return await hits("zebra meadow") == []

    async with node.worker():
        await until(found)
        for target in (f"{thread}:1", thread):
            await admin("threads", "hide", target)
            await until(not_found)
            await admin("threads", "unhide", target)
            await until(found)


async def test_all_that_a_client_posted_is_removed(node: NodeUnderTest, admin: Admin) -> None:
    thread = await posted(node)
    async with node.client_at(OTHER) as client:
        other = (await client.post(BOARD, json=QUESTION)).json()["id"]
    await noted(node, 4)
    dry = (await admin("clients", "purge", OTHER, "--dry-run", "--json")).data
    assert {each["id"] for each in dry} == {other, f"{thread}:2"}, "in any order, since they may be of one millisecond"
    assert (await admin("clients", "purge", OTHER)).status == 0
    for dry_run in (["--dry-run"], []):
        again = (await admin("clients", "purge", OTHER, "--json", *dry_run)).data
        assert [each["outcome"] for each in again] == ["gone before", "gone before"]
    assert await shown(node, thread) == ([1], 1, 1)
    assert (await node.client.get(f"{BOARD}/{other}")).status_code == 404
    assert (await admin("threads", "unhide", f"{thread}:2")).status == 1, "a removed reply stays away"
    assert (await node.client.post(f"{BOARD}/{thread}/replies", json={"body": "One more"})).json()["seq"] == 3


@pytest.mark.parametrize(("kind", "path", "body"), [("threads", BOARD, QUESTION), ("tasks", TASKS, OFFER)])
async def test_a_repeated_request_whose_thing_was_removed_is_refused_as_documented(
    node: NodeUnderTest, admin: Admin, kind: str, path: str, body: Any
) -> None:
    async def sent() -> Any:
        return await node.client.post(path, json=body, headers={"idempotency-key": "a-key-of-some-length"})

    first = (await sent()).json()["id"]
    assert (await admin(kind, "purge", first)).status == 0
    again = await sent()
    assert again.status_code == 404
    operation = (await node.client.get("/openapi.json")).json()["paths"][path]["post"]
    assert str(again.status_code) in operation["responses"]


async def test_json_for_the_operator_moves_no_terminal(node: NodeUnderTest, admin: Admin) -> None:
    thread = await posted(node)
    await node.store.command("HSET", keys.thread(thread), "title", "a\x9b2Jb\u202ec")
    ran = await admin("threads", "list", "--json")
    assert ran.out.isascii()
    assert ran.data["threads"][0]["title"] == "a\x9b2Jb\u202ec"
