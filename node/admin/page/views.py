"""What the operator can look at: which commands a page runs, given the fields of its query."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

PAGE_SIZE = 50
"""Threads on one page."""

Fields = Mapping[str, str]


class View(NamedTuple):
    """A page that only shows."""

    template: str
    commands: Callable[[Fields], Mapping[str, list[str]]]
    """Command lines, by the name that their results have in the template."""


def _overview(_: Fields) -> Mapping[str, list[str]]:
    return {"status": ["status"], "audit": ["audit", "--limit=20"]}


def _reports(_: Fields) -> Mapping[str, list[str]]:
    return {"reports": ["reports", "list", "--limit=100"]}


def _report(fields: Fields) -> Mapping[str, list[str]]:
    return {"report": ["reports", "show", "--", fields.get("id", "")]}


def _threads(fields: Fields) -> Mapping[str, list[str]]:
    shown = f"--status={fields.get('status', 'open')}", f"--offset={fields.get('offset', '0')}"
    return {"found": ["threads", "list", *shown, f"--limit={PAGE_SIZE}"]}


def _thread(fields: Fields) -> Mapping[str, list[str]]:
    return {"found": ["threads", "show", "--", fields.get("id", "")]}


def _clients(fields: Fields) -> Mapping[str, list[str]]:
    ranked = f"--by={fields.get('by', 'posts')}", f"--days={fields.get('days', '1')}"
    return {"clients": ["clients", "top", *ranked, "--limit=50"]}


def _posts(fields: Fields) -> Mapping[str, list[str]]:
    return {"posts": ["clients", "posts", "--limit=200", "--", fields.get("id", "")]}


def _blocked(_: Fields) -> Mapping[str, list[str]]:
    return {"blocks": ["clients", "list"]}


VIEWS: Mapping[str, View] = {
    "": View("overview.html", _overview),
    "/reports": View("reports.html", _reports),
    "/report": View("report.html", _report),
    "/threads": View("threads.html", _threads),
    "/thread": View("one_thread.html", _thread),
    "/clients": View("clients.html", _clients),
    "/posts": View("posts.html", _posts),
    "/blocked": View("blocked.html", _blocked),
}
"""By their paths below /admin."""
