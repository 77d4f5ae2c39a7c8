"""Steps on keys in a slot that moves key by key are done as a whole there, too.

The server that a slot leaves refuses every command of a step whose key it does not have, or no longer has. A step that
emptied a key and then touched it again would be cut off in the middle, and its earlier writes would stay.
"""

from collections.abc import Generator
from contextlib import contextmanager

from node.agents.entry import posting_fields
from node.agents.findings import CheckResult
from node.agents.store import AgentStore
from node.callbacks.owners import publisher_of
from node.callbacks.target_check import TargetCheck
from node.common.tokens import Tokens
from node.config import Settings
from node.inbox.message_store import InboxMessageStore
from node.inbox.model import InboxPageQuery, InboxProof, NewInbox, NewInboxMessage
from node.inbox.receipt_store import ReceiptStore
from node.inbox.service import Inboxes
from node.inbox.store import InboxStore
from node.sign.signed import UNSIGNED
from node.store import Store, ids, keys
from node.store.clock import now_ms
from node.store.limits import LimitStore
from node.store.slots import slot_of
from node.tasks.model import Completion, NewClaim, NewTask, Rejection
from tests.cluster.test_moving_slots import other_than
from tests.inbox.calls import ADDRESS
from tests.support.node_under_test import SECRET
from tests.support.rates import Unlimited
from tests.support.servers import Cluster
from tests.tasks.calls import let_end, tasks_on, told, uncharged

OWNER = InboxProof(signer=ADDRESS)


@contextmanager
def moving(cluster: Cluster, key: str) -> Generator[None]:
    """While the block runs, the key's slot is moving to another server, but all its keys are still at the first one."""
    slot = slot_of(key)
    target = other_than(cluster, cluster.primary_of(slot))
    cluster.begin_move(slot, target)
    yield
    cluster.move_keys(slot, target)
    cluster.end_move(slot, target)


def inboxes_on(store: Store) -> Inboxes:
    settings, limits = Settings(secret=SECRET, base_url="http://node.example"), LimitStore(store)
    stored, receipts = InboxStore(store, limits, 60), ReceiptStore(store)
    messages = InboxMessageStore(store, stored, receipts, 60)
    return Inboxes(stored, messages, receipts, settings, Tokens(SECRET), TargetCheck(settings, limits.is_known))


async def test_a_message_that_is_read_stays_until_it_is_settled(cluster: Cluster, store: Store) -> None:
    inboxes = inboxes_on(store)
    await inboxes.open("203.0.113.9", "", NewInbox(), OWNER, None)
    message = NewInboxMessage(body="Hello", expires_in=3600)
    sent, _ = await inboxes.send(Unlimited("203.0.113.1"), ADDRESS, message, InboxProof(), None)
    followed = keys.inbox_push_ends(ids.partition_of(ADDRESS))  # as for a message to another inbox of the partition
    await store.command("ZADD", followed, await now_ms(store, followed) + 3_600_000, "another 1")
    with moving(cluster, keys.inbox(ADDRESS)):
        for _ in range(2):
            page = await inboxes.read(ADDRESS, InboxPageQuery(), OWNER)
            assert [each.id for each in page.messages] == [sent.id]
    assert (await inboxes.settle_through(ADDRESS, sent.seq, OWNER)).settled == 1


async def test_a_rejection_is_told_and_the_next_end_of_the_lease_is_planned(cluster: Cluster, store: Store) -> None:
    tasks = tasks_on(store)
    new = NewTask("desk", "Count the panels", lease_seconds=3600, review_seconds=3600)
    task, _ = await tasks.create(new, UNSIGNED, None, "")
    claim, _ = await tasks.claim(task.id, NewClaim("agent"), UNSIGNED, None)
    await tasks.complete(task.id, Completion(claim.claim_token), uncharged)
    leases = keys.leases_of(task.id)
    assert await store.command("ZCARD", leases) == 1
    with moving(cluster, leases):
        await tasks.reject(task.id, Rejection(task.publisher_token, reason="The figures are missing."), UNSIGNED, None)
        assert (await told(store, task.id))[-1]["type"] == "task.rejected"
        ends = await store.command("HGET", keys.task(task.id), "lease_expires_at")
        assert ends == await store.command("ZSCORE", leases, task.id)


async def test_a_claim_is_told_although_the_lease_before_it_has_just_ended(cluster: Cluster, store: Store) -> None:
    tasks = tasks_on(store)
    task, _ = await tasks.create(NewTask("desk", "Count the panels", lease_seconds=3600), UNSIGNED, None, "")
    await tasks.claim(task.id, NewClaim("agent"), UNSIGNED, None)
    leases = keys.leases_of(task.id)
    assert await store.command("ZCARD", leases) == 1
    await let_end(store, task.id)
    with moving(cluster, leases):
        await tasks.claim(task.id, NewClaim("another"), UNSIGNED, None)
        assert [each["type"] for each in await told(store, task.id)][-2:] == ["task.expired", "task.claimed"]
        ends = await store.command("HGET", keys.task(task.id), "lease_expires_at")
        assert ends == await store.command("ZSCORE", leases, task.id)


async def test_an_agent_that_is_not_listed_says_why(cluster: Cluster, store: Store) -> None:
    entries, host = AgentStore(store, 60), "agents.example"
    agent_id = ids.new_id(ids.partition_of(host))
    fields = posting_fields(f"https://{host}/", host, publisher_of("203.0.113.1"))
    await entries.submit(host, fields, agent_id=agent_id, client="203.0.113.1", idempotency=None)
    (posted,) = await entries.read([agent_id])
    assert posted is not None
    with moving(cluster, keys.agent(agent_id)):
        found = CheckResult("there is no card", fields=posted.of_posting)
        assert await entries.settle(posted, found, 3_600_000) == "rejected"
        (settled,) = await entries.read([agent_id])
        assert settled is not None
        assert (settled.status, settled.reason, settled.posted_url) == ("rejected", found.reason, posted.posted_url)
