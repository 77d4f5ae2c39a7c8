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

_FULLER = "; once half of them are there, an address may have fewer and fewer"


def says(meaning: str, least: float | None = None, most: float | None = None, *, unit: str = "") -> msgspec.Meta:
    """Return the meaning of a setting, its smallest and largest value, and its unit.

    Unit and meaning read as one phrase: `seconds` `a Redis call may take`.
    """
    return msgspec.Meta(description=meaning, ge=least, le=most, extra={"unit": unit})


class Limits(msgspec.Struct, frozen=True):
    """Accepted requests per client address, by class (SPEC 8, DESIGN 6)."""

    relay: Annotated[Limit, says("POST relay and wire/stream")] = Limit(10, 60)
    feedback: Annotated[Limit, says("POST feedback")] = Limit(1, 3600)
    board: Annotated[Limit, says("new board threads")] = Limit(10, 60)
    reply: Annotated[Limit, says("replies on the board, per client address and thread")] = Limit(30, 60)
    report: Annotated[Limit, says("reports about posts")] = Limit(10, 60)
    task: Annotated[Limit, says("new tasks")] = Limit(30, 60)
    claim: Annotated[
        Limit, says("task claims, except those that RELAY_LIMIT_LOST_CLAIM counts, and rejections of results")
    ] = Limit(60, 60)
    lost_claim: Annotated[
        Limit, says("task claims lost to another worker, or of tasks that do not exist or are paused")
    ] = Limit(600, 60)
    result: Annotated[Limit, says("results of tasks that are refused")] = Limit(60, 60)
    lease: Annotated[Limit, says("leases extended and claims released")] = Limit(600, 60)
    stream: Annotated[Limit, says("streams opened: of events, and of MCP")] = Limit(60, 60)
    session: Annotated[Limit, says("new sessions")] = Limit(10, 60)
    line: Annotated[Limit, says("session lines, per client address and session")] = Limit(600, 60)
    artifact: Annotated[Limit, says("new artifacts")] = Limit(10, 60)
    inbox: Annotated[Limit, says("inboxes opened or renewed")] = Limit(10, 60)
    inbox_send: Annotated[Limit, says("messages to inboxes")] = Limit(60, 60)
    inbox_sender: Annotated[Limit, says("messages to one inbox, per client address and inbox")] = Limit(30, 60)
    agent: Annotated[Limit, says("agents listed or renewed")] = Limit(10, 3600)
    message: Annotated[Limit, says("A2A message:send")] = Limit(60, 60)
    search: Annotated[Limit, says("searches of the board, of contracts and of agents")] = Limit(60, 60)
    search_characters: Annotated[Limit, says("characters that searches look at, counted after each search")] = Limit(
        25_000_000, 60
    )
    callback: Annotated[
        Limit,
        says("callbacks sent, cards fetched and agents probed, per host, and per /24 or /64 of its address"),
    ] = Limit(60, 60)
    callback_client: Annotated[
        Limit, says("the same for the URLs given by one client address; not limited if RELAY_LIMIT_CALLBACK is 0")
    ] = Limit(300, 60)
    mcp: Annotated[Limit, says("MCP requests but initialize, ping, server/discover")] = Limit(120, 60)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that all processes of a node share."""

    host: Annotated[str, says("address the web workers listen on")] = "127.0.0.1"
    port: Annotated[int, says("port the web workers listen on", 1, 65535)] = 8000
    base_url: Annotated[
        str, says("public address of the node, as in links and the agent card; default http://HOST:PORT")
    ] = ""
    workers: Annotated[int, says("web worker processes; 0 = one per core of the machine or container", 0)] = 0
    drain_seconds: Annotated[
        int,
        says(
            "for which GET /ready answers 503 before a stopping node closes its listening sockets; "
            "0 = there is no load balancer",
            0,
            300,
            unit="seconds",
        ),
    ] = 0
    node_id: Annotated[str, says("identifier of the node in acknowledgements")] = "relay-node"
    data_dir: Annotated[Path, says("embedded Redis, blobs, secret and signing key live here")] = Path("data")
    redis_url: Annotated[
        str, says("external Redis (redis://, rediss://, unix://, or redis+cluster://); empty = embedded")
    ] = ""
    search_url: Annotated[
        str, says("separate Redis with the query engine, for a cluster whose search is not cluster-wide")
    ] = ""
    redis_maxmemory: Annotated[
        int,
        says(
            "that the embedded Redis may use, 0 = half of the memory of its machine, container or unit; "
            "if set, also the assumed limit of an external Redis without maxmemory",
            0,
            unit="bytes",
        ),
    ] = 0
    memory_alarm: Annotated[
        int,
        says(
            "of Redis' memory; from there on new sessions, inboxes and threads are refused, and further writes as it "
            "fills up; 0 = never",
            0,
            99,
            unit="percent",
        ),
    ] = 80
    disk_reserve: Annotated[
        int,
        says(
            "of free space on the embedded Redis' disk; with less, new sessions, inboxes and threads are refused, and "
            "further writes as it fills up; 0 = never",
            0,
            unit="bytes",
        ),
    ] = 256 * 1024 * 1024
    max_sessions: Annotated[int, says(f"live sessions the node may hold{_FULLER}; 0 = any number", 0)] = 100_000
    max_inboxes: Annotated[int, says(f"inboxes the node may hold{_FULLER}; 0 = any number", 0)] = 100_000
    max_threads: Annotated[int, says(f"threads the node may hold{_FULLER}; 0 = any number", 0)] = 10_000_000
    max_tasks: Annotated[int, says(f"work contracts the node may hold{_FULLER}; 0 = any number", 0)] = 10_000_000
    client_sessions: Annotated[int, says("live sessions of one client address; 0 = any number", 0)] = 200
    client_inboxes: Annotated[int, says("inboxes of one client address; 0 = any number", 0)] = 200
    client_threads: Annotated[int, says("board threads one client address may post in 24 hours; 0 = any number", 0)] = (
        5000
    )
    client_tasks: Annotated[int, says("work contracts one client address may offer in 24 hours; 0 = any number", 0)] = (
        10_000
    )
    client_streams: Annotated[
        int,
        says(
            "streams of events one client address may have open, fewer once half of those that a process may hold are "
            "open; 0 = any number",
            0,
        ),
    ] = 10
    client_bytes: Annotated[
        int,
        says(
            "the node keeps for one client address in 24 hours, the records around them included; 0 = any number, "
            "whatever RELAY_CLIENT_SHARE is",
            0,
            unit="bytes",
        ),
    ] = 256 * 1024 * 1024
    client_share: Annotated[
        float,
        says(
            "of Redis' free memory below the alarm that one client address may fill in 24 hours; 0 = no such bound",
            0,
            100,
            unit="percent",
        ),
    ] = 2
    client_throughput: Annotated[
        int,
        says(
            "of large bodies and answers (from 16 KiB on) that one client address may move through one web process, "
            "in bursts of up to 16 seconds' worth, and 2 while others use the process, when each request counts as "
            "8 KiB as well. A byte of a body or of a page counts twice; "
            "a reply to a thread also counts as 16 KiB and eight times its size; a download counts as 512 KiB at most, "
            "an upload only if it fails; 0 = any number",
            0,
            unit="bytes a second",
        ),
    ] = 4 * 1024 * 1024
    durability: Annotated[
        Literal["always", "everysec", "replicated"],
        says(
            "what an acknowledgement means: on disk; on disk within a second; on disk, and only while a replica follows"
        ),
    ] = "always"
    max_in_flight: Annotated[int, says("Redis calls one web process may have under way; beyond it 503", 1)] = 4096
    store_timeout: Annotated[float, says("a Redis call may take before it counts as failed", 0.01, unit="seconds")] = (
        0.9
    )
    max_waiting: Annotated[
        int, says("requests with wait= that one web process may hold; further ones are answered at once", 0)
    ] = 8192
    secret: Annotated[
        str,
        says(
            "key that capability tokens derive from, 32 random characters or more; default: made once, kept in data_dir"
        ),
    ] = ""
    signing_key: Annotated[
        str, says("the node's ed25519 seed, base64 (whsk_…); default: made once, kept in data_dir")
    ] = ""
    trusted_proxies: Annotated[
        Proxies,
        says("addresses or networks of proxies, comma separated, or `unix`, that may name the client of a request"),
    ] = Proxies()
    forwarded_header: Annotated[
        Literal["x-forwarded-for", "forwarded"], says("header in which they name it; the other one is ignored")
    ] = "x-forwarded-for"
    allowed_origins: Annotated[
        AllowedOrigins,
        says(
            "origins whose pages may call the node, besides its own and those of this machine: *, none, or a list, "
            "comma separated; default *, but none on a loopback address with neither trusted proxies nor another "
            "base URL. With none or a list, the node answers to no other name than its own"
        ),
    ] = AllowedOrigins(given=False)
    buffer_ttl: Annotated[int, says("a public=false relay message can be read", 1, unit="seconds")] = 3600
    idempotency_ttl: Annotated[int, says("an Idempotency-Key is remembered", 1, unit="seconds")] = 86400
    session_max_lines: Annotated[int, says("lines one session may hold", 1)] = 5000
    session_max_bytes: Annotated[int, says("of line text one session may hold", 1, unit="bytes")] = 2 * 1024 * 1024
    embedding_model: Annotated[
        str,
        says("exported or sentence-transformers model, by path or name; empty = the bundled MiniLM; none = text only"),
    ] = ""
    vector_index: Annotated[
        Literal["auto", "flat", "hnsw"], says("vector index of the search engine; auto = flat below 10,000 passages")
    ] = "auto"
    blob_url: Annotated[
        str, says("where artifact bytes go: file:///… or s3://bucket (with the AWS_* variables); empty = data_dir")
    ] = ""
    blob_reserve: Annotated[int, says("of the local disk that artifacts leave free", 0, unit="bytes")] = (
        256 * 1024 * 1024
    )
    artifact_max_bytes: Annotated[int, says("largest artifact", 1, unit="bytes")] = 100 * 1024 * 1024
    artifact_client_bytes: Annotated[
        int,
        says(
            "of artifacts one client address may hold, an IPv6 /48 eight times as many; fewer and fewer once half of "
            "what the node may hold is taken",
            1,
            unit="bytes",
        ),
    ] = 1024**3
    client_artifacts: Annotated[
        int, says("artifacts one client address may hold, an IPv6 /48 eight times as many; 0 = any number", 0)
    ] = 10_000
    artifact_reserved_percent: Annotated[
        int,
        says(
            "of the room left for artifacts that those of one client address may reserve before they are uploaded; "
            "an IPv6 /48, four times as much",
            1,
            100,
            unit="percent",
        ),
    ] = 12
    artifact_total_bytes: Annotated[int, says("of artifacts the node may hold", 1, unit="bytes")] = 20 * 1024**3
    # At least an hour: until then, an upload URL could bring back what was removed.
    artifact_ttl: Annotated[int, says("an available artifact is kept", 3600, unit="seconds")] = 7 * 86400
    task_hot_days: Annotated[
        float, says("after which a contract that is over is kept compressed; 0 = never", 0, unit="days")
    ] = 7
    task_retention_days: Annotated[
        float,
        says(
            "after which a contract that is over, or was put on offer and taken by nobody since, is removed; 0 = never",
            0,
            unit="days",
        ),
    ] = 0
    thread_retention_days: Annotated[
        float, says("without activity after which a board thread is removed; 0 = never", 0, unit="days")
    ] = 0
    relay_retention_days: Annotated[
        float,
        says("without activity after which a thread made from a relay message is removed; 0 = never", 0, unit="days"),
    ] = 30
    # 0 (forever) is not allowed: a context would be a list that grows without end.
    message_retention_days: Annotated[float, says("an A2A message task can be read", 0.01, unit="days")] = 30
    feedback_retention_days: Annotated[
        float, says("feedback is kept, at most; 0 = limited by number only", 0, unit="days")
    ] = 365
    dead_callback_retention_days: Annotated[
        float, says("a callback that was given up is kept, at most; 0 = limited by number only", 0, unit="days")
    ] = 30
    audit_retention_days: Annotated[
        float, says("an audit entry is kept, at most; 0 = limited by number only", 0, unit="days")
    ] = 365
    feed_events: Annotated[
        int, says("events of the board, of contracts and of agents that can be read again", 1000)
    ] = 100_000
    provenance_days: Annotated[
        float,
        says("the operator can find which address posted what, and how much it used; 0 = not at all", 0, unit="days"),
    ] = 7
    report_threshold: Annotated[
        int,
        says("reports from different addresses that hide a post until the operator looks at it; 0 = never", 0, 200),
    ] = 0
    callback_refused_networks: Annotated[
        Networks, says("networks, comma separated, that callbacks never reach: your own public ones, a NAT64 prefix")
    ] = Networks()
    callback_schedule: Annotated[
        Schedule,
        says(
            "before the second and each further attempt at a callback, which is given up after the last", unit="seconds"
        ),
    ] = Schedule((5, 60, 300, 1800, 7200, 18000))
    callback_allow_private: Annotated[bool, says("let callbacks reach private addresses; tests only")] = False
    admin_port: Annotated[int, says("port for metrics, health and the operator's pages; 0 = off", 0, 65535)] = 0
    admin_host: Annotated[str, says("address of that port; let only your own machines reach it")] = "127.0.0.1"
    admin_names: Annotated[
        str,
        says("names with a dot in them that requests to that port may use, comma separated; other such names get 421"),
    ] = ""
    metrics_dir: Annotated[
        str, says("where the processes of one instance keep what they count; empty = a folder made for the run")
    ] = ""
    trace_url: Annotated[
        str,
        says("OTLP/HTTP collector of traces, http://localhost:4318; empty = OTEL_EXPORTER_OTLP_ENDPOINT, if set"),
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
            raise ValueError(f"{self.blob_url!r} is not file:///<absolute path>")
        return Path(unquote(url.path))
