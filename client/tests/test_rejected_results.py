"""A worker continues with a contract whose result the publisher has rejected."""

import asyncio
from typing import cast

import pytest
from tests.support.nodes import NodeProcess
from tests.support.servers import PATIENCE, eventually

from relay_client import AsyncRelay
from relay_client.claims import Submitted
from relay_client.steps import Answer, Send
from relay_client.tasks import ClaimedTask, OfferedTask, Task
from relay_client.transport import AsyncHttpxTransport
from relay_client.worker import worker

TITLE = "Count the apples in this picture"
REVIEW = 600  # seconds


async def submitted_by(relay: AsyncRelay, publisher: str, follow: Submitted) -> tuple[OfferedTask, ClaimedTask]:
    """Offer and claim a contract, submit its result, and let `follow` follow it."""
    offered = await relay.tasks.offer(publisher, TITLE, review_seconds=REVIEW, lease_seconds=60)
    claimed = await relay.tasks.claim(offered["id"], "counter")
    await relay.tasks.complete(claimed["id"], claimed["claim_token"], 3)
    follow.follow(claimed)
    return offered, claimed


async def until_renewed(relay: AsyncRelay, task: Task) -> None:
    """Return once the lease of a contract ends later than in this record of it."""
    before = task["lease_expires_at"] or ""
    async with asyncio.timeout(PATIENCE):
        while ((await relay.tasks.get(task["id"]))["lease_expires_at"] or "") <= before:
            continue


@pytest.mark.parametrize("is_plain", [True, False], ids=["plain", "async"])
async def test_a_worker_goes_on_until_its_result_is_accepted(
    served: NodeProcess, monkeypatch: pytest.MonkeyPatch, is_plain: bool
) -> None:
    monkeypatch.setattr("relay_client.worker.CLAIM_WAIT", 0.2)

    def count(task: ClaimedTask) -> str:
        return f"after: {task.get('rejection')}"

    async def count_beside_others(task: ClaimedTask) -> str:
        return count(task)

    publisher = f"reviews {is_plain}"
    work = worker(name="counter", publisher_ids=[publisher])(count if is_plain else count_beside_others)
    results: list[object] = []
    async with AsyncRelay(served.url) as relay:
        serving = asyncio.create_task(work.serve(relay))
        offered = await relay.tasks.offer(publisher, TITLE, review_seconds=REVIEW, lease_seconds=60)
        for reason in ("Count them all.", "Count the green ones, too."):
            task = await relay.tasks.result(offered["id"], until=["submitted"], within=PATIENCE)
            results.append(task.get("result_payload"))
            await relay.tasks.reject(offered["id"], reason, offered["publisher_token"])
        task = await relay.tasks.result(offered["id"], until=["submitted"], within=PATIENCE)
        results.append(task.get("result_payload"))
        await relay.tasks.accept(offered["id"], offered["publisher_token"])
        work.stop()
        await asyncio.wait_for(serving, PATIENCE)
    assert results == ["after: None", "after: Count them all.", "after: Count the green ones, too."]
    assert task["attempt"] == 1


async def test_a_claim_that_waits_for_its_worker_is_renewed_and_released_at_the_end(
    served: NodeProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relay_client.claims.RENEWALS", 600)
    async with AsyncRelay(served.url) as relay:
        submitted = Submitted(relay)
        offered, claimed = await submitted_by(relay, "stops", submitted)
        rejected = await relay.tasks.reject(offered["id"], "Count them all.", offered["publisher_token"])
        await eventually(lambda: submitted.has_rejected)
        await until_renewed(relay, rejected)
        await submitted.end()
        assert (await relay.tasks.get(claimed["id"]))["status"] == "offered"
        assert submitted.next_rejected() is None


async def test_the_oldest_of_many_is_followed_no_longer(served: NodeProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relay_client.claims.FOLLOWED", 2)
    async with AsyncRelay(served.url) as relay:
        submitted = Submitted(relay)
        contracts = [await submitted_by(relay, "many", submitted) for _ in range(3)]
        for offered, _ in contracts:
            await relay.tasks.reject(offered["id"], "Count them all.", offered["publisher_token"])
        gone_on_with: list[str] = []
        for _ in range(2):
            await eventually(lambda: submitted.has_rejected)
            if task := submitted.next_rejected():
                gone_on_with.append(task["id"])
        await submitted.end()
    assert sorted(gone_on_with) == sorted(claimed["id"] for _, claimed in contracts[1:])


async def test_of_a_rejected_contract_the_lease_is_renewed_however_many_are_followed(
    served: NodeProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relay_client.claims.FOLLOWED", 1)
    monkeypatch.setattr("relay_client.claims.RENEWALS", 600)
    async with AsyncRelay(served.url) as relay:
        submitted = Submitted(relay)
        offered, claimed = await submitted_by(relay, "rejects one", submitted)
        await relay.tasks.reject(offered["id"], "Count them all.", offered["publisher_token"])
        await eventually(lambda: submitted.has_rejected)
        await submitted_by(relay, "rejects one", submitted)
        await until_renewed(relay, await relay.tasks.get(claimed["id"]))
        await submitted.end()


async def test_a_contract_that_is_over_or_gone_is_followed_no_longer(served: NodeProcess) -> None:
    async with AsyncRelay(served.url) as relay:
        submitted = Submitted(relay)
        offered, claimed = await submitted_by(relay, "accepts", submitted)
        submitted.follow({**claimed, "id": "no-such-contract"})
        await relay.tasks.accept(offered["id"], offered["publisher_token"])
        await eventually(lambda: not submitted.follows)
        assert not submitted.has_rejected


async def test_a_rejected_contract_whose_claim_is_lost_is_not_gone_on_with(
    served: NodeProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relay_client.claims.RENEWALS", 600)
    async with AsyncRelay(served.url) as relay:
        submitted = Submitted(relay)
        offered, claimed = await submitted_by(relay, "loses", submitted)
        await relay.tasks.reject(offered["id"], "Count them all.", offered["publisher_token"])
        await eventually(lambda: submitted.has_rejected)
        await relay.tasks.release(claimed["id"], claimed["claim_token"])
        await eventually(lambda: not submitted.has_rejected)


class ClaimedByAnother(AsyncHttpxTransport):
    """A transport that always answers that the contract is in its second attempt."""

    async def send(self, request: Send) -> Answer:
        return Answer(200, {}, b'{"id":"1","status":"in_progress","attempt":2,"lease_seconds":null}')


async def test_a_contract_that_another_worker_has_claimed_since_is_not_gone_on_with() -> None:
    claimed = cast("ClaimedTask", {"id": "1", "claim_token": "token", "attempt": 1})
    async with AsyncRelay("http://node.example", transport=ClaimedByAnother()) as relay:
        submitted = Submitted(relay)
        submitted.follow(claimed)
        await eventually(lambda: not submitted.follows)
        assert not submitted.has_rejected
