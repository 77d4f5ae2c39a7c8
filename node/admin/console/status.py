"""`relay-node admin status`, `reindex` and `audit`: the node on one screen, and two commands without a group."""

import argparse
import time
from asyncio import gather
from collections import Counter
from typing import cast

import msgspec

from node.admin import audit
from node.admin.commands import Commands
from node.admin.console.context import CommandContext, CommandResult, add, add_dry_run, positive, table, table_of
from node.callbacks.queue import dead_count, pending_count
from node.observe.consumer_lag import GroupLag, lags
from node.observe.memory import MemoryAlarm, redis_memory
from node.observe.totals import threads_by_status
from node.search.service import SearchState
from node.share.capacity import Capacity
from node.share.cost import Kind
from node.store import Store, StoreUnavailable, ids, keys

EVENT_COLUMNS = {
    "EVENTS FOR": "group",
    "WAITING": "waiting",
    "UNACKNOWLEDGED": "unacknowledged",
    "OLDEST (S)": "oldest_seconds",
    "READERS": "consumers",
}
SEARCH_COLUMNS = ("SEARCH OF", "PENDING", "BACKLOG", "QUERIES", "INDEX")
AUDIT_COLUMNS = {"AT": "at", "WHO": "who", "COMMAND": "command", "OUTCOME": "outcome", "TARGET": "target"}

SAMPLES = 1000
"""Random keys drawn from each primary to estimate the number of each kind; the error is mostly below 3 % of all."""


class StatusReport(msgspec.Struct, frozen=True):
    """The node as its Redis shows it."""

    memory_percent: float | None
    """Memory in use on the fullest primary; None if none has a limit."""
    memory_mib: int
    """Memory in use on all primaries together."""
    redis_ms: float
    """Round trip to the slowest primary, in milliseconds."""
    primaries: int
    no_writes: str
    """Why Redis takes no writes at present; empty if it takes them."""
    no_searches: str
    """Why the Redis of RELAY_SEARCH_URL does not answer; empty if it does, or if the setting is not used."""
    refused: dict[str, list[Kind]]
    """Kinds of requests that the node refuses at present, for lack of memory or disk or because a total is reached, by
    the code of the refusal."""
    keys: int
    kinds: dict[str, int]
    """Estimated number of keys of each kind."""
    threads: dict[str, int]
    events: list[GroupLag]
    callbacks_pending: int
    callbacks_dead: int
    searches: dict[str, SearchState]
    """By the name of the corpus."""


def register(commands: Commands) -> None:
    add(commands, "status", _status, "the state of the node on one screen", audited=False)
    listing = add(commands, "audit", _audit, "what operators did, newest first", audited=False)
    listing.add_argument(
        "--limit", type=positive, default=50, help="maximum number of entries to show; default: %(default)s"
    )
    meaning = "let the workers rebuild the indexes of open threads, offers and agents; the current ones stay in use"
    add_dry_run(add(commands, "reindex", _reindex, meaning))


async def _status(context: CommandContext, _given: argparse.Namespace) -> CommandResult:
    store = context.store
    began = time.perf_counter()
    pongs = await store.everywhere("PING")
    took = time.perf_counter() - began
    total, kinds = await _kinds(store)
    memory = await redis_memory(store, context.settings.redis_maxmemory)
    shares = [primary.share for primary in memory if primary.limit]
    status = StatusReport(
        memory_percent=round(max(shares) * 100, 1) if shares else None,
        memory_mib=sum(primary.used for primary in memory) // 2**20,
        redis_ms=round(took * 1000, 2),
        primaries=len(pongs),
        no_writes=await _why_no_writes(store),
        no_searches=await _why_no_searches(context),
        refused=await _refused(context),
        keys=total,
        kinds=kinds,
        threads=await threads_by_status(store),
        events=await lags(store),
        callbacks_pending=await pending_count(store),
        callbacks_dead=await dead_count(store),
        searches={name: await search.state() for name, search in context.services.searches.items()},
    )
    return CommandResult(data=status, lines=_screen(status))


async def _why_no_writes(store: Store) -> str:
    """Return why Redis takes no writes; empty if it takes them.

    Tried with one write to every partition, which changes nothing and creates no key.
    """
    try:
        await store.run_all([("SETRANGE", keys.tag(each), 0, "") for each in range(ids.PARTITIONS)])
    except StoreUnavailable as unavailable:
        return str(unavailable)
    return ""


async def _why_no_searches(context: CommandContext) -> str:
    searched = context.services.searched
    if searched is context.store:
        return ""
    try:
        await searched.everywhere("PING")
    except StoreUnavailable as unavailable:
        return str(unavailable)
    return ""


async def _refused(context: CommandContext) -> dict[str, list[Kind]]:
    """Return the kinds of requests that web processes refuse, by the code of the refusal. Raises StoreUnavailable."""
    capacity = Capacity()
    await MemoryAlarm(context.store, context.settings, capacity).look()
    refused: dict[str, list[Kind]] = {}
    for kind, code in capacity.refused.items():
        refused.setdefault(code, []).append(kind)
    return refused


async def _kinds(store: Store) -> tuple[int, dict[str, int]]:
    """Return the number of keys, and an estimate for each kind. The kind is the first word of a key."""
    sizes = cast("list[int]", await store.everywhere("DBSIZE"))
    draws = await gather(*(store.everywhere("RANDOMKEY") for _ in range(SAMPLES if any(sizes) else 0)))
    kinds: Counter[str] = Counter()
    for size, drawn in zip(sizes, zip(*draws, strict=True), strict=False):
        names = Counter(name.partition(b":")[0].decode() for name in cast("tuple[bytes | None]", drawn) if name)
        for name, times in names.items():
            kinds[name] += max(1, round(size * times / SAMPLES))
    return sum(sizes), dict(kinds.most_common())


def _screen(status: StatusReport) -> list[str]:
    facts = [
        ("Redis", f"{status.primaries} reachable, {status.redis_ms:g} ms"),
        ("writes", f"refused: {status.no_writes}" if status.no_writes else "taken"),
        ("refused", "; ".join(f"{code}: {', '.join(kinds)}" for code, kinds in status.refused.items()) or "nothing"),
        ("memory", f"{status.memory_mib} MiB, {_fullest(status.memory_percent)}"),
        ("keys", f"{status.keys}; about " + ", ".join(f"{name} {count}" for name, count in status.kinds.items())),
        ("threads", ", ".join(f"{name} {count}" for name, count in status.threads.items())),
        ("callbacks", f"pending {status.callbacks_pending}, dead {status.callbacks_dead}"),
    ]
    if status.no_searches:
        facts.insert(2, ("searches", f"refused: {status.no_searches}"))
    searches = [(name, each.pending, each.backlog, *_how(each)) for name, each in status.searches.items()]
    return [
        *(f"{name:11}{fact}" for name, fact in facts),
        "",
        *table(SEARCH_COLUMNS, searches),
        "",
        *table_of(EVENT_COLUMNS, status.events),
    ]


def _how(search: SearchState) -> tuple[str, str]:
    """Return how queries are answered, and by which index."""
    index = f"{search.current.algorithm}, {search.current.model}" if search.current else "no vectors yet"
    rebuilt = f"; being rebuilt: {search.built.algorithm}, {search.built.model}" if search.built else ""
    return "by meaning and text" if search.meaning else "by text only", index + rebuilt


def _fullest(percent: float | None) -> str:
    return "no limit known" if percent is None else f"{percent:g} % of the limit on the fullest primary"


async def _audit(context: CommandContext, given: argparse.Namespace) -> CommandResult:
    found = await audit.entries(context.store, given.limit)
    return CommandResult.listing(AUDIT_COLUMNS, found)


async def _reindex(context: CommandContext, given: argparse.Namespace) -> CommandResult:
    searches, store = context.services.searches, context.store
    lists = {"board": keys.OPEN_THREADS, "tasks": keys.tasks_with("offered"), "agents": keys.AGENTS}
    sizes = dict(
        zip(lists, cast("list[int]", await store.run_all([("ZCARD", each) for each in lists.values()])), strict=True)
    )
    amount = f"{sizes['board']} threads, {sizes['tasks']} offers and {sizes['agents']} agents"
    if given.dry_run:
        line = f"the workers would reindex {amount}; queries use the current indexes meanwhile"
    else:
        for search in searches.values():
            await search.reindex()
        line = f"the workers are reindexing {amount}; `relay-node admin status` shows their progress"
    states = {name: await search.state() for name, search in searches.items()}
    return CommandResult(
        data={
            "asked": not given.dry_run,
            "entities": sizes,
            "left": {name: state.backlog if state.built else None for name, state in states.items()},
        },
        lines=[line],
        outcome=f"{'dry run:' if given.dry_run else 'asked for'} {sum(sizes.values())}",
    )
