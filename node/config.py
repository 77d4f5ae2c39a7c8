"""Every setting of a node, once: its name, type, default and meaning.

A setting is read from the environment as `RELAY_<NAME>`; `relay-node config` prints the table
that README shows. Nothing else in the program reads the environment.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec

PREFIX = "RELAY_"
AWS_PREFIX = "AWS_"
TRACE_URL = "OTEL_EXPORTER_OTLP_ENDPOINT"  # as every program that makes traces knows it
MAX_PAUSE = 86400.0  # seconds between two attempts at the same callback

# What Kubernetes puts into the environment of every container of a namespace, for a Service whose name begins with
# `relay` there. `enableServiceLinks: false` keeps it out.
_SERVICE_LINK = re.compile(r"\w+_SERVICE_(?:HOST|PORT(?:_\w+)?)|\w+_PORT_\d+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?")
_SERVICE_ADDRESS = re.compile(r"(?:tcp|udp|sctp)://")

_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^\s/?#@,]+")
"""A scheme, a host and perhaps a port (RFC 6454 §6.2)."""


class Limit(msgspec.Struct, frozen=True):
    """At most `count` accepted requests in any `seconds`; a count of 0 means no limit."""

    count: int
    seconds: int

    @property
    def milliseconds(self) -> int:
        """The window, as scripts take it."""
        return self.seconds * 1000

    @classmethod
    def parse(cls, text: str) -> "Limit":
        """Read `<count>/<seconds>`, or `0` for none. Raises ValueError."""
        if text.strip() == "0":
            return cls(0, 1)
        count, slash, seconds = text.partition("/")
        limit = cls(int(count), int(seconds)) if slash else cls(0, 0)
        if limit.count < 1 or limit.seconds < 1:
            raise ValueError(f"{text!r} is not <count>/<seconds>, such as 10/60, or 0 for none")
        return limit

    def __str__(self) -> str:
        return f"{self.count}/{self.seconds}" if self.count else "0"


class Schedule(msgspec.Struct, frozen=True):
    """Pauses before each further attempt, in seconds; there is one attempt more than pauses."""

    seconds: tuple[float, ...]

    @classmethod
    def parse(cls, text: str) -> "Schedule":
        """Read `5,60,300`. Raises ValueError."""
        schedule = cls(tuple(float(pause) for pause in text.split(",")))
        if not all(0 < pause <= MAX_PAUSE for pause in schedule.seconds):
            raise ValueError(f"{text!r} are not pauses of at most {MAX_PAUSE:g} seconds each, such as 5,60,300")
        return schedule

    def __str__(self) -> str:
        return ",".join(f"{pause:g}" for pause in self.seconds)


class AllowedOrigins(msgspec.Struct, frozen=True):
    """Pages of which other origins may call the node from a browser."""

    listed: tuple[str, ...] = ()
    everyone: bool = False
    given: bool = True
    """Whether an operator said so; else it depends on who can reach the node."""

    @classmethod
    def parse(cls, text: str) -> "AllowedOrigins":
        """Read `*`, `none`, or `https://app.example,https://other.example:8443`. Raises ValueError."""
        if text == "*":
            return cls(everyone=True)
        listed = () if text == "none" else tuple(origin.strip().lower() for origin in text.split(","))
        for origin in listed:
            if not _ORIGIN.fullmatch(origin):
                raise ValueError(f"{origin!r} is no origin, such as https://app.example; write those, or * or none")
        return cls(listed)

    def __str__(self) -> str:
        return "*" if self.everyone else ",".join(self.listed) or ("none" if self.given else "")


def says(meaning: str, least: float | None = None, most: float | None = None) -> msgspec.Meta:
    """What a setting means, and the smallest and largest value it may have."""
    return msgspec.Meta(description=meaning, ge=least, le=most)


class Limits(msgspec.Struct, frozen=True):
    """Accepted requests per client address, by class (SPEC 8, DESIGN 6)."""

    relay: Annotated[Limit, says("POST relay and wire/stream")] = Limit(10, 60)
    feedback: Annotated[Limit, says("POST feedback")] = Limit(1, 3600)
    board: Annotated[Limit, says("new board threads")] = Limit(10, 60)
    reply: Annotated[Limit, says("replies on the board, per client address and thread")] = Limit(30, 60)
    task: Annotated[Limit, says("new tasks")] = Limit(30, 60)
    claim: Annotated[Limit, says("task claims")] = Limit(60, 60)
    session: Annotated[Limit, says("new sessions")] = Limit(10, 60)
    line: Annotated[Limit, says("session lines, per client address and session")] = Limit(600, 60)
    artifact: Annotated[Limit, says("new artifacts")] = Limit(10, 60)
    message: Annotated[Limit, says("A2A message:send")] = Limit(60, 60)
    search: Annotated[Limit, says("board searches")] = Limit(60, 60)
    search_characters: Annotated[Limit, says("characters that board searches look at, counted when they are over")] = (
        Limit(25_000_000, 60)
    )
    callback: Annotated[
        Limit, says("callbacks sent, per receiving host, and per /24 or /64 that its address is in")
    ] = Limit(60, 60)
    callback_client: Annotated[
        Limit, says("attempts at callbacks to URLs that one client address gave; none if RELAY_LIMIT_CALLBACK is 0")
    ] = Limit(300, 60)
    mcp: Annotated[Limit, says("MCP requests")] = Limit(120, 60)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """One value for all processes of a node."""

    host: Annotated[str, says("address the web workers listen on")] = "127.0.0.1"
    port: Annotated[int, says("port the web workers listen on", 1, 65535)] = 8000
    base_url: Annotated[
        str, says("public address of the node, as in links and the agent card; default http://<host>:<port>")
    ] = ""
    workers: Annotated[int, says("web worker processes; 0 = one per core", 0)] = 0
    drain_seconds: Annotated[
        int, says("seconds GET /ready says 503 before a stopping node listens no more; 0 = no load balancer", 0, 300)
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
            "bytes the embedded Redis may use, 0 = half of the machine's; of an external one without maxmemory, too", 0
        ),
    ] = 0
    memory_alarm: Annotated[
        int,
        says(
            "percent of Redis' memory from which new sessions and threads are refused, other writes later; 0 = never",
            0,
            99,
        ),
    ] = 80
    max_sessions: Annotated[int, says("live sessions the node may hold; 0 = any number", 0)] = 100_000
    max_threads: Annotated[int, says("threads the node may hold; 0 = any number", 0)] = 10_000_000
    max_tasks: Annotated[int, says("work contracts the node may hold; 0 = any number", 0)] = 10_000_000
    client_sessions: Annotated[int, says("live sessions of one client address; 0 = any number", 0)] = 200
    client_threads: Annotated[int, says("board threads one client address may post in 24 hours; 0 = any number", 0)] = (
        5000
    )
    client_tasks: Annotated[int, says("work contracts one client address may offer in 24 hours; 0 = any number", 0)] = (
        10_000
    )
    client_bytes: Annotated[
        int, says("bytes one client address may have kept in 24 hours, records around them included; 0 = any number", 0)
    ] = 256 * 1024 * 1024
    client_share: Annotated[
        float,
        says("percent of Redis' free memory below the alarm that it may fill in that time; 0 = no such bound", 0, 100),
    ] = 2
    client_throughput: Annotated[
        int,
        says(
            "bytes a second that one client address may move through one web process in large answers, 16 seconds' "
            "worth at once; bodies count twice; 0 = any number",
            0,
        ),
    ] = 4 * 1024 * 1024
    durability: Annotated[
        Literal["always", "everysec", "replicated"],
        says(
            "what an acknowledgement means: on disk; on disk within a second; on disk, and only while a replica follows"
        ),
    ] = "always"
    max_in_flight: Annotated[int, says("Redis calls one web process may have under way; beyond it 503", 1)] = 4096
    store_timeout: Annotated[float, says("seconds a Redis call may take before it counts as failed", 0.01)] = 0.9
    max_waiting: Annotated[
        int, says("requests one web process may hold for wait=; beyond it they answer at once", 0)
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
        str, says("addresses or networks, comma separated, or `unix`, that are believed about who their client is")
    ] = ""
    forwarded_header: Annotated[
        Literal["x-forwarded-for", "forwarded"], says("the header in which they say it; the other one is not read")
    ] = "x-forwarded-for"
    allowed_origins: Annotated[
        AllowedOrigins,
        says(
            "whose pages may call beside its own and this machine's: *, none, or origins, comma separated; "
            "default *, but none on a loopback address without trusted proxies and another base URL"
        ),
    ] = AllowedOrigins(given=False)
    buffer_ttl: Annotated[int, says("seconds a public=false relay message can be read", 1)] = 3600
    idempotency_ttl: Annotated[int, says("seconds an Idempotency-Key is remembered", 1)] = 86400
    session_max_lines: Annotated[int, says("lines one session may hold", 1)] = 5000
    session_max_bytes: Annotated[int, says("bytes of line text one session may hold", 1)] = 2 * 1024 * 1024
    embedding_model: Annotated[
        str, says("exported or sentence-transformers model, by path or name; empty = the bundled MiniLM")
    ] = ""
    vector_index: Annotated[
        Literal["auto", "flat", "hnsw"], says("vector index of the search engine; auto = flat below 20,000 threads")
    ] = "auto"
    blob_url: Annotated[
        str, says("where artifact bytes go: file:///… or s3://bucket (with the AWS_* variables); empty = data_dir")
    ] = ""
    blob_reserve: Annotated[int, says("bytes of the local disk that artifacts leave free", 0)] = 256 * 1024 * 1024
    artifact_max_bytes: Annotated[int, says("largest artifact, in bytes", 1)] = 100 * 1024 * 1024
    artifact_client_bytes: Annotated[
        int, says("bytes of artifacts one client address may hold; an IPv6 /48, eight times as many", 1)
    ] = 1024**3
    client_artifacts: Annotated[
        int, says("artifacts one client address may hold, an IPv6 /48 eight times as many; 0 = any number", 0)
    ] = 10_000
    artifact_reserved_percent: Annotated[
        int,
        says(
            "percent of the room left for artifacts that one client address may have registered and not uploaded; "
            "an IPv6 /48, four times as many",
            1,
            100,
        ),
    ] = 12
    artifact_total_bytes: Annotated[int, says("bytes of artifacts the node may hold", 1)] = 20 * 1024**3
    # At least an hour: before that, an upload URL could still bring back what was removed.
    artifact_ttl: Annotated[int, says("seconds an available artifact is kept", 3600)] = 7 * 86400
    task_hot_days: Annotated[
        float, says("days after which a contract that is over is kept compressed; 0 = never", 0)
    ] = 7
    task_retention_days: Annotated[
        float, says("days after which a contract that is over, or that nobody took, is removed; 0 = kept for ever", 0)
    ] = 0
    thread_retention_days: Annotated[
        float, says("days without activity after which a board thread is removed; 0 = kept for ever", 0)
    ] = 0
    relay_retention_days: Annotated[
        float, says("days without activity after which a thread that a relay message became is removed; 0 = never", 0)
    ] = 30
    # A context without an end would be a list without one.
    message_retention_days: Annotated[float, says("days an A2A message task can be read", 0.01)] = 30
    feedback_retention_days: Annotated[float, says("days feedback is kept, at most; 0 = by number only", 0)] = 365
    dead_callback_retention_days: Annotated[
        float, says("days a callback that was given up is kept, at most; 0 = by number only", 0)
    ] = 30
    audit_retention_days: Annotated[float, says("days an audit entry is kept, at most; 0 = by number only", 0)] = 365
    callback_refused_networks: Annotated[
        str, says("networks, comma separated, that callbacks never reach: your own public ones, a NAT64 prefix")
    ] = ""
    callback_schedule: Annotated[
        Schedule, says("seconds before the second and each further attempt at a callback; then it is a dead letter")
    ] = Schedule((5, 60, 300, 1800, 7200, 18000))
    callback_allow_private: Annotated[bool, says("let callbacks reach private addresses; tests only")] = False
    admin_port: Annotated[int, says("port for /metrics, /live and /ready; 0 = off", 0, 65535)] = 0
    admin_host: Annotated[str, says("that port's address; keep it where only your own machines reach it")] = "127.0.0.1"
    admin_names: Annotated[
        str,
        says("names with a dot in them under which that port is asked, comma separated; other names get 421"),
    ] = ""
    metrics_dir: Annotated[
        str, says("where the processes of one instance keep what they count; empty = a folder made for the run")
    ] = ""
    trace_url: Annotated[
        str,
        says("OTLP/HTTP collector of traces, http://localhost:4318; empty = OTEL_EXPORTER_OTLP_ENDPOINT, if set"),
    ] = ""
    log: Annotated[Literal["debug", "info", "warning", "error"], says("least severe log line written")] = "info"
    limits: Limits = Limits()
    aws: dict[str, str] = {}
    """The AWS_* variables of the environment: credentials, so no table shows them."""

    @property
    def public_url(self) -> str:
        """The node's own address without a trailing slash."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return self.base_url.rstrip("/") or f"http://{host}:{self.port}"


_NOT_ONE_VARIABLE = {"limits", "aws"}


class ConfigError(Exception):
    """A setting that cannot be used; the message names it and says what to write."""


class SettingRow(msgspec.Struct, frozen=True):
    """One line of the settings table."""

    name: str
    default: str
    meaning: str


def load(environ: Mapping[str, str] = os.environ) -> Settings:
    """Read the settings from the environment. Raises ConfigError."""
    known = {row.name for row in table()}
    given = {
        name: text
        for name, text in environ.items()
        if name.startswith(PREFIX) and text != "" and not _is_service_link(name, text)
    }
    for name in given:
        if name not in known:
            raise ConfigError(f"{name} is not a setting; `relay-node config` lists them")
    limits = {
        field: _value(name, Limit, given[name])
        for field in Limits.__struct_fields__
        if (name := _name("limit", field)) in given
    }
    hints = get_type_hints(Settings, include_extras=True)
    values = {
        field: _value(name, hints[field], given[name])
        for field in Settings.__struct_fields__
        if field not in _NOT_ONE_VARIABLE and (name := _name(field)) in given
    }
    aws = {name: text for name, text in environ.items() if name.startswith(AWS_PREFIX) and text != ""}
    values.setdefault("trace_url", environ.get(TRACE_URL, ""))
    return Settings(limits=Limits(**limits), aws=aws, **values)


def table() -> list[SettingRow]:
    """Every setting with its default and meaning, in the order of this file."""
    rows = _rows(Settings, Settings(), [])
    return rows + _rows(Limits, Limits(), ["limit"])


def _is_service_link(name: str, text: str) -> bool:
    """Whether a variable is none of ours: RELAY_PORT=tcp://10.0.0.1:8000 of Kubernetes is in the way of the port."""
    return bool(_SERVICE_LINK.fullmatch(name) or (name.endswith("_PORT") and _SERVICE_ADDRESS.match(text)))


def _rows(kind: type[msgspec.Struct], defaults: msgspec.Struct, prefix: list[str]) -> list[SettingRow]:
    rows: list[SettingRow] = []
    for field, hint in get_type_hints(kind, include_extras=True).items():
        if get_origin(hint) is Annotated:
            meaning: str = get_args(hint)[1].description
            rows.append(SettingRow(_name(*prefix, field), _shown(getattr(defaults, field)), meaning))
    return rows


def _name(*parts: str) -> str:
    return PREFIX + "_".join(parts).upper()


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return str(int(value)) if isinstance(value, bool) else str(value)


def _value(name: str, hint: Any, text: str) -> Any:
    try:
        kind = get_args(hint)[0] if get_origin(hint) is Annotated else hint
        if kind in (Limit, Schedule, AllowedOrigins):
            return kind.parse(text)
        if kind is Path:
            return Path(text)
        return msgspec.convert(text, hint, strict=False)
    except (ValueError, msgspec.ValidationError) as error:
        raise ConfigError(f"{name}={text!r}: {error}") from error
