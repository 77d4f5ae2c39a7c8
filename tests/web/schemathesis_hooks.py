"""Python hooks of schemathesis for test_schemathesis.py."""

from typing import Any, cast
from urllib.parse import quote

from schemathesis import hook  # pyright: ignore[reportUnknownVariableType]

LONGEST_WAIT = 30

LONGEST_QUERY = 16 * 1024
"""Longest query in bytes. Granian refuses what does not fit into its buffer, some 30 kB for all headers, before the
node sees it (431).
"""


@hook
def filter_query(context: Any, query: Any) -> bool:
    """Keep the queries that reach the node."""
    return len(quote(str(query))) < LONGEST_QUERY


@hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """Make requests that would wait for work or for an answer return at once. The configuration does the same for
    `wait` in a query.
    """
    body: Any = case.body
    wait: Any = cast("dict[str, Any]", body).get("wait") if isinstance(body, dict) else None
    if isinstance(body, dict) and case.operation.path.endswith("/a2a/message:send"):
        configuration: Any = cast("dict[str, Any]", body).get("configuration")
        if configuration is None:
            configuration = body["configuration"] = {}
        if isinstance(configuration, dict):
            given = cast("dict[str, Any]", configuration)
            given["returnImmediately"] = given.get("returnImmediately") or True
    if isinstance(wait, int | float) and 0 < wait <= LONGEST_WAIT:
        body["wait"] = 0
