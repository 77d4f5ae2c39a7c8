"""`relay-node admin clients`: shows and removes what clients sent, shows how much they ask for, and blocks them."""

import argparse
import math
import time
from collections import Counter
from collections.abc import Sequence

import msgspec

from node.admin.commands import Commands
from node.admin.console.client_content import GONE, KINDS, OUTCOMES, content_of, remove, removed_before
from node.admin.console.context import CommandContext, CommandResult, add, add_dry_run, positive, table
from node.admin.terminal import utf8
from node.board.model import CONTRACT
from node.common.timestamps import timestamp
from node.inbox.model import MESSAGE
from node.share.origin import Attributed, ClientOrigin, contains
from node.store.activity import DAY_SECONDS, ActivityStore
from node.store.blocked import Block, Blocked, Blocklist, blocked_named

MAX_BLOCK_SECONDS = 10 * 365 * 86400
"""Longest block that has an end."""

NAMED = "IP address, network prefix, or thumbprint of a key"

TOP_COLUMNS = {
    "FROM": "client",
    "POSTS": "posts",
    "THREADS": "threads",
    "RELAYED": "relayed",
    "REPLIES": "replies",
    "CONTRACTS": "contracts",
    "BYTES": "bytes",
    "REFUSED": "refused",
}
TOP = tuple(TOP_COLUMNS.values())[1:]


class TopClient(msgspec.Struct, frozen=True):
    """What one client asked of the node."""

    client: str
    posts: int
    threads: int
    relayed: int
    replies: int
    contracts: int
    bytes: int
    refused: int


def register(commands: Commands) -> None:
    group = commands.group("clients", "how much clients post and request, what came from them, and who is blocked")
    top = add(group, "clients top", _top, "addresses with the most posts, kept bytes or refused requests")
    top.add_argument("--by", choices=TOP, default="posts", help="what to rank addresses by; default: %(default)s")
    days = (
        "posts of the last DAYS times 24 hours; bytes and refusals of the last DAYS calendar days (UTC), including "
        "today; default: %(default)s"
    )
    top.add_argument("--days", type=positive, default=1, help=days)
    top.add_argument(
        "--limit", type=positive, default=20, help="maximum number of addresses to show; default: %(default)s"
    )
    posts = add(group, "clients posts", _posts, "what came from an address, a prefix or a key, newest first")
    posts.add_argument(
        "--limit", type=positive, default=100, help="maximum number of entries to show; default: %(default)s"
    )
    posts.add_argument("targets", metavar="ADDRESS", nargs=1, type=_blocked, help=NAMED)
    purge = add(
        group, "clients purge", _purge, "remove all that came from an address, a prefix or a key; this cannot be undone"
    )
    purge.add_argument("targets", metavar="ADDRESS", nargs=1, type=_blocked, help=NAMED)
    add_dry_run(purge)
    for parser in (posts, purge):
        parser.add_argument("--kind", choices=KINDS, action="append", help="only this kind; may be given several times")
    block = add(
        group,
        "clients block",
        _block,
        "refuse all requests of an address or prefix except /health and /ready, or all requests signed with a key",
    )
    block.add_argument(
        "--for", dest="seconds", metavar="SECONDS", type=_seconds, help="how long to block; default: until unblocked"
    )
    block.add_argument("--reason", default="", type=utf8, help="reason, shown to operators only")
    unblock = add(group, "clients unblock", _unblock, "serve an address, prefix or key again")
    for parser in (block, unblock):
        parser.add_argument("targets", metavar="ADDRESS", nargs="+", type=_blocked, help=NAMED)
        add_dry_run(parser)
    add(group, "clients list", _list, "blocked addresses, prefixes and keys")


async def _block(context: CommandContext, given: argparse.Namespace) -> CommandResult:
    blocklist = Blocklist(context.store)
    if given.dry_run:
        return _changed(given, "dry run", given.targets)
    await blocklist.forget_expired()
    for network in given.targets:
        await blocklist.block(network, given.seconds, given.reason, context.who)
    return _changed(given, "blocked", given.targets)


async def _unblock(context: CommandContext, given: argparse.Namespace) -> CommandResult:
    blocklist = Blocklist(context.store)
    listed, _ = await blocklist.read()
    found = [network for network in given.targets if network in listed]
    if not given.dry_run:
        for network in found:
            await blocklist.unblock(network)
    answer = _changed(given, "dry run" if given.dry_run else "unblocked", found)
    wider = [
        f"{network} stays blocked by {other}"
        for network in given.targets
        for other in listed
        if other not in given.targets and contains(other, network)
    ]
    return msgspec.structs.replace(answer, lines=[*answer.lines, *wider])


async def _list(context: CommandContext, _given: argparse.Namespace) -> CommandResult:
    blocked, _ = await Blocklist(context.store).read()
    ordered = sorted(blocked.items(), key=lambda item: _order(item[0]))
    rows = [_row(network, block) for network, block in ordered]
    names = ("network", "since", "until", "who", "reason")
    return CommandResult(
        data=[dict(zip(names, row, strict=True)) for row in rows],
        lines=table([name.upper() for name in names], rows),
        outcome=f"{len(rows)} read",
    )


def _order(blocked: Blocked) -> tuple[int, int, int, str]:
    if isinstance(blocked, str):
        return 0, 0, 0, blocked
    return blocked.version, int(blocked.network_address), blocked.prefixlen, ""


async def _top(context: CommandContext, given: argparse.Namespace) -> CommandResult:
    days = min(given.days, math.ceil(context.settings.provenance_days) + 1)  # nothing is kept of earlier days
    since = int((time.time() - days * DAY_SECONDS) * 1000)
    recent = await context.services.provenance.find(lambda posted: posted.at >= since)
    activity = ActivityStore(context.store, context.settings.provenance_days)
    by_source = {
        name: Counter(posted.client for posted in recent if posted.source == source)
        for name, source in (("threads", "board"), ("relayed", "relay"), ("replies", "reply"), ("contracts", CONTRACT))
    }
    sums = {
        "posts": by_source["threads"] + by_source["relayed"] + by_source["replies"],
        **by_source,
        "bytes": await activity.top("bytes", days),
        "refused": await activity.top("refused", days),
    }
    found = [
        TopClient(client, **{name: counts[client] for name, counts in sums.items()})
        for client, _ in sums[given.by].most_common(given.limit)
    ]
    return CommandResult.listing(TOP_COLUMNS, found)


async def _posts(context: CommandContext, given: argparse.Namespace) -> CommandResult:
    origin = ClientOrigin(given.targets[0])
    found = (await content_of(context, origin, given.kind))[: given.limit]
    gone = await removed_before(context, found)
    rows = [
        (each.kind, each.id, each.at and timestamp(each.at), each.client, each.signer, each.id in gone)
        for each in found
    ]
    names = ("kind", "id", "at", "client", "signer", "removed")
    shown = [(*row, "removed" if is_gone else None) for *row, is_gone in rows]
    return CommandResult(
        data=[dict(zip(names, row, strict=True)) for row in rows],
        lines=[*table(("KIND", "ID", "AT", "FROM", "KEY", "GONE"), shown), *_left_out(origin, given.kind)],
        outcome=f"{len(rows)} read",
    )


async def _purge(context: CommandContext, given: argparse.Namespace) -> CommandResult:
    origin = ClientOrigin(given.targets[0])
    found = await content_of(context, origin, given.kind)
    gone = await removed_before(context, found) if given.dry_run else set[str]()

    async def outcome(each: Attributed) -> str:
        if given.dry_run:
            return GONE if each.id in gone else "dry run"
        return await remove(context, each)

    # Newest first, so that a reply is removed before its thread.
    rows = [(each.kind, each.id, await outcome(each)) for each in found]
    return CommandResult(
        data=[{"kind": kind, "id": name, "outcome": outcome} for kind, name, outcome in rows],
        lines=[*table(("KIND", "ID", "OUTCOME"), rows), *_left_out(origin, given.kind)],
        outcome=f"{'dry run' if given.dry_run else 'purged'}: {len(rows)}",
        ok=all(word in OUTCOMES for _, _, word in rows),
    )


def _left_out(origin: ClientOrigin, kinds: Sequence[str] | None) -> list[str]:
    """Return a line about what cannot be found for a whole network; none if nothing is missed."""
    if origin.client or origin.key or (kinds and MESSAGE not in kinds):
        return []
    return ["messages to inboxes are not included: look for a single address or a key to find them"]


def _row(network: Blocked, block: Block) -> tuple[str, str, str | None, str, str]:
    until = timestamp(block.until) if block.until is not None else None
    return str(network), timestamp(block.since), until, block.who, block.reason


def _changed(given: argparse.Namespace, word: str, changed: list[Blocked]) -> CommandResult:
    rows = [(str(network), word if network in changed else "not blocked") for network in given.targets]
    return CommandResult(
        data=[{"network": network, "outcome": outcome} for network, outcome in rows],
        lines=table(("NETWORK", "OUTCOME"), rows),
        outcome=f"{word}: {len(changed)} of {len(rows)}",
        ok=len(changed) == len(given.targets),
    )


def _blocked(text: str) -> Blocked:
    try:
        return blocked_named(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _seconds(text: str) -> int:
    seconds = positive(text)
    if seconds > MAX_BLOCK_SECONDS:
        raise argparse.ArgumentTypeError("the longest block is ten years: leave --for out to block without end")
    return seconds
