"""`relay-node admin callbacks`: lists callbacks under way and dead letters; redrives dead letters; drops both."""

import argparse
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TypeVar, cast

import msgspec

from node.admin.commands import Commands
from node.admin.console.context import CommandContext, CommandResult, add, add_dry_run, positive, table, table_of
from node.admin.terminal import utf8
from node.callbacks.queue import DeadLetter, RawDeadLetter, pending_count, readable_letters
from node.common.timestamps import timestamp
from node.store import Store, ids, keys
from node.store.decoding import fields_of, scores_of

COLUMNS = {"ID": "id", "TYPE": "type", "DUE": "due_at", "ATTEMPTS": "attempts", "URL": "url", "LAST FAILURE": "reason"}

L = TypeVar("L", DeadLetter, RawDeadLetter)

ALL_OF_THEM = -1
"""Index of the last member of a list."""


class Unreadable(msgspec.Struct, frozen=True):
    """A dead letter that cannot be decoded."""

    id: str
    type: str
    url: str
    reason: str


class Pending(msgspec.Struct, frozen=True):
    """A callback under way."""

    id: str
    type: str
    url: str
    attempts: int
    due_at: str
    reason: str | None
    """Why the last attempt failed."""


def register(commands: Commands) -> None:
    group = commands.group("callbacks", "callbacks (webhooks) to agents, and dead letters")
    pending = add(group, "callbacks pending", _pending, "callbacks under way, the one due next first")
    pending.add_argument(
        "--limit", type=positive, default=20, help="maximum number of callbacks to show; default: %(default)s"
    )
    add(group, "callbacks dead", _dead, "dead letters (callbacks that were given up), oldest first")
    redrive = add(group, "callbacks redrive", _redrive, "send dead letters again")
    drop = add(group, "callbacks drop", _drop, "remove dead letters; with an ID, also a callback under way")
    for parser, shown_by in ((redrive, "`dead`"), (drop, "`dead` or `pending`")):
        which = parser.add_mutually_exclusive_group(required=True)
        which.add_argument(
            "targets",
            metavar="ID",
            nargs="*",
            default=[],
            type=utf8,
            help=f"webhook-id of a callback, as {shown_by} shows it",
        )
        which.add_argument("--all", dest="everything", action="store_true", help="all dead letters")
        add_dry_run(parser)


async def _pending(context: CommandContext, given: argparse.Namespace) -> CommandResult:
    store = context.store
    due = sorted(await _due(store, given.limit - 1))[: given.limit]
    records = await store.run_all([("HGETALL", keys.callback(partition, name)) for _, partition, name in due])
    found: list[Pending] = []
    for (when, _, called), record in zip(due, records, strict=True):
        fields = {name: value.decode(errors="replace") for name, value in fields_of(record).items()}
        if attempt := fields.get(b"attempt"):  # otherwise it has just been delivered
            # A callback that has lost fields is shown by its name, as the worker logs it ("callback not read").
            which = fields.get(b"id", called), fields.get(b"type", "-"), fields.get(b"url", "-")
            attempts = int(attempt) if attempt.isdecimal() else 0
            found.append(Pending(*which, attempts, timestamp(when), fields.get(b"reason")))
    total = await pending_count(store)
    return CommandResult(
        data={"callbacks": found, "total": total},
        lines=[*table_of(COLUMNS, found), f"{len(found)} of {total} under way"],
        outcome=f"{len(found)} read",
    )


async def _dead(context: CommandContext, _given: argparse.Namespace) -> CommandResult:
    kept = await context.services.callbacks.raw_dead()
    letters = readable_letters(kept)
    read = {(each.partition, each.entry) for each in letters}
    torn = [
        Unreadable(each.id, each.text(b"type"), each.url, each.text(b"reason"))
        for each in kept
        if (each.partition, each.entry) not in read
    ]
    rows = [(each.id, each.type, timestamp(each.at), each.attempts, each.url, each.reason) for each in letters]
    rows += [(each.id, each.type, "-", "-", each.url, each.reason) for each in torn]
    return CommandResult(
        data=[*letters, *torn],
        lines=table(("ID", "TYPE", "HAPPENED", "ATTEMPTS", "URL", "LAST FAILURE"), rows),
        outcome=f"{len(rows)} read",
    )


async def _redrive(context: CommandContext, given: argparse.Namespace) -> CommandResult:
    queue = context.services.callbacks

    async def again(letter: DeadLetter) -> None:
        # Under its own name: a newer message about the same entity may be under way.
        await queue.redrive(msgspec.structs.replace(letter, name=letter.id))

    return await _each(await queue.dead(), given, "redriven", again)


async def _drop(context: CommandContext, given: argparse.Namespace) -> CommandResult:
    queue = context.services.callbacks
    # Callbacks under way, too: one that cannot be decoded is never given up, but becomes due again and again.
    under_way = await _named(context.store, set(given.targets)) if given.targets else {}
    if not given.dry_run:
        for partition, name in under_way.values():
            await queue.discard(partition, name)
    return await _each(await queue.raw_dead(), given, "dropped", queue.drop, under_way)


async def _due(store: Store, last: int) -> list[tuple[int, int, str]]:
    """Return due time (ms), partition and name of callbacks under way, of each partition those up to index `last`."""
    queues = [("ZRANGE", keys.callbacks_due(each), 0, last, "WITHSCORES") for each in range(ids.PARTITIONS)]
    due: list[tuple[int, int, str]] = []
    for partition, reply in enumerate(await store.run_all(queues)):
        due += [(int(when), partition, name) for name, when in scores_of(reply)]
    return due


async def _named(store: Store, wanted: Collection[str]) -> dict[str, tuple[int, str]]:
    """Return partition and name of the callbacks under way that are wanted, by the id that `pending` shows."""
    due = await _due(store, ALL_OF_THEM)
    found = await store.run_all([("HGET", keys.callback(partition, name), "id") for _, partition, name in due])
    named = zip(cast("list[bytes | None]", found), due, strict=True)
    shown = [message_id.decode(errors="replace") if message_id else name for message_id, (_, _, name) in named]
    return {each: (partition, name) for each, (_, partition, name) in zip(shown, due, strict=True) if each in wanted}


async def _each(
    found: Sequence[L],
    given: argparse.Namespace,
    done: str,
    change: Callable[[L], Awaitable[None]],
    others: Collection[str] = (),
) -> CommandResult:
    """Change those of the `found` dead letters that the command names. `others`: ids that are already dealt with."""
    wanted = dict.fromkeys(given.targets)
    chosen = [letter for letter in found if given.everything or letter.id in wanted]
    if not given.dry_run:
        for letter in chosen:
            await change(letter)
    unknown = [each for each in wanted if each not in {letter.id for letter in chosen} and each not in others]
    word = "dry run" if given.dry_run else done
    rows = [(letter.id, word, letter.url) for letter in chosen] + [(each, word, None) for each in others]
    rows += [(each, "unknown", None) for each in unknown]
    return CommandResult(
        data=[{"id": each, "outcome": outcome} for each, outcome, _ in rows],
        lines=table(("ID", "OUTCOME", "URL"), rows),
        outcome=f"{word}: {len(chosen) + len(others)}",
        ok=not unknown,
    )
