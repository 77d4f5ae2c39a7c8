"""The two ways in which a service says no.

A `Refused` names its reason by a stable code; `node.web.errors` holds the status and the sentence
for each code. `Invalid` lists fields that are wrong. Neither knows HTTP.
"""

from collections.abc import Sequence

import msgspec


class Refused(Exception):
    """The operation is understood and not done. `facts` fill the sentence of the catalogue."""

    def __init__(self, code: str, *, retry_after: float | None = None, **facts: object) -> None:
        super().__init__(code)
        self.code = code
        self.retry_after = retry_after
        """Seconds until the same request can succeed, where that is known."""
        self.facts = facts


class Issue(msgspec.Struct, frozen=True, omit_defaults=True):
    """One wrong field, in the shape of SPEC 2.10."""

    loc: tuple[str | int, ...]
    msg: str
    type: str
    input: object = msgspec.UNSET
    ctx: dict[str, object] | msgspec.UnsetType = msgspec.UNSET


class Invalid(Exception):
    """Fields of a request are missing, of the wrong type or out of range (422)."""

    def __init__(self, issues: Sequence[Issue]) -> None:
        super().__init__("; ".join(issue.msg for issue in issues))
        self.issues = tuple(issues)

    @classmethod
    def field(cls, *loc: str | int, msg: str, kind: str = "value_error") -> "Invalid":
        """The common case: one field."""
        return cls([Issue(loc, msg, kind)])
