"""What schemathesis is told in Python: test_schemathesis.py."""

from typing import Any, cast

from schemathesis import hook  # pyright: ignore[reportUnknownVariableType]

LONGEST_WAIT = 30


@hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """A claim that waits for work answers at once: what the configuration does with `wait` in a query."""
    body: Any = case.body
    wait: Any = cast("dict[str, Any]", body).get("wait") if isinstance(body, dict) else None
    if isinstance(wait, int | float) and 0 < wait <= LONGEST_WAIT:
        body["wait"] = 0
