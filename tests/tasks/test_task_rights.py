"""Who may act on a contract: public ids, tokens and signing keys (SPEC 5, DESIGN 8)."""

import json
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from node.store import keys
from tests.board.signed_posts import OTHER_KEY, send
from tests.sign.signing import PUBLIC
from tests.support.answers import json_of, refused
from tests.support.node_under_test import NodeUnderTest
from tests.tasks.calls import OFFER, TASKS, act, claimed, offered, signed, signed_request, told


def altered(token: str) -> str:
    """Return the token with another last character."""
    return token[:-1] + ("A" if token[-1] != "A" else "B")


@pytest.mark.parametrize("what", ["complete", "extend", "release"])
async def test_a_wrong_claim_token_is_refused(node: NodeUnderTest, what: str) -> None:
    task, other = await claimed(node), await claimed(node)
    attempt, request, mac = task["claim_token"].split(".")
    for token in (
        "",
        "x",
        "....",
        "x" * 300,
        "ü.ü.ü",
        altered(task["claim_token"]),
        other["claim_token"],
        f"2.{request}.{mac}",
        f"{attempt}.{request}.",
        task["publisher_token"],
    ):
        assert refused(await act(node, task, what, claim_token=token)) == (403, "task.token")
    assert refused(await act(node, await offered(node), what, claim_token=task["claim_token"])) == (403, "task.token")


@pytest.mark.parametrize("what", ["complete", "extend", "release"])
async def test_a_claim_token_is_needed(node: NodeUnderTest, what: str) -> None:
    response = await act(node, await claimed(node), what)
    assert response.json()["detail"][0]["loc"] == ["body", "claim_token"]


async def test_tokens_are_not_stored(node: NodeUnderTest) -> None:
    task = await claimed(node, idempotency_key="the key of the publisher")
    row: Any = await node.store.command("HGETALL", keys.task(task["id"]))
    stored = b" ".join(row)
    for secret in (task["claim_token"].split(".")[2], task["publisher_token"], "the key of the publisher"):
        assert secret.encode() not in stored


@pytest.mark.parametrize("started", [False, True])
async def test_the_publisher_cancels_with_its_token(node: NodeUnderTest, started: bool) -> None:
    task = await claimed(node, lease_seconds=60) if started else await offered(node)
    answers = [await act(node, task, "cancel", publisher_token=task["publisher_token"]) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert answers[0].json()["status"] == "canceled"
    assert answers[0].json() == answers[1].json() == (await node.client.get(f"{TASKS}/{task['id']}")).json()
    assert [event["type"] for event in await told(node.store, task["id"])].count("task.canceled") == 1
    assert await node.store.command("ZCARD", keys.leases_of(task["id"])) == 0


@pytest.mark.parametrize(
    ("what", "body", "status"),
    [
        ("accept", {}, "completed"),
        ("reject", {"reason": "Two pages, please."}, "in_progress"),
        ("retry", {}, "offered"),
        ("cancel", {}, "canceled"),
    ],
)
async def test_the_publisher_shows_its_token_as_bearer_as_well(
    node: NodeUnderTest, what: str, body: dict[str, Any], status: str
) -> None:
    """NETWORK 4 has no token in these bodies, and the token for the callbacks of the same contract is a Bearer
    token.
    """
    task = await claimed(node, review_seconds=600)
    if what == "retry":
        await act(node, task, "fail", claim_token=task["claim_token"], code="input.missing")
    elif what != "cancel":
        await act(node, task, "complete", claim_token=task["claim_token"], result_payload=1)

    async def shown(token: str) -> Any:
        headers = {"authorization": f"Bearer {token}"}
        return await node.client.post(f"{TASKS}/{task['id']}/{what}", json=body, headers=headers)

    for token in ("", "x", altered(task["publisher_token"]), task["claim_token"]):
        assert refused(await shown(token)) == (403, "task.publisher")
    assert json_of(await shown(task["publisher_token"]))["status"] == status


async def test_the_bearer_of_a_signed_request_may_be_somebody_elses(node: NodeUnderTest) -> None:
    task = json_of(await signed(node, TASKS, OFFER), 201)
    response = await signed(node, f"{TASKS}/{task['id']}/cancel", {}, authorization="Bearer of-a-gateway")
    assert json_of(response)["status"] == "canceled"


async def test_a_canceled_contract_is_over(node: NodeUnderTest) -> None:
    task = await claimed(node)
    await act(node, task, "cancel", publisher_token=task["publisher_token"])
    token = task["claim_token"]
    for response in (
        await act(node, task, "claim", assignee_id="late-agent"),
        await act(node, task, "transition", actor_id="summary-agent"),
        await act(node, task, "complete", claim_token=token),
        await act(node, task, "extend", claim_token=token),
        await act(node, task, "release", claim_token=token),
    ):
        assert refused(response) == (409, "task.state")


async def test_a_completed_contract_is_not_canceled(node: NodeUnderTest) -> None:
    task = await claimed(node)
    await act(node, task, "complete", claim_token=task["claim_token"])
    response = await act(node, task, "cancel", publisher_token=task["publisher_token"])
    assert refused(response) == (409, "task.state")


async def test_nobody_cancels_without_proof(node: NodeUnderTest) -> None:
    task, other = await claimed(node), await offered(node)
    url = f"{TASKS}/{task['id']}/cancel"
    for response in (
        await node.client.post(url),
        await node.client.post(url, json={}),
        await node.client.post(url, json={"publisher_token": ""}),
        await node.client.post(url, json={"publisher_token": altered(task["publisher_token"])}),
        await node.client.post(url, json={"publisher_token": other["publisher_token"]}),
        await node.client.post(url, json={"publisher_token": task["claim_token"]}),
        await signed(node, url, {}),
    ):
        assert refused(response) == (403, "task.publisher")
    assert (await node.client.get(f"{TASKS}/{task['id']}")).json()["status"] == "claimed"


async def test_a_bound_contract_asks_for_more_than_a_public_id(node: NodeUnderTest) -> None:
    task = await claimed(node, require_proof=True)
    assert task["require_proof"] is True
    for actor in ("report-desk", "summary-agent"):
        assert refused(await act(node, task, "transition", actor_id=actor)) == (403, "task.proof")


@pytest.mark.parametrize(("actor", "proof"), [("report-desk", "publisher_token"), ("summary-agent", "claim_token")])
async def test_who_moves_a_bound_contract_shows_the_token_of_the_role(
    node: NodeUnderTest, actor: str, proof: str
) -> None:
    task = await claimed(node, require_proof=True)
    move = {"actor_id": actor, proof: task[proof]}
    assert (await act(node, task, "transition", **move)).json()["status"] == "in_progress"


async def test_a_proof_counts_for_its_own_role_only(node: NodeUnderTest) -> None:
    task = await claimed(node, require_proof=True)
    for actor, proof in (("report-desk", "claim_token"), ("summary-agent", "publisher_token")):
        response = await act(node, task, "transition", actor_id=actor, **{proof: task[proof]})
        assert refused(response) == (403, "task.proof")


@pytest.mark.parametrize(("proof", "code"), [("claim_token", "task.token"), ("publisher_token", "task.proof")])
@pytest.mark.parametrize("bound", [False, True])
async def test_a_wrong_proof_is_never_taken_for_none(node: NodeUnderTest, proof: str, code: str, bound: bool) -> None:
    task = await claimed(node, require_proof=bound)
    move = {"actor_id": "summary-agent", proof: altered(task[proof])}
    assert refused(await act(node, task, "transition", **move)) == (403, code)


async def test_a_signed_offer_is_marked_and_bound(node: NodeUnderTest) -> None:
    task = json_of(await signed(node, TASKS, OFFER), 201)
    assert (task["is_signed"], task["require_proof"]) == (True, True)
    assert task["signature"]["key"] == PUBLIC.x
    (found,) = (await node.client.get(TASKS, params={"status": "offered"})).json()["tasks"]
    assert found["is_signed"] is True
    assert found["signature"] == task["signature"]


async def test_the_proof_of_an_offer_carries_its_terms_but_no_secret(node: NodeUnderTest) -> None:
    terms = {"skills": ["translation", "csv"], "deadline": "2100-01-01T00:00:00+00:00"}
    task = (await signed(node, TASKS, OFFER | terms)).json()
    body = json.loads(task["signature"]["signed_body"])
    assert set(body["skills"]) == set(task["skills"])
    assert datetime.fromisoformat(body["deadline"]) == datetime.fromisoformat(task["deadline"])
    hidden = (await signed(node, TASKS, OFFER | terms | {"idempotency_key": "a-long-secret-of-the-publisher"})).json()
    assert "signed_body" not in hidden["signature"]


async def test_who_reads_a_signed_offer_cannot_repeat_it_to_get_its_token(node: NodeUnderTest) -> None:
    secret = "a-long-secret-of-the-publisher"
    offer = signed_request(TASKS, OFFER, idempotency_key=secret)
    task = (await send(node, offer)).json()
    public = (await node.client.get(f"{TASKS}/{task['id']}")).text
    assert secret not in public
    assert offer.headers["signature"].partition("=:")[2].rstrip(":") not in public
    # The publisher itself can still get its answer again.
    again = await send(node, offer)
    assert (again.status_code, again.json()["publisher_token"]) == (201, task["publisher_token"])


async def test_the_signing_key_of_the_offer_is_the_publishers_proof(node: NodeUnderTest) -> None:
    task = (await signed(node, TASKS, OFFER)).json()
    await act(node, task, "claim", assignee_id="summary-agent")
    step, cancel = f"{TASKS}/{task['id']}/transition", f"{TASKS}/{task['id']}/cancel"
    move = {"actor_id": "report-desk"}
    assert refused(await node.client.post(step, json=move)) == (403, "task.proof")
    assert refused(await signed(node, step, move, OTHER_KEY)) == (403, "task.proof")
    assert refused(await signed(node, cancel, {}, OTHER_KEY)) == (403, "task.publisher")
    assert (await signed(node, step, move)).json()["status"] == "in_progress"
    assert (await signed(node, cancel, {})).json()["status"] == "canceled"


@pytest.mark.parametrize(("what", "status"), [("retry", "offered"), ("accept", "completed"), ("reject", "in_progress")])
async def test_the_signing_key_of_the_offer_judges_what_becomes_of_it(
    node: NodeUnderTest, what: str, status: str
) -> None:
    """Each signature counts once: an intercepted rejection cannot send a later result back."""

    async def end_attempt() -> None:
        claim = {"claim_token": task["claim_token"]}
        if what == "retry":
            task.update((await act(node, task, "claim", assignee_id="summary-agent")).json())
            await act(node, task, "fail", claim_token=task["claim_token"], code="it.broke")
        else:
            assert (await act(node, task, "complete", **claim, result_payload=1)).json()["status"] == "submitted"

    task = (await signed(node, TASKS, OFFER | {"review_seconds": 600})).json()
    task |= (await act(node, task, "claim", assignee_id="summary-agent")).json()
    if what == "retry":
        await act(node, task, "release", claim_token=task["claim_token"])
    await end_attempt()
    path, body = f"{TASKS}/{task['id']}/{what}", {"reason": "Two pages, please."} if what == "reject" else {}
    assert refused(await node.client.post(path, json=body)) == (403, "task.publisher")
    assert refused(await signed(node, path, body, OTHER_KEY)) == (403, "task.publisher")
    request = signed_request(path, body)
    for _ in range(2):  # the second one changes nothing
        assert (await send(node, request)).json()["status"] == status
    if what != "accept":
        await end_attempt()
        assert refused(await send(node, request)) == (409, "signature.replayed")


async def test_a_signed_transition_works_once(node: NodeUnderTest) -> None:
    task = (await signed(node, TASKS, OFFER)).json()
    await act(node, task, "claim", assignee_id="summary-agent")
    request = signed_request(f"{TASKS}/{task['id']}/transition", {"actor_id": "report-desk"})
    assert (await send(node, request)).json()["status"] == "in_progress"
    assert refused(await send(node, request)) == (409, "signature.replayed")


async def test_a_nonce_works_once_also_where_the_second_request_is_another(node: NodeUnderTest) -> None:
    task = (await signed(node, TASKS, OFFER)).json()
    await act(node, task, "claim", assignee_id="summary-agent")
    move = signed_request(f"{TASKS}/{task['id']}/transition", {"actor_id": "report-desk"}, nonce="once")
    cancel = signed_request(f"{TASKS}/{task['id']}/cancel", {}, nonce="once")
    assert (await send(node, move)).json()["status"] == "in_progress"
    assert refused(await send(node, cancel)) == (409, "signature.replayed")


async def test_a_signed_offer_works_once(node: NodeUnderTest) -> None:
    request = signed_request(TASKS, OFFER)
    assert (await send(node, request)).status_code == 201
    assert refused(await send(node, request)) == (409, "signature.replayed")


@pytest.mark.parametrize("first", ["k1", None])
async def test_a_captured_offer_is_not_multiplied_with_other_keys(node: NodeUnderTest, first: str | None) -> None:
    # The signature need not cover the Idempotency-Key, and each key has a partition of its own.
    request = signed_request(TASKS, OFFER)
    assert (await send(node, request, **({"idempotency_key": first} if first else {}))).status_code == 201
    for number in range(20):
        response = await send(node, request, idempotency_key=f"another {number}")
        assert refused(response) == (409, "signature.replayed")
    assert await node.store.command("ZCARD", keys.tasks_with("offered")) == 1


async def test_a_signed_claim_works_once(node: NodeUnderTest) -> None:
    task = await offered(node, lease_seconds=60)
    request = signed_request(f"{TASKS}/{task['id']}/claim", {"assignee_id": "summary-agent"})
    token = (await send(node, request)).json()["claim_token"]
    await act(node, task, "release", claim_token=token)
    assert refused(await send(node, request)) == (409, "signature.replayed")


async def test_a_signed_claim_is_good_for_its_contract_only(node: NodeUnderTest) -> None:
    first, second = await offered(node), await offered(node)
    claim = signed_request(f"{TASKS}/{first['id']}/claim", {"assignee_id": "summary-agent"})
    assert refused(await send(node, replace(claim, path=f"{TASKS}/{second['id']}/claim"))) == (400, "signature.invalid")
    assert (await send(node, claim)).json()["status"] == "claimed"


async def test_a_broken_signature_is_refused(node: NodeUnderTest) -> None:
    request = signed_request(TASKS, OFFER).with_header("content-digest", "sha-256=:AAAA:")
    response = await send(node, request)
    assert refused(response) == (400, "signature.invalid")
    assert "signature-error" in response.headers
