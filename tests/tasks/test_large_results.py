"""The parts of a contract that an answer omits are not fetched: a result may have a megabyte."""

import asyncio
import base64
import random
import threading
from collections.abc import Awaitable, Iterable
from typing import Any

import pytest

from node.store import RedisReply, Store, keys
from node.store.steps import Step
from node.store.store import Wanted
from node.tasks.compaction import pack, with_head
from node.tasks.model import TaskQuery
from node.tasks.store import COMPACTED_AT_ONCE, TaskStore
from node.web.throughput import Throughput
from tests.a2a.calls import A2A
from tests.sign.signing import KEY
from tests.support.answers import refused
from tests.support.node_under_test import NodeUnderTest
from tests.support.servers import WOKEN, RedisServer
from tests.tasks.calls import OFFER, TASKS, act, claimed, offered, signed, tasks_on

RESULT = base64.b64encode(random.Random(7).randbytes(675_000)).decode()  # 900 kB that hardly compress
SMALL, LARGE = 20_000, 600_000
"""Fewer bytes than SMALL are moved where no result is fetched, and more than LARGE where one is, compressed or not."""

WRONG = {"publisher_token": "wrong"}
HOLDING = {"claim_token": "1.0123456789abcdef0123456789abcdef.wrong"}
REFUSED = {
    "cancel": (WRONG, 403),
    "retry": (WRONG, 403),
    "accept": (WRONG, 403),
    "reject": (WRONG | {"reason": "Not enough."}, 403),
    "extend": (HOLDING, 403),
    "release": (HOLDING, 403),
    "fail": (HOLDING | {"code": "input.unreadable"}, 403),
    "complete": (HOLDING | {"result_payload": 1}, 403),
    "transition": ({"actor_id": "report-desk"} | HOLDING, 403),
}
FORMS = ("as it was", "compacted", "compacted before there were heads")


class Meter:
    """Counts the bytes that Redis has sent."""

    def __init__(self, server: RedisServer) -> None:
        self._server = server
        self._before = self.now()

    def now(self) -> int:
        return self._server.info("stats")["total_net_output_bytes"]

    @property
    def moved(self) -> int:
        """Bytes sent since this was last read, or since the beginning."""
        before, self._before = self._before, self.now()
        return self._before - before


async def finished(node: NodeUnderTest, form: str, **offer: Any) -> dict[str, Any]:
    """Return a completed contract with a large result, in one of the FORMS, with its tokens."""
    task = await claimed(node, **offer)
    done = await act(node, task, "complete", claim_token=task["claim_token"], result_payload=RESULT)
    assert done.status_code == 200, done.text
    if form != "as it was":
        assert await TaskStore(node.store, 60).compact([task["id"]]) == 1
    if form == "compacted before there were heads":
        await behead(node, task["id"])
    return task


async def behead(node: NodeUnderTest, task_id: str) -> None:
    """Make the string of a contract look as if an older version had written it."""
    packed: Any = await node.store.command("GET", keys.packed(task_id))
    assert packed.endswith(b"\xffhead\xff\xfe\xff")
    size = int.from_bytes(packed[-12:-8], "big") + 12
    await node.store.command("SET", keys.packed(task_id), packed[:-size])


@pytest.mark.parametrize("form", FORMS)
async def test_a_refusal_a_page_or_a_cancel_does_not_fetch_the_result(
    node: NodeUnderTest, empty_redis: RedisServer, form: str
) -> None:
    task = await finished(node, form)
    path, meter = f"{TASKS}/{task['id']}", Meter(empty_redis)
    if form == "compacted before there were heads":  # the first reader adds a head, once
        assert (await node.client.post(f"{path}/retry", json=WRONG)).status_code == 403
        assert meter.moved > LARGE
    for what, (body, status) in REFUSED.items():
        assert (await act(node, task, what, **body)).status_code == status, what
        assert meter.moved < SMALL, what
    # The publisher may do so, but is refused because the contract is completed.
    for what in ("retry", "accept", "cancel"):
        answer = await act(node, task, what, publisher_token=task["publisher_token"])
        assert refused(answer) == (409, "task.state")
        assert meter.moved < SMALL, what
    for body in ({}, {"metadata": {"publisherToken": "wrong"}}):
        answer = await node.client.post(f"{path}:cancel", json=body, headers=A2A)
        assert (answer.status_code, meter.moved < SMALL) == (400, True)
    page = await node.client.get(f"/tasks/{task['id']}")
    assert (page.status_code, meter.moved < SMALL) == (200, True)
    callbacks = await node.client.get(f"{path}/callbacks", headers={"authorization": "Bearer wrong"})
    assert (refused(callbacks), meter.moved < SMALL) == ((403, "task.publisher"), True)
    listed = await node.client.get(TASKS, params={"contextId": task["id"]}, headers=A2A)
    assert (len(listed.json()["tasks"]), meter.moved < SMALL) == (1, True)
    listed = await node.client.get(TASKS, params={"status": "completed"})
    assert (len(listed.json()["tasks"]), meter.moved < SMALL) == (1, True)
    assert (await node.client.get(path)).json()["result_payload"] == RESULT
    assert meter.moved > LARGE


@pytest.mark.parametrize("form", FORMS[:2])
async def test_who_follows_a_contract_fetches_the_result_only_with_an_event(
    node: NodeUnderTest, empty_redis: RedisServer, form: str
) -> None:
    task = await finished(node, form)
    meter = Meter(empty_redis)
    query = {"topic": f"task:{task['id']}"}
    for more in ({}, {"cursor": "earliest", "types": "task.canceled"}):
        page = await node.client.get("/api/v1/events", params=query | more)
        assert (page.json()["events"], meter.moved < SMALL) == ([], True)
    page = await node.client.get("/api/v1/events", params=query | {"cursor": "earliest"})
    assert page.json()["events"][-1]["data"]["result_payload"] == RESULT
    assert meter.moved > LARGE


@pytest.mark.parametrize("form", FORMS[:2])
async def test_a_signature_of_somebody_else_does_not_fetch_the_result(
    node: NodeUnderTest, empty_redis: RedisServer, form: str
) -> None:
    task = await finished(node, form)
    meter = Meter(empty_redis)
    for step in ("cancel", "retry", "accept"):
        answer = await signed(node, f"{TASKS}/{task['id']}/{step}", {}, KEY)
        assert refused(answer) == (403, "task.publisher")
        assert meter.moved < SMALL, step


@pytest.mark.parametrize("form", FORMS[:2])
async def test_what_shows_the_result_fetches_it(node: NodeUnderTest, empty_redis: RedisServer, form: str) -> None:
    task = await finished(node, form)
    meter = Meter(empty_redis)
    query = {"contextId": task["id"], "includeArtifacts": "true"}
    listed = (await node.client.get(TASKS, params=query, headers=A2A)).json()["tasks"]
    assert listed[0]["artifacts"][0]["parts"][0]["data"] == RESULT
    assert meter.moved > LARGE
    answer = await node.client.get(TASKS, params=query | {"status": "TASK_STATE_WORKING"}, headers=A2A)
    assert (answer.json()["tasks"], meter.moved < SMALL) == ([], True)
    again = await act(node, task, "complete", claim_token=task["claim_token"], result_payload=RESULT)
    assert again.json()["status"] == "completed"


async def test_a_step_that_shows_the_result_still_does(node: NodeUnderTest) -> None:
    task = await claimed(node, review_seconds=600)
    await act(node, task, "complete", claim_token=task["claim_token"], result_payload=RESULT)
    for _ in range(2):
        accepted = await act(node, task, "accept", publisher_token=task["publisher_token"])
        assert accepted.json()["result_payload"] == RESULT


async def test_who_waits_reads_the_result_only_to_show_it(node: NodeUnderTest, empty_redis: RedisServer) -> None:
    """Changes of other kinds, such as the end of a lease, wake the reader as well."""
    task = await claimed(node, review_seconds=600)
    await act(node, task, "complete", claim_token=task["claim_token"], result_payload=RESULT)
    meter = Meter(empty_redis)
    async with asyncio.timeout(WOKEN):
        waiting = asyncio.create_task(
            node.client.get(f"{TASKS}/{task['id']}", params={"wait": 30, "status": "submitted"})
        )
        await node.listened_to(keys.task(task["id"]))
        for _ in range(20):
            await node.store.command("SPUBLISH", keys.task(task["id"]), "noise", key=keys.task(task["id"]))
        await act(node, task, "accept", publisher_token=task["publisher_token"])
        assert (await waiting).json()["status"] == "completed"
    assert meter.moved < 3 * len(RESULT)  # once for the publisher, once for the reader


async def test_an_offer_that_comes_again_does_not_fetch_the_result(
    node: NodeUnderTest, empty_redis: RedisServer
) -> None:
    headers = {"idempotency-key": "k" * 32}
    first = await node.client.post(TASKS, json=OFFER, headers=headers)
    claim = (await act(node, first.json(), "claim", assignee_id="agent")).json()
    await act(node, first.json(), "complete", claim_token=claim["claim_token"], result_payload=RESULT)
    meter = Meter(empty_redis)
    again = await node.client.post(TASKS, json=OFFER, headers=headers)
    assert (again.json(), meter.moved < SMALL) == (first.json(), True)


async def test_a_message_is_not_fetched_by_who_looks_for_a_contract(
    node: NodeUnderTest, empty_redis: RedisServer
) -> None:
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "Hello from an agent."}]}
    sent = await node.client.post(
        "/api/v1/message:send", json={"message": message | {"metadata": {"notes": RESULT}}}, headers=A2A
    )
    task = {"id": sent.json()["task"]["id"]}
    meter = Meter(empty_redis)
    for what, (body, _) in REFUSED.items():
        assert refused(await act(node, task, what, **body)) == (404, "task.unknown")
        assert meter.moved < SMALL, what
    for path in (f"/tasks/{task['id']}", f"{TASKS}/{task['id']}/callbacks"):
        assert (await node.client.get(path)).status_code == 404
        assert meter.moved < SMALL, path
    answer = await node.client.get(f"{TASKS}/{task['id']}", params={"historyLength": 0})
    assert (answer.json()["id"], meter.moved < SMALL) == (task["id"], True)
    shown = await node.client.get(f"{TASKS}/{task['id']}")
    assert shown.json()["history"][0]["metadata"]["notes"] == RESULT


async def test_a_result_that_is_only_compared_counts_against_its_client(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same JSON with other spaces: the answer is small, and so is the body, but what was read is large."""
    task = await claimed(node)
    wide = f'{{"claim_token": "{task["claim_token"]}", "result_payload": [{" " * 900_000}]}}'
    path, json = f"{TASKS}/{task['id']}/complete", {"content-type": "application/json"}
    assert (await node.client.post(path, content=wide, headers=json)).status_code == 200
    counted: list[int] = []

    def count(_: Throughput, client: str, size: int, weight: int = 1) -> None:
        counted.append(size)

    monkeypatch.setattr(Throughput, "add", count)
    again = await act(node, task, "complete", claim_token=task["claim_token"], result_payload=[])
    assert again.status_code == 200
    assert max(counted) > 900_000


async def test_compacted_contracts_with_large_results_read_as_before(node: NodeUnderTest) -> None:
    """However large the fields shown in lists are."""
    schema = {"type": "string", "description": "x" * 12_000}
    for description in ("", "long words " * 1800):
        task = await finished(node, "as it was", description=description, result_schema=schema)
        whole: list[Any] = []
        record: list[Any] = []
        page: list[str] = []
        for _ in range(2):
            whole.append((await node.client.get(f"{TASKS}/{task['id']}")).json())
            record.append((await node.client.get(TASKS, params={"status": "completed"})).json())
            page.append((await node.client.get(f"/tasks/{task['id']}")).text)
            await TaskStore(node.store, 60).compact([task["id"]])
        assert await node.store.command("EXISTS", keys.packed(task["id"])) == 1
        assert (whole[0], record[0], page[0]) == (whole[1], record[1], page[1])


async def test_results_are_deflated_beside_the_event_loop_a_few_at_a_time(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise compacting a hundred results of a megabyte of numbers would block the worker for half a minute."""
    threads: list[threading.Thread] = []
    held: list[int] = []
    run_all = Store.run_all

    def packing(fields: dict[bytes, bytes]) -> bytes:
        threads.append(threading.current_thread())
        return pack(fields)

    def reading(store: Store, many: Iterable[Wanted]) -> Awaitable[list[RedisReply]]:
        wanted = list(many)
        if reads := [each for each in wanted if not isinstance(each, Step) and each[0] == "HGETALL"]:
            held.append(len(reads))
        return run_all(store, wanted)

    monkeypatch.setattr("node.tasks.store.pack", packing)
    tasks = [(await finished(node, "as it was"))["id"] for _ in range(COMPACTED_AT_ONCE + 1)]
    monkeypatch.setattr(Store, "run_all", reading)
    assert await TaskStore(node.store, 60).compact(tasks) == len(tasks)
    assert held == [COMPACTED_AT_ONCE, 1]
    assert len(threads) == len(tasks)
    assert threading.current_thread() not in threads


async def test_a_head_is_not_put_where_a_contract_was_removed(
    node: NodeUnderTest, empty_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody may remove the contract between the reading of an old string and the writing of its head."""
    task = await finished(node, FORMS[2])

    def removing(packed: bytes) -> bytes | None:
        assert empty_redis.do("DEL", keys.packed(task["id"])) == 1
        return with_head(packed)

    monkeypatch.setattr("node.tasks.packed.with_head", removing)
    assert (await act(node, task, "retry", **WRONG)).status_code == 403
    assert await node.store.command("EXISTS", keys.packed(task["id"])) == 0


async def test_what_lists_a_contract_or_waits_for_it_does_not_fetch_its_attempts(
    node: NodeUnderTest, empty_redis: RedisServer
) -> None:
    task = await claimed(node, max_attempts=10, description="long words " * 1800)
    why = {"code": "it.broke", "message": "ü" * 2000}
    for _ in range(9):
        await act(node, task, "fail", claim_token=task["claim_token"], **why)
        task |= (await act(node, task, "claim", assignee_id="agent")).json()
    tasks, meter = tasks_on(node.store), Meter(empty_redis)
    await tasks.project(task["id"])
    assert meter.moved < 15_000, "nor its description"  # of 20 kB; a cluster also sends its slots
    page = (await node.client.get(TASKS, params={"status": "claimed"})).json()
    assert ([each["id"] for each in page["tasks"]], meter.moved < 50_000) == ([task["id"]], True)
    async with asyncio.timeout(WOKEN):
        waiting = asyncio.create_task(tasks.get(task["id"], TaskQuery(30, "claimed")))
        await node.listened_to(keys.task(task["id"]))
        for _ in range(20):
            await node.store.command("SPUBLISH", keys.task(task["id"]), "noise", key=keys.task(task["id"]))
        await act(node, task, "transition", actor_id="agent")
        attempts = (await waiting).attempts
    assert ([each.attempt for each in attempts or ()], meter.moved < 200_000) == (list(range(1, 10)), True)


async def test_a_list_fetches_the_text_of_a_contract_with_conditions_once(
    node: NodeUnderTest, empty_redis: RedisServer
) -> None:
    """The text must not come twice, with what all contracts have and again with what time may have changed."""
    pages = "How many panels are on these forty photographs of roofs? " * 300
    for _ in range(5):
        await offered(node, description=pages, skills=["counting"], lease_seconds=60)
    meter = Meter(empty_redis)
    found = (await node.client.get(TASKS, params={"status": "offered"})).json()["tasks"]
    assert [(task["description"], task["skills"]) for task in found] == [(pages, ["counting"])] * 5
    assert meter.moved < 1.5 * len(pages) * len(found)


async def test_who_goes_on_in_the_list_of_offers_does_not_fetch_those_that_are_taken(
    node: NodeUnderTest, empty_redis: RedisServer
) -> None:
    taken = [await claimed(node, description="long words " * 1800) for _ in range(10)]
    meter = Meter(empty_redis)
    for since in ("0-0", "~".join(("9-9", *(task["id"] for task in taken)))):
        page = (await node.client.get(TASKS, params={"status": "offered", "since": since})).json()
        assert (page["tasks"], meter.moved < SMALL) == ([], True)
