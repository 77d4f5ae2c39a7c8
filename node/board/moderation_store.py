"""Moderation in Redis: hiding, showing and removing posts, and the reports of clients."""

from collections.abc import Sequence
from typing import Literal

import msgspec

from node.share.site import site_of
from node.store import Store, ids, keys
from node.store.decoding import code_of, fields_of, scores_of
from node.store.limits import DAY_MS
from node.store.steps import Key, step

MAX_REPORTS = 200
"""Most reports that are kept about one post. Nobody reads more, and the operator sees the first at once."""

REPORT_MS = 90 * DAY_MS
"""TTL of the reports about a post, from the last one, in milliseconds."""

MAX_REPORTED_CHARACTERS = 4096
"""Most characters of a thread's list of its reported posts: about a thousand numbers. When the thread is removed, the
posts in the list leave the operator's queue; further ones stay in it for REPORT_MS."""

_REPORTER = b"by:"
"""Prefix of the fields of a record that hold one report each."""


class PostKeys(msgspec.Struct, frozen=True, gc=False):
    """Arguments of every step on a post: the keys and the id of its thread, and its number there."""

    thread: Key
    replies: Key
    events: Key
    thread_id: str
    seq: int
    """Number of the reply; 0 for the thread itself."""

    @classmethod
    def of(cls, thread_id: str, seq: int) -> "PostKeys":
        return cls(keys.thread(thread_id), keys.replies(thread_id), keys.events_of(thread_id), thread_id, seq)


@step
def post_moderate(*, post: PostKeys, reports: Key, action: str) -> None:
    """Hide, show or remove a post."""


@step
def report_add(
    *,
    post: PostKeys,
    report: Key,
    reports: Key,
    reporter: str,
    reason: str,
    threshold: int,
    most: int,
    ttl: int,
    most_characters: int,
) -> None:
    """Keep a client's report about a post."""


@step
def report_settle(*, post: PostKeys, report: Key, reports: Key, action: str) -> None:
    """Take a reported post off the queue."""


class StoredReports(msgspec.Struct, frozen=True):
    """The reports about one post; times in milliseconds since 1970."""

    thread_id: str
    seq: int
    """Number of the reply; 0 for the thread itself."""
    last_at: int
    waiting: int
    """Reports since the operator last looked."""
    has_hidden: bool
    """Whether the reports have hidden the post."""
    reasons: Sequence[tuple[int, str]]
    """Time and reason of each report, the oldest first."""


class ModerationStore:
    """Hides, shows and removes posts, and keeps reports. Every method raises StoreUnavailable."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def change(self, thread_id: str, seq: int, action: Literal["hide", "show", "purge"]) -> bool:
        """Hide or show a post, or remove a reply. Returns False if there is no such post."""
        moderating = post_moderate(post=PostKeys.of(thread_id, seq), reports=_queue(thread_id), action=action)
        return code_of(await self._store.run(moderating)) == "done"

    async def report(self, thread_id: str, seq: int, client: str, reason: str, threshold: int) -> str:
        """Keep a client's report about a post, once for its site: otherwise one /48 could hide any post.

        Returns `kept`; `known` if it was kept before or there are MAX_REPORTS; `unknown` if nobody can see such a post.
        """
        reporting = report_add(
            post=PostKeys.of(thread_id, seq),
            report=keys.report(thread_id, seq),
            reports=_queue(thread_id),
            reporter=ids.digest(site_of(client)),
            reason=reason,
            threshold=threshold,
            most=MAX_REPORTS,
            ttl=REPORT_MS,
            most_characters=MAX_REPORTED_CHARACTERS,
        )
        return code_of(await self._store.run(reporting))

    async def settle(self, thread_id: str, seq: int, action: Literal["hide", "dismiss"]) -> bool:
        """Take a post off the queue, and hide it or, if its reports have hidden it, show it again.

        Returns False if nobody has reported the post.
        """
        settling = report_settle(
            post=PostKeys.of(thread_id, seq),
            report=keys.report(thread_id, seq),
            reports=_queue(thread_id),
            action=action,
        )
        return code_of(await self._store.run(settling)) == "settled"

    async def waiting(self, limit: int) -> list[StoredReports]:
        """Return posts that the operator has not looked at since they were reported, those reported last first."""
        ends = ("+inf", "-inf", "WITHSCORES", "LIMIT", 0, limit)
        pages = await self._store.run_all(
            [("ZREVRANGEBYSCORE", keys.reports(each), *ends) for each in range(ids.PARTITIONS)]
        )
        found = [each for page in pages for each in scores_of(page)]
        newest = sorted(found, key=lambda each: -each[1])[:limit]
        posts = [ids.post_named(name) for name, _ in newest]
        records = await self._store.run_all([("HGETALL", keys.report(*post)) for post in posts])
        return [_reports(post, int(at), record) for post, (_, at), record in zip(posts, newest, records, strict=True)]

    async def reported(self, thread_id: str, seq: int) -> StoredReports | None:
        """Return the reports about one post, whether or not the operator has looked at them; None if there are none."""
        record = await self._store.command("HGETALL", keys.report(thread_id, seq))
        return _reports((thread_id, seq), 0, record) if record else None


def _reports(post: tuple[str, int], last_at: int, record: object) -> StoredReports:
    fields = fields_of(record)
    reasons = sorted(
        (int(at), reason.decode())
        for name, value in fields.items()
        if name.startswith(_REPORTER)
        for at, _, reason in [value.partition(b" ")]
    )
    return StoredReports(
        *post,
        last_at=last_at or (reasons[-1][0] if reasons else 0),
        waiting=int(fields.get(b"open", 0)),
        has_hidden=b"hid" in fields,
        reasons=reasons,
    )


def _queue(thread_id: str) -> Key:
    return keys.reports(ids.partition_of_id(thread_id))
