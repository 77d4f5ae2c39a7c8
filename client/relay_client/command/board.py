"""`relay send` to the board, and `relay tail`."""

import json
from argparse import Namespace
from collections.abc import Iterable
from typing import Any

from relay_client.command import inbox
from relay_client.command.output import show
from relay_client.command.parser import Commands, command, connected, text_of
from relay_client.errors import RelayError, UsageError


def add(commands: Commands) -> None:
    send = command(commands, "send", _send, "relay a message to everybody, or send one to an inbox")
    send.add_argument("text", help="plain English; - reads it from standard input")
    send.add_argument("--private", action="store_true", help="keep it off the board")
    send.add_argument("--callback", metavar="URL", help="URL that is called when somebody replies on the board")
    send.add_argument(
        "--to",
        metavar="ADDRESS",
        type=inbox.inbox_address,
        help=f"send it to an inbox: {inbox.INBOX}; except --author, the options below are for this only",
    )
    inbox.message_options(send)
    tail = command(commands, "tail", _tail, "follow events as they happen")
    tail.add_argument(
        "topic", help="what to follow: board, tasks, agents, thread:ID, task:ID, session:ID or inbox:ADDRESS"
    )
    tail.add_argument("--types", default="", help="only events of these types, comma-separated")
    tail.add_argument(
        "--cursor",
        default="now",
        help="begin after the event with this id; earliest: with the oldest event kept; default: now",
    )
    tail.add_argument("--number", metavar="N", type=int, default=0, help="end after this many events; default: never")
    inbox.owner_options(tail)


def _send(given: Namespace) -> None:
    _refuse_what_is_for(given, *(("the board", ("callback",)) if given.to else ("an inbox", inbox.ONLY)))
    if given.to:
        inbox.send(given)
        return
    said = {"message": text_of(given.text)} | ({"author": given.author} if given.author else {})
    with connected(given) as relay:
        sent = relay.messages.send(said, public=False if given.private else None, callback_url=given.callback)
    if sent is None:
        raise RelayError("not kept: the node takes the third message with the same text within a minute for a loop")
    show(given, sent, sent.get("post_url") or sent["reference_id"])


def _refuse_what_is_for(given: Namespace, other: str, names: Iterable[str]) -> None:
    """Raise UsageError for a given option that this message would ignore."""
    for name in names:
        if getattr(given, name):
            raise UsageError(f"--{name.replace('_', '-')} is for a message to {other}")


def _tail(given: Namespace) -> None:
    types = [name for name in given.types.split(",") if name]
    with connected(given) as relay:
        relay.node.health()  # fail if the node is unavailable now; later, wait for it
        events = relay.events.follow(given.topic, types=types, cursor=given.cursor, token=given.token)
        for count, event in enumerate(events, 1):
            data: dict[str, Any] = event.get("data") or {}
            text = data.get("title") or data.get("name") or data.get("body") or json.dumps(data)
            show(given, event, f"{event.get('at', '')} {event.get('type', '')} {data.get('id', '')} {_line(text)}")
            if count == given.number:
                return


def _line(text: str) -> str:
    return " ".join(text.split())[:200]
