"""Finds what came from a client, in every feature, and removes each kind of it.

The node does not record who sent the lines of a session, unlisted relay messages, A2A messages and feedback.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

from node.admin.console.context import CommandContext
from node.board.model import AGENT, CONTRACT
from node.common.refusal import Refused
from node.inbox.model import MESSAGE
from node.share.origin import Attributed, ClientOrigin
from node.store import keys
from node.store.limits import LimitStore

PURGED, GONE = "purged", "gone before"
OUTCOMES = ("dry run", PURGED, GONE)
"""Outcomes after which nothing is left to do."""

UNKNOWN = {
    *("thread.unknown", "task.unknown", "agent.unknown", "artifact.unknown", "session.gone", "inbox.unknown"),
    *("receipt.unknown", "inbox.settled"),
}
"""Error codes for things that were removed before, or have ended."""


async def content_of(context: CommandContext, origin: ClientOrigin, kinds: Collection[str] | None) -> list[Attributed]:
    """Return what is attributed to `origin`, of the given kinds or of all, newest first. Raises StoreUnavailable."""
    services = context.services
    posted = await services.provenance.find(lambda each: origin.covers(each.client, each.signer))
    found = [
        Attributed(each.source, _named(each.thread_id, each.seq), each.at, each.client, each.signer) for each in posted
    ]
    found += await services.artifacts.sent_by(origin)
    found += await services.sessions.opened_by(origin)
    found += await services.inbox_origins.find(origin)
    wanted = [each for each in found if not kinds or each.kind in kinds]
    return sorted(wanted, key=lambda each: each.at or 0, reverse=True)


async def removed_before(context: CommandContext, found: Sequence[Attributed]) -> set[str]:
    """Return the ids of those in `found` that were removed before: only the note of who sent them is left.

    Raises StoreUnavailable.
    """
    noted = [each.id for each in found if each.kind in NOTED]
    looks = [_look(NOTED[each.kind], each.id) for each in found if each.kind in NOTED]
    replies = await context.store.run_all(looks)
    return {name for name, reply in zip(noted, replies, strict=True) if not reply}


async def remove(context: CommandContext, each: Attributed) -> str:
    """Remove one thing. Return PURGED, GONE, or the code of the refusal. Raises StoreUnavailable."""
    try:
        await REMOVALS[each.kind](context, each.id)
    except Refused as refused:
        return GONE if refused.code in UNKNOWN else refused.code
    return PURGED


async def _post(context: CommandContext, name: str) -> None:
    thread_id, _, seq = name.partition(":")
    await context.services.board.moderation.purge(thread_id, int(seq or 0))


async def _session(context: CommandContext, name: str) -> None:
    place = await context.services.sessions.end(name)
    await LimitStore(context.store).release(place)


async def _message(context: CommandContext, name: str) -> None:
    address, _, message_id = name.partition(":")
    await context.services.inboxes.withdraw_as_operator(address, message_id)


NOTED: Mapping[str, Sequence[Callable[[str], str]]] = {
    **dict.fromkeys(("board", "relay", "reply"), (keys.thread,)),
    CONTRACT: (keys.task, keys.packed),
    AGENT: (keys.agent,),
}
"""Keys of an entity, one of which exists as long as the entity does. Only for kinds that are found by a note of who
sent them, since the note may outlive the entity."""

REMOVALS: Mapping[str, Callable[[CommandContext, str], Awaitable[object]]] = {
    **dict.fromkeys(("board", "relay", "reply"), _post),
    CONTRACT: lambda context, name: context.services.tasks.purge(name),
    AGENT: lambda context, name: context.services.agents.end(name),
    "artifact": lambda context, name: context.services.artifacts.purge(name),
    "session": _session,
    "inbox": lambda context, name: context.services.inboxes.end(name),
    MESSAGE: _message,
}
KINDS = tuple(REMOVALS)


def _look(keys_of: Sequence[Callable[[str], str]], name: str) -> Sequence[str]:
    """Return the command whose reply is falsy if the entity or reply of that name no longer exists."""
    entity, _, seq = name.partition(":")
    if not seq:
        return "EXISTS", *(key_of(entity) for key_of in keys_of)
    return "XRANGE", keys.replies(entity), f"0-{seq}", f"0-{seq}"


def _named(entity: str, seq: int) -> str:
    return f"{entity}:{seq}" if seq else entity
