"""Lines of a session that a failover loses: readers who have seen them are told, although later lines have taken their
numbers.
"""

from node.sessions.store import LinePage, SessionStore
from node.store import StoreUnavailable, keys
from node.store.limits import Quota
from node.store.slots import slot_of
from tests.cluster.conftest import TIMEOUT
from tests.store.conftest import Opener
from tests.support.node_under_test import until
from tests.support.rates import Unlimited
from tests.support.servers import Cluster


async def test_the_epoch_tells_a_poller_that_lines_it_has_read_are_lost(
    mortal_cluster: Cluster, open_store: Opener
) -> None:
    sessions = [
        SessionStore(await open_store(mortal_cluster.url, timeout=TIMEOUT), 3600, 100, 10_000) for _ in range(2)
    ]
    opened = await sessions[0].create(Quota("session", "", ""), None, 600_000, {"epoch": "7c0e35b9"})
    primary = mortal_cluster.primary_of(slot_of(keys.session(opened.id)))
    replica = mortal_cluster.replica_of(primary)

    async def send(body: str) -> int:
        seq, _, _ = await sessions[0].send(Unlimited("198.51.100.1"), opened.id, None, len(body), ["body", body])
        return seq

    async def pages(since: int) -> list[LinePage]:
        return [page for each in sessions if (page := await each.poll(opened.id, since, 10))]

    async def taken_over() -> bool:
        try:
            return len(await pages(0)) == len(sessions)
        except StoreUnavailable:
            return False

    await send("kept")
    mortal_cluster.replica_of(primary)  # returns once the replica has caught up
    replica.pause()
    primary.do("CLIENT", "KILL", "TYPE", "replica")  # otherwise the next line would already be in the replica's socket
    assert await send("lost") == 2
    before, of_another_process = await pages(0)
    assert [line.body for line in before.lines] == ["kept", "lost"]
    assert of_another_process.epoch == before.epoch
    primary.kill()
    replica.resume()
    await until(taken_over)
    assert await send("new") == 2
    after, of_another_process = await pages(2)
    assert (after.lines, after.last_seq) == ([], 2)
    assert after.epoch == of_another_process.epoch != before.epoch
    again, _ = await pages(0)
    assert [line.body for line in again.lines] == ["kept", "new"]
    assert again.epoch == after.epoch
