"""Makes the retention rules from the settings. Composes functions of the features, and so knows their stores."""

from functools import partial

from node.board.moderation_store import REPORT_MS
from node.board.retention import remove_idle
from node.board.store import LISTS, BoardStore
from node.config import Settings
from node.retention.sweep import Retention, RetentionRule, Trim
from node.store import Store, ids, keys
from node.store.limits import DAY_MS
from node.tasks.model import OVER
from node.tasks.retention import compact_ended, remove_old
from node.tasks.store import TaskStore

UNCLAIMED_OR_OVER = ("offered", "failed", *OVER)


def retention_of(settings: Settings, store: Store) -> Retention:
    """Return the Retention of a node, with the rules of its settings."""
    threads = BoardStore(store, settings.idempotency_ttl)
    days_of = {"board": settings.thread_retention_days, "relay": settings.relay_retention_days}
    contracts = TaskStore(store, settings.idempotency_ttl)
    hot_days = settings.task_hot_days and max(
        # For that long, a repeated Idempotency-Key is answered from the uncompressed record.
        settings.task_hot_days,
        settings.idempotency_ttl * 1000 / DAY_MS,
    )
    kept_days = settings.task_retention_days
    removing, compacting = partial(remove_old, contracts), partial(compact_ended, contracts)
    rules = [
        *(
            RetentionRule("threads", listed, days, partial(remove_idle, threads, source))
            for listed in LISTS.values()
            for source, days in days_of.items()
        ),
        *(RetentionRule("compaction", keys.tasks_with(status), hot_days, compacting) for status in OVER),
        *(RetentionRule("tasks", keys.tasks_with(status), kept_days, removing) for status in UNCLAIMED_OR_OVER),
    ]
    partitions = range(ids.PARTITIONS)
    streams = [
        (keys.AUDIT, settings.audit_retention_days),
        *((keys.feedback(each), settings.feedback_retention_days) for each in partitions),
        *((keys.callbacks_dead(each), settings.dead_callback_retention_days) for each in partitions),
    ]
    sorted_sets = [
        *((keys.posters(each), settings.provenance_days) for each in partitions),  # 0 days: keep none
        *((keys.reports(each), REPORT_MS / DAY_MS) for each in partitions),
    ]
    trims = [
        *(Trim(key, days) for key, days in streams if days),  # 0 days: keep all
        *(Trim(key, days, sorted_set=True) for key, days in sorted_sets),
    ]
    return Retention(store, [rule for rule in rules if rule.days], trims)
