"""The two exceptions with which a service refuses a request. Neither knows HTTP.

`Refused` has a stable code, for which `node.web.errors` has the status and the sentence. `Invalid` lists wrong fields.
"""

from collections.abc import Callable, Sequence

import msgspec


class Refused(Exception):
    """The operation is not carried out. `facts` are inserted into the code's sentence."""

    def __init__(self, code: str, *, retry_after: float | None = None, **facts: object) -> None:
        super().__init__(code)
        self.code = code
        self.retry_after = retry_after
        """Seconds until the same request can succeed; None if unknown."""
        self.facts = facts


class Issue(msgspec.Struct, frozen=True, omit_defaults=True):
    """One wrong field."""

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

    def moved(self, new_loc: Callable[[tuple[str | int, ...]], tuple[str | int, ...]]) -> "Invalid":
        """Return the same issues with `new_loc(loc)` as their `loc`, for a body that is only a part of a request."""
        return Invalid([msgspec.structs.replace(issue, loc=new_loc(issue.loc)) for issue in self.issues])

    @classmethod
    def field(cls, *loc: str | int, msg: str, kind: str = "value_error") -> "Invalid":
        """Return an Invalid with one wrong field."""
        return cls([Issue(loc, msg, kind)])
