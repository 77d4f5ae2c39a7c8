"""Claims whose answer is lost on the way: the winner asks again and is told (DESIGN 5)."""

import asyncio
from random import Random

from node.common.refusal import Refused
from node.store import OutcomeUnknown, Store, connect
from node.store.idempotency import bound_key
from node.tasks.model import Completion, NewClaim, NewTask
from node.tasks.service import Tasks
from node.tasks.store import TaskStore
from node.tasks.view import StoredTask
from tests.support.servers import RedisServer
from tests.tasks.calls import tasks_on

TASKS, CLAIMERS = 100, 20
LOST = 0.1  # of all answers


class Lossy(TaskStore):
    """Does what it is told, and does not always say so."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, 3600)
        self._chance = Random(1)
        self.lost = 0

    async def claim(self, task_id: str, assignee: str, request: str, replay_id: str) -> tuple[StoredTask, bool]:
        claimed = await super().claim(task_id, assignee, request, replay_id)
        if self._chance.random() < LOST:
            self.lost += 1
            raise OutcomeUnknown("no answer")
        return claimed


async def persist(tasks: Tasks, task_id: str, name: str) -> str | None:
    """The claim_token, or None for a worker that is told that another has won."""
    while True:
        try:
            wanted = bound_key("claim", name, "one key each", b"")
            return (await tasks.claim(task_id, NewClaim(name), None, wanted))[0].claim_token
        except OutcomeUnknown:
            continue
        except Refused as refusal:
            assert refusal.code == "task.claimed"
            return None


async def test_each_contract_has_one_winner_who_knows(empty_redis: RedisServer) -> None:
    async with await connect(empty_redis.url, timeout=10, max_in_flight=10_000) as store:
        lossy = Lossy(store)
        tasks = tasks_on(store, through=lossy)

        async def compete() -> None:
            task, _ = await tasks.create(NewTask("desk", "Count the panels"), None, None)
            names = [f"agent-{number}" for number in range(CLAIMERS)]
            tokens = await asyncio.gather(*(persist(tasks, task.id, name) for name in names))
            (winner,) = [(name, token) for name, token in zip(names, tokens, strict=True) if token]
            assert (await tasks.get(task.id)).assignee_id == winner[0]
            completed, _ = await tasks.complete(task.id, Completion(winner[1]))
            assert completed.valid

        await asyncio.gather(*(compete() for _ in range(TASKS)))
        assert lossy.lost > 0
