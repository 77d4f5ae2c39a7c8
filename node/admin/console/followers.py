"""`relay-node admin followers`: which clients follow which topics, in open streams of events."""

import argparse
from collections import Counter

from node.admin.commands import Commands
from node.admin.console.context import CommandContext, CommandResult, add, table
from node.store.limits import LimitStore


def register(commands: Commands) -> None:
    add(commands, "followers", _followers, "open event streams, by topic and client", audited=False)


async def _followers(context: CommandContext, _given: argparse.Namespace) -> CommandResult:
    names = await LimitStore(context.store).things("stream")
    # A place is named `<first word of the topic> <client> <random>` (node/events/api.py).
    streams = Counter((topic, client) for topic, client, _ in map(str.split, names))
    rows = [(topic, client, count) for (topic, client), count in streams.most_common()]
    return CommandResult(
        data=[{"topic": topic, "client": client, "streams": count} for topic, client, count in rows],
        lines=table(("TOPIC", "CLIENT", "STREAMS"), rows),
        outcome=f"{len(names)} streams",
    )
