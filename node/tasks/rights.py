"""Who may do what to a contract, as far as tokens show it (SPEC 5.2, DESIGN 8).

The publisher_token belongs to the contract. A claim_token says which claim it belongs to, so that the script that
uses it can tell whether that is still the present one. No token is stored.
"""

from typing import cast

import msgspec

from node.common.refusal import Invalid
from node.common.tokens import Tokens
from node.tasks.model import Transition
from node.text.lines import require_line


class Claim(msgspec.Struct, frozen=True):
    """One claim of a contract: its number, and the id of the request that made it."""

    attempt: str
    request: str


class Actor(msgspec.Struct, frozen=True, kw_only=True):
    """Who acts on a contract, and what they have shown for it."""

    name: str = ""
    """The name they give: that of the publisher or of the assignee."""
    has_publisher_token: bool = False
    claim: Claim | None = None
    """The claim whose token they have shown."""
    signer: str = ""
    """Thumbprint of the key that signed the request; empty if it is not signed."""
    replay_id: str = ""
    """The same for every use of that signature."""


class ContractTokens:
    """Issues and reads the tokens of contracts."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    def publisher_token(self, task_id: str) -> str:
        """What only the publisher is given, once."""
        return self._tokens.issue("publish", task_id)

    def is_publisher(self, task_id: str, token: str | None) -> bool:
        """Whether the token is the publisher's, in constant time."""
        return self._tokens.proves(token, "publish", task_id)

    def claim_token(self, task_id: str, claim: Claim) -> str:
        """`<attempt>.<request>.<mac>`."""
        return f"{claim.attempt}.{claim.request}.{self._tokens.issue('claim', task_id, claim.attempt, claim.request)}"

    def claim_of(self, task_id: str, token: str) -> Claim | None:
        """The claim that a token was issued for, in constant time; None if it was issued for none of this contract."""
        attempt, _, rest = token.partition(".")
        request, _, mac = rest.partition(".")
        return Claim(attempt, request) if self._tokens.proves(mac, "claim", task_id, attempt, request) else None


def actor_name(move: Transition) -> str:
    """The name of the actor: actor_id, or that of the one role that is named instead. Raises Invalid."""
    named = [name for name in ("actor_id", "publisher_id", "assignee_id") if getattr(move, name) is not None]
    if move.actor_id is None and len(named) != 1:
        raise Invalid.field("body", "actor_id", msg="give this, or either publisher_id or assignee_id")
    require_line(named[0], name := cast("str", getattr(move, named[0])))
    return name
