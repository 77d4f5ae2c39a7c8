"""Claims whose answer is lost on the way: the winner repeats its request and is told (DESIGN 5)."""

import asyncio

from node.common.refusal import Refused
from node.sign.signed import UNSIGNED
from node.store import OutcomeUnknown, connect
from node.store.idempotency import bound_key
from node.tasks.model import Completion, NewClaim, NewTask
from node.tasks.service import Tasks
from tests.support.servers import RedisServer
from tests.tasks.calls import tasks_on, uncharged
from tests.tasks.web_process import Lossy

TASKS, CLAIMERS = 100, 20


async def persist(tasks: Tasks, task_id: str, name: str) -> str | None:
    """Claim until there is an answer. Returns the claim_token, or None if another worker has won."""
    while True:
        try:
            wanted = bound_key("claim", name, "one key each", b"")
            return (await tasks.claim(task_id, NewClaim(name), UNSIGNED, wanted))[0].claim_token
        except OutcomeUnknown:
            continue
        except Refused as refusal:
            assert refusal.code == "task.claimed"
            return None


async def test_each_contract_has_one_winner_who_knows(empty_redis: RedisServer) -> None:
    async with await connect(empty_redis.url, timeout=10, max_in_flight=10_000) as store:
        tasks = tasks_on(store, through=Lossy(store))

        async def compete() -> None:
            task, _ = await tasks.create(NewTask("desk", "Count the panels"), UNSIGNED, None, "")
            names = [f"agent-{number}" for number in range(CLAIMERS)]
            tokens = await asyncio.gather(*(persist(tasks, task.id, name) for name in names))
            (winner,) = [(name, token) for name, token in zip(names, tokens, strict=True) if token]
            assert (await tasks.get(task.id)).assignee_id == winner[0]
            completed, _ = await tasks.complete(task.id, Completion(winner[1]), uncharged)
            assert completed.valid

        await asyncio.gather(*(compete() for _ in range(TASKS)))
