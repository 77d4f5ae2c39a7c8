"""Whether a callback_url that a client gives is taken at all (DESIGN 8).

A courtesy to the client, who learns at once: what protects others is the guard at every call.
"""

from node.hooks.resolve import SystemResolver, check_name
from node.hooks.target import Policy, Target, TargetRefused, parse
from node.refusal import Invalid


class TargetPolicy:
    """Refuses targets that would never be called."""

    def __init__(self, public_url: str, *, allow_private: bool) -> None:
        self._policy = Policy.of(public_url, allow_private=allow_private)
        self._resolver = SystemResolver()

    def check(self, url: str) -> Target:
        """Look at the URL alone, for the acknowledgement path. Raises Invalid."""
        try:
            return parse(url, self._policy)
        except TargetRefused as refused:
            raise _invalid(refused) from None

    async def accept(self, url: str) -> None:
        """Look at the URL and at what its name stands for now, for at most a second. Raises Invalid."""
        target = self.check(url)
        try:
            await check_name(target, self._policy, self._resolver)
        except TargetRefused as refused:
            raise _invalid(refused) from None


def _invalid(refused: TargetRefused) -> Invalid:
    return Invalid.field("body", "callback_url", msg=str(refused), kind=f"callback_{refused.reason}")
