"""The cost of a client's operations: charged afterwards, and worked off at a constant rate."""

from typing import cast

from node.config import Limit
from node.share.site import SITE_SHARE, site_of
from node.store import Store, ids, keys
from node.store.steps import Key, step


@step
def work_spend(*, work: Key, site: Key, amount: int, limit: Limit, site_count: int) -> None:
    """Charge a client and its site for work that was done."""


class WorkStore:
    """Counts the work of clients, by kind.

    A client may owe up to the `count` of the limit, and its site SITE_SHARE times as much, before it has to wait. A
    full `count` is worked off in the `seconds` of the limit.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    async def spend(self, kind: str, client: str, amount: int, limit: Limit) -> float:
        """Charge `amount` (0: only ask), and return the seconds that the client has to wait now. Raises
        StoreUnavailable."""
        partition = ids.home_of(client)
        charge = work_spend(
            work=keys.work(partition, kind, client),
            site=keys.work(partition, kind, site_of(client)),
            amount=amount,
            limit=limit,
            site_count=limit.count * SITE_SHARE,
        )
        (wait_ms,) = cast("list[int]", await self._store.run(charge))
        return wait_ms / 1000
