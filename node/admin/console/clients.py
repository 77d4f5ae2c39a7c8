"""`relay-node admin clients`: addresses and prefixes whose requests are refused."""

import argparse

from node.admin.audit import who
from node.admin.commands import Commands
from node.admin.console.context import CommandContext, CommandResult, add, add_dry_run, positive, table
from node.common.timestamps import timestamp
from node.share.site import Network, network_of
from node.store.blocked import Block, Blocklist

MAX_BLOCK_SECONDS = 10 * 365 * 86400
"""A block that is to last longer needs no end."""


def register(commands: Commands) -> None:
    """The group."""
    group = commands.group("clients", "addresses whose requests are refused")
    block = add(group, "clients block", _block, "refuse all requests of an address or prefix, but /health")
    block.add_argument("--for", dest="seconds", metavar="SECONDS", type=_seconds, help="how long; default: no end")
    block.add_argument("--reason", default="", help="for the operators")
    unblock = add(group, "clients unblock", _unblock, "serve an address or prefix again")
    for parser in (block, unblock):
        parser.add_argument("targets", metavar="ADDRESS", nargs="+", type=_network, help="address or prefix")
        add_dry_run(parser)
    add(group, "clients list", _list, "what is blocked")


async def _block(context: CommandContext, given: argparse.Namespace) -> CommandResult:
    blocklist = Blocklist(context.store)
    if given.dry_run:
        return _changed(given, "dry run", given.targets)
    await blocklist.forget_expired()
    for network in given.targets:
        await blocklist.block(network, given.seconds, given.reason, who())
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
        if other != network and other.version == network.version and other.supernet_of(network)  # type: ignore[arg-type]
    ]
    return CommandResult(data=answer.data, lines=[*answer.lines, *wider], outcome=answer.outcome, ok=answer.ok)


async def _list(context: CommandContext, _given: argparse.Namespace) -> CommandResult:
    blocked, _ = await Blocklist(context.store).read()
    ordered = sorted(blocked.items(), key=lambda item: (item[0].version, item[0].network_address, item[0].prefixlen))
    rows = [_row(network, block) for network, block in ordered]
    names = ("network", "since", "until", "who", "reason")
    return CommandResult(
        data=[dict(zip(names, row, strict=True)) for row in rows],
        lines=table([name.upper() for name in names], rows),
        outcome=f"{len(rows)} read",
    )


def _row(network: Network, block: Block) -> tuple[str, str, str | None, str, str]:
    until = timestamp(block.until) if block.until is not None else None
    return str(network), timestamp(block.since), until, block.who, block.reason


def _changed(given: argparse.Namespace, word: str, changed: list[Network]) -> CommandResult:
    rows = [(str(network), word if network in changed else "not blocked") for network in given.targets]
    return CommandResult(
        data=[{"network": network, "outcome": outcome} for network, outcome in rows],
        lines=table(("NETWORK", "OUTCOME"), rows),
        outcome=f"{word}: {len(changed)} of {len(rows)}",
        ok=len(changed) == len(given.targets),
    )


def _network(text: str) -> Network:
    try:
        return network_of(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _seconds(text: str) -> int:
    seconds = positive(text)
    if seconds > MAX_BLOCK_SECONDS:
        raise argparse.ArgumentTypeError("that is more than ten years: leave --for out")
    return seconds
