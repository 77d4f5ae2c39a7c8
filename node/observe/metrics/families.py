"""Every metric of a node, once: its name, type, labels and meaning. docs/observability.md shows this table.

A label has few values, all known to the program: none is an address, an id, a path or a word from a client.
"""

from typing import Literal

import msgspec

Kind = Literal["counter", "gauge", "histogram"]
Role = Literal["web", "worker"]
"""The roles of processes that keep counts."""


class Family(msgspec.Struct, frozen=True):
    """One metric."""

    name: str
    kind: Kind
    meaning: str
    labels: tuple[str, ...] = ()
    merge: Literal["sum", "max"] = "sum"
    """How the values of several processes become one."""


_TABLE = (
    # Counted where requests are answered, artifacts change state and callbacks are sent.
    Family("relay_requests_total", "counter", "Answers, by operation", ("method", "route", "status")),
    Family(
        "relay_ack_seconds",
        "histogram",
        "Time from a request's headers to its acknowledgement: operations by POST, PUT and DELETE that succeeded and "
        "did not wait for news",
        ("method", "route"),
    ),
    Family("relay_refusals_total", "counter", "Operations that were refused or failed, by X-Error-Code", ("code",)),
    Family("relay_gate_verdicts_total", "counter", "Texts that the English gate judged", ("verdict",)),
    Family("relay_limits_total", "counter", "Places in limits that were taken or refused", ("limit", "outcome")),
    Family("relay_artifact_states_total", "counter", "Artifacts that entered a state", ("state",)),
    Family("relay_callbacks_total", "counter", "Attempts to deliver a callback, by how they ended", ("outcome",)),
    Family("relay_agent_checks_total", "counter", "Checks of agents in the directory, by how they ended", ("outcome",)),
    # Of each process.
    Family("relay_background_failures_total", "counter", "Failures of background tasks", ("task",)),
    Family("relay_store_calls_total", "counter", "Calls to Redis", ("role",)),
    Family("relay_store_batches_total", "counter", "Scripts that carried more than one call to Redis", ("role",)),
    Family("relay_store_reconnects_total", "counter", "Connections to Redis that were lost", ("role",)),
    Family("relay_store_in_flight", "gauge", "Calls to Redis under way", ("role",)),
    Family("relay_store_in_flight_limit", "gauge", "Calls to Redis under way beyond which requests get 503", ("role",)),
    Family("relay_held_requests", "gauge", "Requests that wait for news (wait=)"),
    Family("relay_followers", "gauge", "Clients that follow a topic, by a stream or a page that waits", ("topic",)),
    Family(
        "relay_event_loop_lag_seconds",
        "gauge",
        "How late a timer of the event loop fired, in the worst process",
        ("role",),
        "max",
    ),
    Family("relay_process_cpu_seconds_total", "counter", "Processor time", ("role",)),
    Family("relay_process_memory_bytes", "gauge", "Resident memory", ("role",)),
    Family("relay_process_starts_total", "counter", "Processes that were started", ("role",)),
    Family("relay_process_restarts_total", "counter", "Processes that replaced one that died", ("role",)),
    Family("relay_processes", "gauge", "Processes that are alive: heard of within 10 s", ("role",)),
    # Of the machine.
    Family(
        "relay_disk_free_bytes", "gauge", "Bytes free on the local disk of the embedded Redis or of artifacts", ("use",)
    ),
    Family("relay_disk_bytes", "gauge", "Size of the local disk of the embedded Redis or of artifacts", ("use",)),
    Family(
        "relay_disk_reserve_bytes",
        "gauge",
        "Free bytes below which writes or artifacts are refused: RELAY_DISK_RESERVE, RELAY_BLOB_RESERVE; 0 = never",
        ("use",),
    ),
    Family(
        "relay_certificate_seconds",
        "gauge",
        "Time until the certificate of RELAY_BASE_URL expires; 0: clients do not trust it; missing: not seen from here",
    ),
    # Of the whole node, from Redis: every instance shows the same.
    Family(
        "relay_store_up",
        "gauge",
        "Whether Redis answered this scrape; if not, the metrics of the whole node are missing",
    ),
    Family(
        "relay_build_info",
        "gauge",
        "1; the labels say what runs, and what acknowledged writes survive on the Redis in use",
        ("version", "node_id", "durability"),
        "max",
    ),
    Family(
        "relay_durability_kept", "gauge", "Whether Redis keeps what RELAY_DURABILITY promises, where Redis reports it"
    ),
    Family("relay_backup_age_seconds", "gauge", "Time since the last whole backup began; missing if none was made"),
    Family(
        "relay_clock_skew_seconds",
        "gauge",
        "Difference between this machine's clock and that of the primary that differs most",
    ),
    Family("relay_events_waiting", "gauge", "Events that a group has not read yet", ("group",)),
    Family("relay_events_unacknowledged", "gauge", "Events that a reader has, or had when it died", ("group",)),
    Family(
        "relay_events_oldest_seconds", "gauge", "Age of the oldest event that is waiting or unacknowledged", ("group",)
    ),
    Family("relay_search_queue", "gauge", "Posts and whole threads that are to be embedded and indexed", ("queue",)),
    Family("relay_search_by_meaning", "gauge", "Whether a worker embeds queries; if not, search is by text only"),
    Family("relay_callbacks_queued", "gauge", "Callbacks under way, including those that wait for another attempt"),
    Family(
        "relay_callbacks_overdue_seconds", "gauge", "How long the oldest callback that no worker has taken is overdue"
    ),
    Family("relay_callbacks_dead", "gauge", "Callbacks that were given up and are kept"),
    Family("relay_reports_waiting", "gauge", "Reported posts that the operator has not looked at"),
    Family("relay_threads", "gauge", "Threads of the board", ("state",)),
    Family("relay_tasks", "gauge", "Work contracts", ("state",)),
    Family("relay_agents", "gauge", "Agents in the directory, by what their last probes found", ("liveness",)),
    Family("relay_agent_checks_due", "gauge", "Agents whose check is due or under way"),
    Family("relay_agent_check_age_seconds", "gauge", "Time since the last check of an agent ended"),
    Family("relay_kept", "gauge", "What the node holds: live sessions and inboxes, threads, contracts", ("kind",)),
    Family(
        "relay_kept_limit",
        "gauge",
        "How many live sessions, inboxes, threads, contracts the node may hold; 0 = any number",
        ("kind",),
    ),
    Family("relay_artifacts", "gauge", "Artifacts that hold or reserve bytes"),
    Family("relay_artifact_bytes", "gauge", "Bytes that artifacts hold or reserve"),
    Family("relay_search_store_up", "gauge", "Whether the Redis of RELAY_SEARCH_URL answered; missing without one"),
    Family(
        "relay_search_memory_bytes",
        "gauge",
        "Memory used by the fullest primary of the Redis of RELAY_SEARCH_URL; missing without one",
    ),
    Family(
        "relay_search_memory_limit_bytes",
        "gauge",
        "maxmemory of the Redis of RELAY_SEARCH_URL; 0 = none; missing without one",
    ),
    Family("relay_redis_keys", "gauge", "Keys in Redis", ("primary",)),
    Family("relay_redis_memory_bytes", "gauge", "Memory that Redis uses", ("primary",)),
    Family(
        "relay_redis_memory_limit_bytes",
        "gauge",
        "maxmemory of Redis, or else RELAY_REDIS_MAXMEMORY; 0 = none",
        ("primary",),
    ),
)

FAMILIES = {family.name: family for family in _TABLE}
