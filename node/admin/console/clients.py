"""`relay-node admin clients`: who asks how much and posted what, and who is refused."""

import argparse
import time
from collections import Counter
from collections.abc import Sequence
from ipaddress import ip_network

import msgspec

from node.admin.commands import Commands
from node.admin.console.context import CommandContext, CommandResult, add, add_dry_run, positive, table, table_of
from node.board.model import Posted
from node.common.refusal import Refused
from node.common.timestamps import timestamp
from node.store.activity import DAY_SECONDS, ActivityStore
from node.store.blocked import Block, Blocked, Blocklist, blocked_named

MAX_BLOCK_SECONDS = 10 * 365 * 86400
"""A block that is to last longer needs no end."""


NAMED = "address, prefix, or thumbprint of a key"

TOP_COLUMNS = {
    "FROM": "client",
    "POSTS": "posts",
    "THREADS": "threads",
    "RELAYED": "relayed",
    "REPLIES": "replies",
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
    bytes: int
    refused: int


def register(commands: Commands) -> None:
    """The group."""
    group = commands.group("clients", "who posts and asks how much, and who is refused")
    top = add(group, "clients top", _top, "addresses that post, keep or are refused the most")
    top.add_argument("--by", choices=TOP, default="posts", help="what to rank them by")
    top.add_argument("--days", type=positive, default=1, help="over the last days, today among them")
    top.add_argument("--limit", type=positive, default=20, help="how many")
    posts = add(group, "clients posts", _posts, "what an address, a prefix or a key has posted, the newest first")
    posts.add_argument("--limit", type=positive, default=100, help="how many")
    posts.add_argument("targets", metavar="ADDRESS", nargs=1, type=_blocked, help=NAMED)
    purge = add(group, "clients purge", _purge, "remove all that an address, a prefix or a key has posted, for good")
    purge.add_argument("targets", metavar="ADDRESS", nargs=1, type=_blocked, help=NAMED)
    add_dry_run(purge)
    block = add(
        group,
        "clients block",
        _block,
        "refuse requests: all of an address or prefix but /health, the signed ones of a key",
    )
    block.add_argument("--for", dest="seconds", metavar="SECONDS", type=_seconds, help="how long; default: no end")
    block.add_argument("--reason", default="", help="for the operators")
    unblock = add(group, "clients unblock", _unblock, "serve an address, prefix or key again")
    for parser in (block, unblock):
        parser.add_argument("targets", metavar="ADDRESS", nargs="+", type=_blocked, help=NAMED)
        add_dry_run(parser)
    add(group, "clients list", _list, "what is blocked")


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
        if other != network and _covers(other, network)
    ]
    return CommandResult(data=answer.data, lines=[*answer.lines, *wider], outcome=answer.outcome, ok=answer.ok)


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


def _covers(wider: Blocked, network: Blocked) -> bool:
    """Whether a blocked network contains another."""
    if isinstance(wider, str) or isinstance(network, str):
        return False
    return wider.version == network.version and network.subnet_of(wider)  # type: ignore[arg-type]


def _order(blocked: Blocked) -> tuple[int, int, int, str]:
    if isinstance(blocked, str):
        return 0, 0, 0, blocked
    return blocked.version, int(blocked.network_address), blocked.prefixlen, ""


def _is_of(blocked: Blocked, posted: Posted) -> bool:
    """Whether a post came from that address or prefix, or was signed by that key."""
    if isinstance(blocked, str):
        return posted.signer == blocked
    try:
        return _covers(blocked, ip_network(posted.client))
    except ValueError:  # a peer on a unix socket has no address
        return False


async def _top(context: CommandContext, given: argparse.Namespace) -> CommandResult:
    since = int((time.time() - given.days * DAY_SECONDS) * 1000)
    recent = await context.services.board.moderation.posted_by(lambda posted: posted.at >= since)
    activity = ActivityStore(context.store, context.settings.provenance_days)
    sums = {
        "posts": Counter(posted.client for posted in recent),
        "threads": Counter(posted.client for posted in recent if posted.source == "board"),
        "relayed": Counter(posted.client for posted in recent if posted.source == "relay"),
        "replies": Counter(posted.client for posted in recent if posted.source == "reply"),
        "bytes": await activity.top("bytes", given.days),
        "refused": await activity.top("refused", given.days),
    }
    found = [
        TopClient(client, **{name: counts[client] for name, counts in sums.items()})
        for client, _ in sums[given.by].most_common(given.limit)
    ]
    return CommandResult(data=found, lines=table_of(TOP_COLUMNS, found), outcome=f"{len(found)} read")


async def _posts(context: CommandContext, given: argparse.Namespace) -> CommandResult:
    found = (await _posted(context, given))[: given.limit]
    rows = [(post.thread_id, post.seq, timestamp(post.at), post.source, post.client, post.signer) for post in found]
    names = ("thread_id", "seq", "at", "source", "client", "signer")
    return CommandResult(
        data=[dict(zip(names, row, strict=True)) for row in rows],
        lines=table(("THREAD", "N", "AT", "KIND", "FROM", "KEY"), rows),
        outcome=f"{len(rows)} read",
    )


async def _purge(context: CommandContext, given: argparse.Namespace) -> CommandResult:
    moderation = context.services.board.moderation
    found = await _posted(context, given)
    threads = {post.thread_id for post in found if not post.seq}
    rows: list[tuple[str, int, str]] = []
    for post in found:
        outcome = "dry run" if given.dry_run else "purged"
        if not given.dry_run and (not post.seq or post.thread_id not in threads):
            try:
                await moderation.purge(post.thread_id, post.seq)
            except Refused:
                outcome = "gone before"
        rows.append((post.thread_id, post.seq, outcome))
    return CommandResult(
        data=[{"thread_id": thread, "seq": seq, "outcome": outcome} for thread, seq, outcome in rows],
        lines=table(("THREAD", "N", "OUTCOME"), rows),
        outcome=f"{'dry run' if given.dry_run else 'purged'}: {len(rows)}",
    )


async def _posted(context: CommandContext, given: argparse.Namespace) -> Sequence[Posted]:
    blocked: Blocked = given.targets[0]
    return await context.services.board.moderation.posted_by(lambda posted: _is_of(blocked, posted))


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
        raise argparse.ArgumentTypeError("that is more than ten years: leave --for out")
    return seconds
