"""Every setting of a node, once: its name, type, default and meaning.

A setting is read from the environment as `RELAY_<NAME>`, or from relay.toml (`sources`); `relay-node config` prints
them, and docs/settings.md is made from this module (`node/describe/settings.py`).
"""

from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import quote, unquote, urlsplit

import msgspec

from node.config.values import AllowedOrigins, Limit, Networks, Proxies, Schedule

SECRETS = frozenset(("RELAY_SECRET", "RELAY_SIGNING_KEY", "RELAY_REDIS_URL", "RELAY_SEARCH_URL"))
"""Settings whose values are never shown (URLs may contain passwords). A file may hold each: `RELAY_SECRET_FILE`."""

PLAIN_IN_PATH = "/%:@!$&()*+="
"""Characters that a path may contain (RFC 3986 §3.3) and that need no quoting in headers and policies."""

_FULLER = "; once half of them are taken, the quota of each client address shrinks"


def says(meaning: str, least: float | None = None, most: float | None = None, *, unit: str = "") -> msgspec.Meta:
    """Return the meaning of a setting, its smallest and largest value, and its unit."""
    return msgspec.Meta(description=meaning, ge=least, le=most, extra={"unit": unit})


class Limits(msgspec.Struct, frozen=True):
    """Accepted requests per client address, by class (SPEC 8, DESIGN 6)."""

    relay: Annotated[Limit, says("relay messages (POST /api/v1/relay and /api/v1/wire/stream)")] = Limit(10, 60)
    feedback: Annotated[Limit, says("feedback (POST /api/v1/feedback)")] = Limit(1, 3600)
    board: Annotated[Limit, says("new board threads")] = Limit(10, 60)
    reply: Annotated[Limit, says("replies on the board, per client address and thread")] = Limit(30, 60)
    report: Annotated[Limit, says("reports about posts")] = Limit(10, 60)
    task: Annotated[Limit, says("new tasks")] = Limit(30, 60)
    claim: Annotated[
        Limit, says("task claims, except those that RELAY_LIMIT_LOST_CLAIM counts, and rejections of submitted results")
    ] = Limit(60, 60)
    lost_claim: Annotated[
        Limit, says("task claims refused because another worker was faster, or the task does not exist or is paused")
    ] = Limit(600, 60)
    result: Annotated[Limit, says("task results that the node refuses")] = Limit(60, 60)
    lease: Annotated[Limit, says("extensions of leases and releases of claims")] = Limit(600, 60)
    stream: Annotated[Limit, says("event streams, A2A task streams and MCP streams opened")] = Limit(60, 60)
    session: Annotated[Limit, says("new sessions")] = Limit(10, 60)
    line: Annotated[Limit, says("session lines, per client address and session")] = Limit(600, 60)
    artifact: Annotated[Limit, says("new artifacts")] = Limit(10, 60)
    inbox: Annotated[Limit, says("inboxes opened or renewed")] = Limit(10, 60)
    inbox_send: Annotated[Limit, says("messages to inboxes")] = Limit(60, 60)
    inbox_sender: Annotated[Limit, says("messages to any one inbox, per client address and inbox")] = Limit(30, 60)
    agent: Annotated[Limit, says("agents listed or renewed")] = Limit(10, 3600)
    message: Annotated[Limit, says("A2A message:send")] = Limit(60, 60)
    search: Annotated[Limit, says("searches of the board, of contracts and of agents")] = Limit(60, 60)
    search_characters: Annotated[Limit, says("characters that searches examine, charged after each search")] = Limit(
        25_000_000, 60
    )
    callback: Annotated[
        Limit,
        says("callbacks sent, cards fetched and agents probed, per receiving host, and per /24 or /64 of its address"),
    ] = Limit(60, 60)
    callback_client: Annotated[
        Limit,
        says(
            "callbacks sent, cards fetched and agents probed at URLs from one client address; not limited if "
            "RELAY_LIMIT_CALLBACK is 0"
        ),
    ] = Limit(300, 60)
    mcp: Annotated[Limit, says("MCP requests, except initialize, ping and server/discover")] = Limit(120, 60)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that all processes of a node share."""

    host: Annotated[str, says("address on which the web processes listen")] = "127.0.0.1"
    port: Annotated[int, says("port on which the web processes listen", 1, 65535)] = 8000
    base_url: Annotated[
        str, says("public URL of the node, used in links and in the agent card; empty = http://RELAY_HOST:RELAY_PORT")
    ] = ""
    workers: Annotated[int, says("number of web processes; 0 = one per core of the machine or container", 0, 1000)] = 0
    drain_seconds: Annotated[
        int,
        says(
            "how long GET /ready answers 503 before a stopping node closes its listening sockets, so that a load "
            "balancer can take it out; 0 = no load balancer, do not wait",
            0,
            300,
            unit="seconds",
        ),
    ] = 0
    node_id: Annotated[str, says("identifier of the node in acknowledgements, headers and metrics")] = "relay-node"
    data_dir: Annotated[Path, says("directory of the embedded Redis, artifacts, secret and signing key")] = Path("data")
    redis_url: Annotated[
        str, says("external Redis (redis://, rediss://, unix:// or redis+cluster://); empty = the embedded Redis")
    ] = ""
    search_url: Annotated[
        str,
        says(
            "URL of a separate Redis with the query engine, which then holds the search index; for a Redis Cluster "
            "whose own search is not cluster-wide"
        ),
    ] = ""
    redis_maxmemory: Annotated[
        int,
        says(
            "memory that the embedded Redis may use; 0 = half of the memory of its machine, container or systemd "
            "unit. If set, also the assumed limit of an external Redis that has no maxmemory",
            0,
            unit="bytes",
        ),
    ] = 0
    memory_alarm: Annotated[
        int,
        says(
            "share of Redis' memory in use from which new sessions, inboxes and threads are refused; as it fills up "
            "further, other writes are refused, too; 0 = never",
            0,
            99,
            unit="percent",
        ),
    ] = 80
    disk_reserve: Annotated[
        int,
        says(
            "free space on the disk of the embedded Redis below which new sessions, inboxes and threads are refused; "
            "as the disk fills up further, other writes are refused, too; 0 = never",
            0,
            unit="bytes",
        ),
    ] = 256 * 1024 * 1024
    max_sessions: Annotated[int, says(f"live sessions that the node may hold{_FULLER}; 0 = any number", 0)] = 100_000
    max_inboxes: Annotated[int, says(f"inboxes that the node may hold{_FULLER}; 0 = any number", 0)] = 100_000
    max_threads: Annotated[int, says(f"threads that the node may hold{_FULLER}; 0 = any number", 0)] = 10_000_000
    max_tasks: Annotated[int, says(f"work contracts that the node may hold{_FULLER}; 0 = any number", 0)] = 10_000_000
    client_sessions: Annotated[int, says("live sessions that one client address may have; 0 = any number", 0)] = 200
    client_inboxes: Annotated[int, says("inboxes that one client address may have; 0 = any number", 0)] = 200
    client_threads: Annotated[
        int, says("board threads that one client address may post in 24 hours; 0 = any number", 0)
    ] = 5000
    client_tasks: Annotated[
        int, says("work contracts that one client address may offer in 24 hours; 0 = any number", 0)
    ] = 10_000
    client_streams: Annotated[
        int,
        says(
            "event streams and A2A task streams that one client address may have open; fewer once half of those that "
            "a web process may hold are open; 0 = any number",
            0,
        ),
    ] = 10
    client_bytes: Annotated[
        int,
        says(
            "data that the node keeps for one client address in 24 hours, including the records around each body; 0 "
            "= any amount, whatever RELAY_CLIENT_SHARE is",
            0,
            unit="bytes",
        ),
    ] = 256 * 1024 * 1024
    client_share: Annotated[
        float,
        says(
            "share of Redis' free memory below RELAY_MEMORY_ALARM that one client address may fill in 24 hours, but "
            "at least 4 MiB; 0 = no such limit",
            0,
            100,
            unit="percent",
        ),
    ] = 2
    client_throughput: Annotated[
        int,
        says(
            "long-term average of the large bodies and answers (16 KiB or more) that one client address may move "
            "through one web process, in bursts of up to 16 seconds' worth. While other clients use the process, "
            "bursts of 2 seconds' worth are let through without a pause, and each request counts as 8 KiB as well. A "
            "byte of a request body or of the text on a page counts twice; a reply to a thread also counts as 16 KiB "
            "and eight times its size; a download counts as 512 KiB at most, an upload only if it fails. 0 = any "
            "number",
            0,
            unit="bytes a second",
        ),
    ] = 4 * 1024 * 1024
    durability: Annotated[
        Literal["always", "everysec", "replicated"],
        says(
            "what an acknowledgement means. always: the write is on disk; everysec: it will be on disk within a "
            "second; replicated: it is on disk, and writes are accepted only while a replica follows"
        ),
    ] = "always"
    max_in_flight: Annotated[int, says("Redis calls a web process may have under way; beyond that, 503", 1)] = 4096
    store_timeout: Annotated[
        float, says("how long a Redis call may take before it counts as failed", 0.01, unit="seconds")
    ] = 0.9
    max_waiting: Annotated[
        int, says("requests with wait= that one web process may keep waiting; further ones are answered at once", 0)
    ] = 8192
    secret: Annotated[
        str,
        says(
            "key from which capability tokens are derived, at least 32 random characters; empty = generated once and "
            "kept in RELAY_DATA_DIR"
        ),
    ] = ""
    signing_key: Annotated[
        str, says("the node's Ed25519 seed, base64 (whsk_…); empty = generated once and kept in RELAY_DATA_DIR")
    ] = ""
    trusted_proxies: Annotated[
        Proxies,
        says("addresses or networks of proxies that may name the client of a request; `unix` = peers on a Unix socket"),
    ] = Proxies()
    forwarded_header: Annotated[
        Literal["x-forwarded-for", "forwarded"],
        says("header in which a trusted proxy names the client; the other header is ignored"),
    ] = "x-forwarded-for"
    allowed_origins: Annotated[
        AllowedOrigins,
        says(
            "origins whose web pages may call the node, besides its own and those of this machine: `*`, `none`, or a "
            "comma-separated list. Default: `none` if the node listens on a loopback address and has neither trusted "
            "proxies nor another base URL, otherwise `*`. If set to `none` or a list, requests to a host name other "
            "than the node's own are refused"
        ),
    ] = AllowedOrigins(given=False)
    buffer_ttl: Annotated[int, says("how long a relay message with public=false can be read", 1, unit="seconds")] = 3600
    idempotency_ttl: Annotated[int, says("how long an Idempotency-Key is remembered", 1, unit="seconds")] = 86400
    session_max_lines: Annotated[int, says("lines that one session may hold", 1)] = 5000
    session_max_bytes: Annotated[int, says("line text that one session may hold", 1, unit="bytes")] = 2 * 1024 * 1024
    embedding_model: Annotated[
        str,
        says(
            "exported or sentence-transformers model, by path or name; empty = the bundled MiniLM; none = search by "
            "text only"
        ),
    ] = ""
    vector_index: Annotated[
        Literal["auto", "flat", "hnsw"],
        says("vector index of the search engine; auto = flat below 10,000 passages, then hnsw"),
    ] = "auto"
    blob_url: Annotated[
        str, says("where artifact bytes go: file:///… or s3://bucket (needs AWS_* variables); empty = RELAY_DATA_DIR")
    ] = ""
    blob_reserve: Annotated[int, says("space that artifacts leave free on the local disk", 0, unit="bytes")] = (
        256 * 1024 * 1024
    )
    artifact_max_bytes: Annotated[int, says("size of the largest artifact accepted", 1, unit="bytes")] = (
        100 * 1024 * 1024
    )
    artifact_client_bytes: Annotated[
        int,
        says(
            "artifacts that one client address may hold, in total; an IPv6 /48 may hold eight times as much. Less "
            "once half of RELAY_ARTIFACT_TOTAL_BYTES is taken",
            1,
            unit="bytes",
        ),
    ] = 1024**3
    client_artifacts: Annotated[
        int,
        says("artifacts that one client address may hold; an IPv6 /48 may hold eight times as many; 0 = any number", 0),
    ] = 10_000
    artifact_reserved_percent: Annotated[
        int,
        says(
            "share of the room left for artifacts that one client address may reserve before it uploads them; an "
            "IPv6 /48 may reserve four times as much",
            1,
            100,
            unit="percent",
        ),
    ] = 12
    artifact_total_bytes: Annotated[int, says("size of all artifacts the node may hold", 1, unit="bytes")] = (
        20 * 1024**3
    )
    # At least an hour: until then, an upload URL could bring back what was removed.
    artifact_ttl: Annotated[int, says("how long an available artifact is kept", 3600, unit="seconds")] = 7 * 86400
    task_hot_days: Annotated[
        float, says("how long a contract that is over is kept uncompressed; 0 = always", 0, unit="days")
    ] = 7
    task_retention_days: Annotated[
        float,
        says(
            "how long a contract is kept after it ended, or while it is on offer and nobody claims it; 0 = forever",
            0,
            unit="days",
        ),
    ] = 0
    thread_retention_days: Annotated[
        float, says("how long a board thread is kept without activity; 0 = forever", 0, unit="days")
    ] = 0
    relay_retention_days: Annotated[
        float,
        says("how long a thread made from a relay message is kept without activity; 0 = forever", 0, unit="days"),
    ] = 30
    # 0 (forever) is not allowed: a context would be a list that grows without end.
    message_retention_days: Annotated[float, says("how long an A2A message's task can be read", 0.01, unit="days")] = 30
    feedback_retention_days: Annotated[
        float, says("longest time that feedback is kept; 0 = limited by number only", 0, unit="days")
    ] = 365
    dead_callback_retention_days: Annotated[
        float, says("longest time that a callback given up is kept; 0 = limited by number only", 0, unit="days")
    ] = 30
    audit_retention_days: Annotated[
        float, says("longest time that an entry of the audit log is kept; 0 = limited by number only", 0, unit="days")
    ] = 365
    feed_events: Annotated[
        int, says("past events of the board, of contracts and of agents that followers can still read", 1000)
    ] = 100_000
    provenance_days: Annotated[
        float,
        says(
            "how long the operator can find out which address posted what, and how much it used; 0 = not at all",
            0,
            unit="days",
        ),
    ] = 7
    report_threshold: Annotated[
        int,
        says(
            "reports from different addresses or IPv6 /48s that hide a post until the operator decides; 0 = never",
            0,
            200,
        ),
    ] = 0
    callback_refused_networks: Annotated[
        Networks, says("networks that callbacks never reach, such as your own public ones or a NAT64 prefix")
    ] = Networks()
    callback_schedule: Annotated[
        Schedule,
        says("pauses before each further attempt at a callback, which is given up after the last one", unit="seconds"),
    ] = Schedule((5, 60, 300, 1800, 7200, 18000))
    callback_allow_private: Annotated[bool, says("let callbacks reach private addresses; for tests only")] = False
    admin_port: Annotated[int, says("port for metrics, health and the admin pages; 0 = off", 0, 65535)] = 0
    admin_host: Annotated[str, says("address of RELAY_ADMIN_PORT; let only your own machines reach it")] = "127.0.0.1"
    admin_names: Annotated[
        str,
        says("dotted host names that requests to RELAY_ADMIN_PORT may use, comma separated; other such names get 421"),
    ] = ""
    metrics_dir: Annotated[
        str, says("directory for the counts of one instance's processes; empty = a temporary one for each run")
    ] = ""
    trace_url: Annotated[
        str,
        says(
            "OTLP/HTTP collector of traces, such as http://localhost:4318; empty = OTEL_EXPORTER_OTLP_ENDPOINT, if set"
        ),
    ] = ""
    log: Annotated[Literal["debug", "info", "warning", "error"], says("least severe level that is logged")] = "info"
    limits: Limits = Limits()
    aws: dict[str, str] = {}
    """The AWS_* variables of the environment. No table shows them, since they contain credentials."""

    @property
    def public_url(self) -> str:
        """The node's public URL, without a trailing slash."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return self.base_url.rstrip("/") or f"http://{host}:{self.port}"

    @property
    def public_path(self) -> str:
        """The path of the public URL, without a trailing slash, quoted for HTML and headers; empty if there is none.

        A proxy strips this path before the request reaches the node, so every path that the node gives out must begin
        with it.
        """
        path = urlsplit(self.public_url).path.strip("/")
        return f"/{quote(path, safe=PLAIN_IN_PATH)}" if path else ""

    @property
    def blob_directory(self) -> Path | None:
        """The local directory for the bytes of artifacts; None if RELAY_BLOB_URL names a bucket.

        Raises ValueError if RELAY_BLOB_URL names neither a bucket nor a directory.
        """
        if self.blob_url.startswith("s3:"):
            return None
        if not self.blob_url:
            return self.data_dir / "blobs"
        url = urlsplit(self.blob_url)
        if url.scheme != "file" or url.netloc not in ("", "localhost") or len(url.path) < 2:
            raise ValueError(f"{self.blob_url!r} is neither file:///<absolute path> nor s3://<bucket>")
        return Path(unquote(url.path))
