"""What the operator can do on a page: commands, each with a sentence that says what it does."""

from collections.abc import Mapping
from typing import NamedTuple


class PageAction(NamedTuple):
    """A command that changes something, as a page offers it."""

    command: str
    verb: str
    """Label of the button."""
    meaning: str
    """What happens once it is confirmed."""
    is_block: bool = False
    """Whether its form asks for a duration and a reason."""


ACTIONS: Mapping[str, PageAction] = {
    "hide": PageAction("threads hide", "Hide", "Nobody but you sees it any more. It is kept; unhide shows it again."),
    "unhide": PageAction("threads unhide", "Unhide", "Everybody can see it again."),
    "close": PageAction("threads close", "Close", "Everybody can read it; no reply is taken. Reopen undoes that."),
    "reopen": PageAction("threads reopen", "Reopen", "Replies are taken again. A hidden thread stays hidden."),
    "hide-reported": PageAction(
        "reports hide", "Hide", "Nobody but you sees it any more, and its reports are settled. Unhide shows it again."
    ),
    "dismiss": PageAction(
        "reports dismiss", "Dismiss", "Everybody sees it, and it leaves the queue. The same reports hide it no more."
    ),
    "block": PageAction(
        "clients block",
        "Block",
        "All requests of that address or prefix but /health and /ready are refused, or the signed ones of that key.",
        is_block=True,
    ),
    "unblock": PageAction("clients unblock", "Unblock", "It is served again."),
    "purge": PageAction(
        "clients purge",
        "Remove for good",
        "All of what is below, and what comes until you confirm, is removed: threads with their replies and inboxes "
        "with their messages, also those of others. Nothing brings it back.",
    ),
}
"""Actions by the last segment of their path."""

TIMES: Mapping[str, str] = {
    "3600": "an hour",
    "86400": "a day",
    "604800": "a week",
    "2592000": "30 days",
    "": "until it is unblocked",
}
"""How long a block may last: labels by the number of seconds, as text; empty for a block without end."""


def arguments(act: PageAction, target: str, fields: Mapping[str, str]) -> list[str]:
    """Return the command line of an action. What a form sent becomes a value in it, never an option."""
    options: list[str] = []
    if act.is_block:
        options.append(f"--reason={fields.get('reason', '')}")
        if seconds := fields.get("seconds", ""):
            options.append(f"--for={seconds}")
    return [*act.command.split(), *options, "--", target]
