"""What the operator can look at: for each page, the commands it runs with the fields of its query."""

from collections.abc import Mapping
from typing import NamedTuple

PAGE_SIZE = 50
"""Threads on one page."""

DEFAULTS = {"id": "", "status": "open", "offset": "0", "by": "posts", "days": "1"}
"""Defaults of the query fields that commands take."""


class View(NamedTuple):
    """A page that only shows."""

    template: str
    commands: Mapping[str, str]
    """Commands, by the name of their result in the template. `{id}` stands for the field `id` of the query."""

    def lines(self, fields: Mapping[str, str]) -> dict[str, list[str]]:
        """Return the command lines. A field becomes part of one word, whatever it contains."""
        given = {**DEFAULTS, **fields}
        return {name: [word.format_map(given) for word in line.split()] for name, line in self.commands.items()}


VIEWS: Mapping[str, View] = {
    "": View("overview.html", {"status": "status", "audit": "audit --limit=20"}),
    "/reports": View("reports.html", {"reports": "reports list --limit=100"}),
    "/report": View("report.html", {"report": "reports show -- {id}"}),
    "/threads": View(
        "threads.html", {"found": f"threads list --limit={PAGE_SIZE} --status={{status}} --offset={{offset}}"}
    ),
    "/thread": View("one_thread.html", {"found": "threads show -- {id}"}),
    "/clients": View("clients.html", {"clients": "clients top --limit=50 --by={by} --days={days}"}),
    "/posts": View("posts.html", {"posts": "clients posts --limit=200 -- {id}"}),
    "/blocked": View("blocked.html", {"blocks": "clients list"}),
}
"""Pages by their path below /admin."""
