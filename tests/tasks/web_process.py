"""The parts of a web process that serve claim-next, and a store that loses answers."""

from typing import NamedTuple

from node.store import OutcomeUnknown, Store
from node.tasks.offers.claim_next import ClaimsOfAny
from node.tasks.offers.feed import OfferFeed
from node.tasks.offers.matching import OfferMatching
from node.tasks.service import Tasks
from node.tasks.store import TaskStore
from node.tasks.view import StoredTask
from tests.tasks.calls import search_on, tasks_on


class WebProcess(NamedTuple):
    """The services of one process, on its own connection."""

    tasks: Tasks
    claims: ClaimsOfAny
    matching: OfferMatching


def process_on(store: Store, through: TaskStore | None = None, feed: OfferFeed | None = None) -> WebProcess:
    """Return the services. `through` and `feed` replace the usual store of contracts and the usual reader of offers."""
    tasks, matching = tasks_on(store, through=through), OfferMatching(feed or OfferFeed(store))
    return WebProcess(tasks, ClaimsOfAny(store, tasks, matching, search_on(store, tasks), 3600), matching)


class Lossy(TaskStore):
    """A store in which every fifth claim succeeds without an answer."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, 3600)
        self._claims = 0

    async def claim(self, task_id: str, assignee: str, request: str, replay_id: str) -> tuple[StoredTask, bool]:
        claimed = await super().claim(task_id, assignee, request, replay_id)
        self._claims += 1
        if self._claims % 5 == 0:
            raise OutcomeUnknown("no answer")
        return claimed
