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
    "hide": PageAction("threads hide", "Hide", "Only operators see it from now on. It is kept; unhide shows it again."),
    "unhide": PageAction("threads unhide", "Unhide", "Everybody can see it again."),
    "close": PageAction(
        "threads close", "Close", "Everybody can read it, but it takes no more replies. Reopen undoes this."
    ),
    "reopen": PageAction("threads reopen", "Reopen", "It takes replies again. A hidden thread stays hidden."),
    "hide-reported": PageAction(
        "reports hide", "Hide", "Only operators see it from now on, and its reports are settled. Unhide shows it again."
    ),
    "dismiss": PageAction(
        "reports dismiss",
        "Dismiss",
        "Everybody sees it, and it leaves the queue. The same reports will not hide it again.",
    ),
    "block": PageAction(
        "clients block",
        "Block",
        "All requests from this address or prefix are refused, except /health and /ready; if it is a key, all requests "
        "signed with it.",
        is_block=True,
    ),
    "unblock": PageAction("clients unblock", "Unblock", "Its requests are served again."),
    "purge": PageAction(
        "clients purge",
        "Remove for good",
        "Everything listed below, and whatever arrives until you confirm, is removed: threads with all their replies "
        "and inboxes with all their messages, including those from others. This cannot be undone.",
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
