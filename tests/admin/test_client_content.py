"""The operator finds what a client left in every feature, and removes all of it or one kind."""

from collections import Counter
from typing import Any

import httpx2
import pytest

from node.config import Limits
from node.observe.totals import totals
from node.tasks.store import TaskStore
from tests.admin.conftest import Admin
from tests.agents.calls import AGENTS, SUMMARISE, card_of, listed
from tests.artifacts.calls import ARTIFACTS, registered
from tests.board.signed_posts import BOARD, OFFER, QUESTION, TASKS, send, signed
from tests.inbox.calls import INBOXES, opened, path_of, read, receipt, send_signed, sent
from tests.inbox.calls import signed as signed_now
from tests.sign.signing import PUBLIC
from tests.support.node_under_test import NodeUnderTest, until
from tests.tasks.calls import UNKNOWN_ID

MINE, OTHER = "203.0.113.7", "198.51.100.20"
KINDS = ("board", "relay", "reply", "contract", "agent", "artifact", "session", "inbox", "inbox-message")


pytestmark = pytest.mark.settings(limits=Limits())


async def made(node: NodeUnderTest, client: httpx2.AsyncClient) -> dict[str, Any]:
    """Leave one of everything that a client can leave. It includes a message to the client's own inbox."""

    async def post(path: str, body: dict[str, Any], **headers: str) -> Any:
        response = await client.post(path, json=body, headers=headers)
        assert response.is_success, response.text
        return response.json()

    inbox = await post(INBOXES, {})
    agent = await post(AGENTS, {"card": card_of()}, authorization=f"Bearer {inbox['inbox_token']}")
    thread = await post(BOARD, QUESTION)
    return {
        "thread": thread,
        "reply": await post(f"{BOARD}/{thread['id']}/replies", {"body": "I can help you with that"}),
        "relayed": await post("/api/v1/relay", {"message": "Who can summarise a long report?"}),
        "contract": await post(TASKS, OFFER),
        "agent": agent,
        "artifact": await registered(node, client=client),
        "session": await post("/api/v1/sessions", {}),
        "inbox": inbox,
        "message": await sent(node, inbox, client),
    }


def paths(made: dict[str, Any]) -> list[str]:
    """Return the paths of those things that have one."""
    session = f"/api/v1/sessions/{made['session']['session_id']}/messages"
    named = {"thread": BOARD, "contract": TASKS, "agent": AGENTS}
    return [*(f"{path}/{made[name]['id']}" for name, path in named.items()), session, path_of(made["inbox"])]


async def statuses(node: NodeUnderTest, made: dict[str, Any]) -> set[int]:
    return {(await node.client.get(path)).status_code for path in paths(made)}


async def is_known(admin: Admin, named: str, count: int) -> None:
    """Wait until this many things are attributed to `named`. Needs a running worker."""

    async def known() -> bool:
        return len((await admin("clients", "posts", named, "--json")).data) == count

    await until(known)


async def test_all_that_a_client_left_is_found_and_removed_and_nothing_of_others(
    node: NodeUnderTest, admin: Admin
) -> None:
    async with node.client_at(OTHER) as client:
        others = await made(node, client)
        mine = await made(node, node.client)
        kept = await sent(node, others["inbox"], client)
        unwanted = await sent(node, others["inbox"])
    async with node.worker():
        await is_known(admin, MINE, len(KINDS) + 1)
        await is_known(admin, OTHER, len(KINDS) + 1)
    found = (await admin("clients", "posts", MINE, "--json")).data
    assert Counter(each["kind"] for each in found) == Counter([*KINDS, "inbox-message"])
    assert {each["client"] for each in found} == {MINE}
    dated = [each["at"] for each in found if each["kind"] != "session"]
    assert dated == sorted(dated, reverse=True)
    top = (await admin("clients", "top", "--by", "contracts", "--json")).data
    assert {(each["client"], each["posts"], each["contracts"]) for each in top} == {(MINE, 3, 1), (OTHER, 3, 1)}

    newest = (await admin("clients", "posts", MINE, "--limit", "2", "--json")).data
    assert newest == found[:2]
    before = await totals(node.store)

    dry = await admin("clients", "purge", MINE, "--dry-run", "--json")
    assert {each["outcome"] for each in dry.data} == {"dry run"}
    assert await statuses(node, mine) == {200}
    ran = await admin("clients", "purge", MINE, "--json")
    assert (ran.status, {each["outcome"] for each in ran.data} <= {"purged", "gone before"}) == (0, True)
    assert await statuses(node, mine) == {404}
    after = await totals(node.store)
    assert [(before[kind], after[kind]) for kind in ("session", "inbox")] == [(2, 1), (2, 1)], "places are given back"
    assert (await node.client.get(f"{ARTIFACTS}/{mine['artifact']['id']}")).json()["status"] == "rejected"
    relayed = mine["relayed"]["reference_id"]
    assert (await node.client.get(f"{BOARD}/{relayed}")).status_code == 404
    assert (await receipt(node, others["inbox"], unwanted))["status"] == "withdrawn"
    held = [each["id"] for each in (await read(node, others["inbox"]))["messages"]]
    assert held == [others["message"]["id"], kept["id"]]
    assert await statuses(node, others) == {200}
    assert (await node.client.get(f"{ARTIFACTS}/{others['artifact']['id']}")).json()["status"] == "registered"
    left = {each["id"]: each["removed"] for each in (await admin("clients", "posts", MINE, "--json")).data}
    assert set(left.values()) == {True}, left
    assert (await admin("clients", "posts", MINE)).out.count("removed") == len(left)
    theirs = (await admin("clients", "posts", OTHER, "--json")).data
    assert {each["removed"] for each in theirs} == {False}
    again = await admin("clients", "purge", MINE, "--json")
    assert (again.status, {each["outcome"] for each in again.data}) == (0, {"gone before"})


async def test_what_a_key_has_signed_is_found_by_the_key(node: NodeUnderTest, admin: Admin) -> None:
    desk = await opened(node)
    thread = (await send(node, signed(BOARD, QUESTION))).json()["id"]
    offer = (await send(node, signed(TASKS, OFFER))).json()["id"]
    assert (await send_signed(node, signed_now("POST", INBOXES, {}))).status_code == 201
    assert (await send_signed(node, signed_now("POST", AGENTS, {"card": card_of()}))).status_code == 202
    message = signed_now("POST", path_of(desk, "/messages"), {"body": "A message that nobody asked for"})
    assert (await send_signed(node, message)).status_code == 201
    async with node.worker():
        await is_known(admin, PUBLIC.thumbprint, 5)
    found = (await admin("clients", "posts", PUBLIC.thumbprint, "--json")).data
    kinds = {each["kind"]: each["id"] for each in found}
    assert set(kinds) == {"board", "contract", "inbox", "agent", "inbox-message"}
    assert (kinds["board"], kinds["contract"], kinds["inbox"]) == (thread, offer, PUBLIC.thumbprint)
    assert (await admin("clients", "purge", PUBLIC.thumbprint)).status == 0
    assert (await read(node, desk))["messages"] == []
    for name, path in (("board", BOARD), ("contract", TASKS), ("inbox", INBOXES), ("agent", AGENTS)):
        assert (await node.client.get(f"{path}/{kinds[name]}")).status_code == 404, name


async def test_one_kind_is_removed_and_a_network_is_told_what_is_not_found(node: NodeUnderTest, admin: Admin) -> None:
    mine = await made(node, node.client)
    async with node.worker():
        await is_known(admin, MINE, len(KINDS))
    network = "203.0.113.0/24"
    listed_kinds = {each["kind"] for each in (await admin("clients", "posts", network, "--json")).data}
    assert listed_kinds == set(KINDS) - {"inbox-message"}
    assert "single address" in (await admin("clients", "posts", network)).out
    assert "single address" in (await admin("clients", "posts", network, "--kind", "inbox-message")).out
    assert "single address" not in (await admin("clients", "posts", network, "--kind", "contract")).out
    assert "single address" not in (await admin("clients", "posts", MINE)).out
    ran = await admin("clients", "purge", network, "--kind", "contract", "--kind", "session", "--json")
    assert [(each["kind"], each["outcome"]) for each in ran.data] == [("contract", "purged"), ("session", "purged")]
    left = [(await node.client.get(path)).status_code for path in paths(mine)]
    assert left == [200, 404, 200, 404, 200]


async def test_a_claimed_contract_is_removed_and_its_worker_told(node: NodeUnderTest, admin: Admin) -> None:
    offer = (await node.client.post(TASKS, json=OFFER)).json()
    async with node.worker():
        await is_known(admin, MINE, 1)
    claim = (await node.client.post(f"{TASKS}/{offer['id']}/claim", json={"assignee_id": "alice"})).json()
    assert (await admin("clients", "purge", MINE)).status == 0
    done = {"claim_token": claim["claim_token"], "result_payload": 1}
    late = await node.client.post(f"{TASKS}/{offer['id']}/complete", json=done)
    assert (late.status_code, late.headers["x-error-code"]) == (404, "task.unknown")
    assert (await node.client.get(TASKS, params={"status": "claimed"})).json()["tasks"] == []
    assert (await node.client.get(f"{TASKS}/{UNKNOWN_ID}")).status_code == 404


async def test_who_renews_an_entry_that_is_there_is_not_taken_for_its_author(node: NodeUnderTest, admin: Admin) -> None:
    """Anybody may post the URL of anybody's agent. Removing everything that such a client left must not remove the
    agent.
    """
    inbox = await opened(node)
    agent = await listed(node, inbox, card_of("Report desk", SUMMARISE))
    async with node.client_at(OTHER) as client:
        assert (await client.post(AGENTS, json={"url": "https://agent.example/card.json"})).status_code == 202
    async with node.worker():
        await is_known(admin, OTHER, 1)
    (entry,) = (await admin("clients", "posts", OTHER, "--json")).data
    assert (entry["kind"], entry["id"] != agent["id"]) == ("agent", True)


async def test_a_contract_that_is_kept_compressed_is_not_taken_for_removed(node: NodeUnderTest, admin: Admin) -> None:
    offer = (await node.client.post(TASKS, json=OFFER)).json()
    await node.client.post(f"{TASKS}/{offer['id']}/cancel", json={"publisher_token": offer["publisher_token"]})
    async with node.worker():
        await is_known(admin, MINE, 1)
    assert await TaskStore(node.store, 60).compact([offer["id"]]) == 1
    (found,) = (await admin("clients", "posts", MINE, "--json")).data
    (dry,) = (await admin("clients", "purge", MINE, "--dry-run", "--json")).data
    assert (found["id"], found["removed"], dry["outcome"]) == (offer["id"], False, "dry run")
