"""`relay ask`, `relay receipt` and `relay inbox`."""

from argparse import ArgumentParser, Namespace
from typing import Any, get_args

from relay_client.client import Relay
from relay_client.command.output import fields, note, show
from relay_client.command.parser import (
    Commands,
    command,
    connected,
    environment,
    group,
    json_of,
    seconds,
    signer,
    text_of,
)
from relay_client.command.running import run, words_of
from relay_client.errors import Conflict, DeadlineExceeded, NotFound, Refused, UsageError
from relay_client.inboxes import Clearable, InboxMessage, Receipt, Settled

ANSWER_SECONDS = 300.0
PAGE = 100  # messages read at a time
SETTLE_TRIES = 1000  # as many as time allows: the work is done
ONLY = ("subject", "in_reply_to", "thread", "artifact", "expires")
"""Options that relayed messages do not have. `reply_to` is not among them, because RELAY_INBOX may have set it."""
INBOX = "address of the inbox, or its URL as `relay agents find` shows it"
UNFIT = (413, 422)
"""Statuses with which the node refuses a reply that is too large or malformed."""


def add(commands: Commands) -> None:
    ask = command(commands, "ask", _ask, "send a message to an inbox and wait for its answer")
    ask.add_argument("to", metavar="ADDRESS", type=inbox_address, help=INBOX)
    ask.add_argument("text", help="what to send; - reads it from standard input")
    ask.add_argument(
        "--wait",
        metavar="SECONDS",
        type=seconds,
        default=ANSWER_SECONDS,
        help="how long to wait for the answer; default: %(default)g",
    )
    message_options(ask)
    receipt = command(commands, "receipt", _receipt, "show what became of a message that you sent to an inbox")
    receipt.add_argument("to", metavar="ADDRESS", type=inbox_address, help=INBOX)
    receipt.add_argument("id", help="id of the message")
    receipt.add_argument(
        "--token",
        metavar="RECEIPT_TOKEN",
        required=True,
        help="receipt token of the message, as `relay ask` or `relay send` showed it",
    )
    receipt.add_argument(
        "--wait",
        metavar="SECONDS",
        type=seconds,
        default=0.0,
        help="how long to wait for the answer; default: %(default)g",
    )
    inbox = group(commands, "inbox", "your inbox: an address that anybody can write to")
    opening = command(inbox, "open", _open, "open an inbox, or renew it; with --key, the inbox of that key")
    opening.add_argument("--label", help="a name that everybody sees")
    opening.add_argument("--description", help="what others may write to it about; everybody sees it")
    opening.add_argument("--policy", choices=("open", "signed", "contacts"), help="who may write to it")
    opening.add_argument(
        "--contact", action="append", metavar="ADDRESS", help="address that may write to it; may be repeated"
    )
    opening.add_argument("--ttl", metavar="SECONDS", type=int, help="how long a message is held before it expires")
    opening.add_argument(
        "--encryption-key", metavar="KEY", help="X25519 public key in base64url, with which senders can seal messages"
    )
    opening.add_argument("--callback", metavar="URL", help="URL that is called for each message")
    opening.add_argument(
        "--card", metavar="FILE", help="file with an A2A agent card in JSON, which lists you in the directory"
    )
    opening.add_argument(
        "--clear", action="append", choices=get_args(Clearable), help="remove this field; may be repeated"
    )
    opening.add_argument("--rotate", action="store_true", help="make a new token, and end all earlier ones")
    opening.add_argument(
        "--token",
        default=environment("RELAY_INBOX_TOKEN"),
        help="token of the inbox to renew; default: RELAY_INBOX_TOKEN; with neither, nor --key, a new inbox is opened",
    )
    watch = command(inbox, "watch", _watch, "receive messages as they come, and settle them")
    watch.add_argument(
        "--exec",
        metavar="COMMAND",
        help="program to run for each message, with its JSON on standard input; its output is the reply; "
        "a non-zero exit status refuses the message, as does a reply that is too long",
    )
    watch.add_argument("--keep", action="store_true", help="show the messages that are waiting, and settle none")
    watch.add_argument(
        "--number", metavar="N", type=int, default=0, help="end after this many messages; default: never"
    )
    closing = command(inbox, "close", _close, "close your inbox; its unsettled messages end as expired")
    for owned in (watch, closing):
        owned.add_argument(
            "address",
            nargs="?",
            default=environment("RELAY_INBOX"),
            help="address of your inbox; default: RELAY_INBOX, or the address of --key",
        )
        owner_options(owned)


def inbox_address(given: str) -> str:
    """Return the address of an inbox, which may be given as a URL, as shown by `relay agents find`."""
    return given.partition("/inboxes/")[2].partition("/")[0] or given


def message_options(made: ArgumentParser) -> None:
    """Add the options for what a message may have besides its text."""
    made.add_argument("--subject", help="subject of the message")
    made.add_argument("--author", help="your name; nobody checks it")
    made.add_argument(
        "--reply-to",
        metavar="ADDRESS",
        default=environment("RELAY_INBOX"),
        help="address of your own inbox; default: RELAY_INBOX",
    )
    made.add_argument("--in-reply-to", metavar="ID", help="id of the message that this one answers")
    made.add_argument("--thread", help="a name for messages that belong together")
    made.add_argument("--artifact", action="append", metavar="ID", help="id of an artifact; may be repeated")
    made.add_argument("--expires", metavar="SECONDS", type=int, help="how long the message is held before it expires")


def owner_options(made: ArgumentParser) -> None:
    """Add the option for the proof that an inbox is yours."""
    made.add_argument(
        "--token",
        default=environment("RELAY_INBOX_TOKEN"),
        help="token of your inbox; default: RELAY_INBOX_TOKEN; or sign with --key",
    )


def send(given: Namespace) -> None:
    """Send a message to an inbox, and show it with its receipt token."""
    with connected(given) as relay:
        sent = relay.inboxes.send(given.to, text_of(given.text), **_details(given))
    show(given, sent)


def _ask(given: Namespace) -> int:
    with connected(given) as relay:
        sent = relay.inboxes.send(given.to, text_of(given.text), **_details(given))
        try:
            receipt = relay.inboxes.answer(given.to, sent["id"], sent["receipt_token"], within=given.wait)
        except (DeadlineExceeded, KeyboardInterrupt):
            note(f"message {sent['id']} is held until {sent['expires_at']}; to see what becomes of it:")
            note(f"relay receipt {given.to} {sent['id']} --token {sent['receipt_token']}")
            raise
    return _answered(given, receipt)


def _receipt(given: Namespace) -> int:
    with connected(given) as relay:
        return _answered(given, relay.inboxes.answer(given.to, given.id, given.token, within=given.wait))


def _answered(given: Namespace, receipt: Receipt) -> int:
    """Show the answer to a message, or the status of the message if it has no answer."""
    show(given, receipt, receipt["reply"] or receipt["status"])
    return 0 if receipt["status"] in ("done", "input_required") else 1


def _open(given: Namespace) -> None:
    with connected(given) as relay:
        opened = relay.inboxes.open(
            label=given.label,
            description=given.description,
            policy=given.policy,
            contacts=given.contact,
            ttl_seconds=given.ttl,
            encryption_key=given.encryption_key,
            callback_url=given.callback,
            card=json_of(given.card) if given.card else None,
            clear=given.clear or (),
            rotate=given.rotate or None,
            token=given.token,
        )
    show(given, opened)


def _close(given: Namespace) -> None:
    with connected(given) as relay:
        show(given, relay.inboxes.close(_address(given), given.token))


def _watch(given: Namespace) -> None:
    address = _address(given)
    words = None if given.exec is None else words_of(given.exec)
    with connected(given) as relay:
        if given.keep:
            _show_all(relay, given, address)
            return
        relay.node.health()  # fail if the node is unavailable now; later, wait for it
        for count, message in enumerate(relay.inboxes.messages(address, given.token, settle=False), 1):
            if words:
                _attend(relay, given, address, message, words)
            else:
                _show(given, message)
                _settle(relay, given, address, message, "done")
            if count == given.number:
                return


def _show_all(relay: Relay, given: Namespace, address: str) -> None:
    since = 0
    while (page := relay.inboxes.read(address, given.token, since_seq=since, limit=PAGE))["messages"]:
        for message in page["messages"]:
            _show(given, message)
        since = page["next_since_seq"]


def _show(given: Namespace, message: InboxMessage) -> None:
    """Show one of several messages, followed by an empty line."""
    show(given, message, fields(message) + "\n")


def _attend(relay: Relay, given: Namespace, address: str, message: InboxMessage, words: list[str]) -> None:
    ended = run(words, message, RELAY_MESSAGE_ID=message["id"])
    if ended.status:
        _settle(relay, given, address, message, "refused")
        return
    try:
        _settle(relay, given, address, message, "done", ended.output or None)
    except Refused as refused:
        if refused.status not in UNFIT:
            raise
        note(f"relay: the node does not take what {words[0]} wrote as a reply: {refused}")
        _settle(relay, given, address, message, "refused")


def _settle(
    relay: Relay, given: Namespace, address: str, message: InboxMessage, status: Settled, reply: str | None = None
) -> None:
    """Settle a message at once, so that it does not come again if this process ends."""
    patient = relay.with_options(tries=SETTLE_TRIES)
    try:
        settled = patient.inboxes.settle(address, message["id"], given.token, status=status, reply=reply)
    except (NotFound, Conflict):  # withdrawn, expired, or settled by somebody else
        return
    if given.exec:
        show(given, settled, f"{settled['seq']} {settled['status']} {message['subject'] or ''}")


def _address(given: Namespace) -> str:
    if given.address:
        return given.address
    if key := signer(given):
        return key.address
    raise UsageError("give the address of your inbox, set RELAY_INBOX, or give --key")


def _details(given: Namespace) -> dict[str, Any]:
    names = ("subject", "author", "reply_to", "in_reply_to", "thread")
    said = {name: getattr(given, name) for name in names}
    return {**said, "artifact_ids": given.artifact, "expires_in": given.expires}
