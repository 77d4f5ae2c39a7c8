"""Who acts on a contract: what a request presents as proof, tokens and the key that signed it (SPEC 5.2, DESIGN 8).

The publisher_token belongs to the contract. A claim_token says which claim it belongs to, so that the script that
uses it can tell whether that is still the present one. No token is stored.

A wrong token costs one small read, which tells whether there is such a contract; the contract itself, whose result may
have a megabyte, is not read for a refusal.
"""

from typing import NoReturn, cast

import msgspec

from node.common.refusal import Invalid, Refused
from node.common.tokens import Tokens
from node.sign.signed import UNSIGNED, Signed
from node.store import ids
from node.tasks.model import Cancellation, Transition
from node.tasks.reader import TaskReader
from node.tasks.steps import NO_CLAIM, Claim
from node.tasks.view import known
from node.text.lines import require_line


class Actor(msgspec.Struct, frozen=True, kw_only=True):
    """Who acts on a contract, and what they have shown for it."""

    name: str = ""
    """The name they give: that of the publisher or of the assignee."""
    has_publisher_token: bool = False
    claim: Claim = NO_CLAIM
    """The claim whose token they have shown."""
    signed: Signed = UNSIGNED


class Proofs:
    """Issues tokens, and finds out who acts from what a request presents. What is async raises StoreUnavailable."""

    def __init__(self, contracts: TaskReader, tokens: Tokens) -> None:
        self._contracts = contracts
        self._tokens = tokens

    def publisher_token(self, task_id: str) -> str:
        """What only the publisher is given, once."""
        return self._tokens.issue("publish", task_id)

    def claim_token(self, task_id: str, claim: Claim) -> str:
        """`<attempt>.<request>.<mac>`."""
        return f"{claim.attempt}.{claim.request}.{self._tokens.issue('claim', task_id, claim.attempt, claim.request)}"

    async def publisher(self, task_id: str, proof: Cancellation, signed: Signed) -> Actor:
        """Who acts as the publisher. Raises Refused `task.unknown`, `task.publisher`."""
        ids.require_id(task_id, "task.unknown")
        return Actor(
            has_publisher_token=await self._shows(task_id, proof.publisher_token, "task.publisher"), signed=signed
        )

    async def actor(self, task_id: str, move: Transition, signed: Signed) -> Actor:
        """Who moves a contract. Raises Invalid, Refused `task.unknown`, `task.proof`, `task.token`."""
        ids.require_id(task_id, "task.unknown")
        return Actor(
            name=_actor_name(move),
            has_publisher_token=await self._shows(task_id, move.publisher_token, "task.proof"),
            claim=NO_CLAIM if move.claim_token is None else await self.claim_of(task_id, move.claim_token),
            signed=signed,
        )

    async def claim_of(self, task_id: str, claim_token: str) -> Claim:
        """The claim of a token. Raises Refused `task.unknown`, `task.token`."""
        ids.require_id(task_id, "task.unknown")
        attempt, _, rest = claim_token.partition(".")
        request, _, mac = rest.partition(".")
        if not self._tokens.proves(mac, "claim", task_id, attempt, request):
            await self._refuse(task_id, "task.token")
        return Claim(attempt, request)

    async def require_publisher(self, task_id: str, publisher_token: str | None, signer: str) -> None:
        """Raise unless the publisher_token or the key of the offer is shown.

        Raises Refused `task.unknown`, `callbacks.proof` if nothing is shown, `task.publisher`.
        """
        ids.require_id(task_id, "task.unknown")
        row = known(await self._contracts.read(task_id, (b"kind", b"signer")))
        if publisher_token is None and not signer:
            raise Refused("callbacks.proof")
        is_signer = bool(signer) and row.fields.get(b"signer") == signer.encode()
        if not is_signer and not self._tokens.proves(publisher_token, "publish", task_id):
            raise Refused("task.publisher")

    async def require_known(self, task_id: str) -> None:
        """Raise Refused `task.unknown` if there is no such contract."""
        ids.require_id(task_id, "task.unknown")
        known(await self._contracts.read(task_id, (b"kind",)))

    async def _shows(self, task_id: str, publisher_token: str | None, code: str) -> bool:
        """Whether the publisher_token was shown. A wrong one is refused with `code`, not taken for none."""
        if publisher_token is None:
            return False
        if not self._tokens.proves(publisher_token, "publish", task_id):
            await self._refuse(task_id, code)
        return True

    async def _refuse(self, task_id: str, code: str) -> NoReturn:
        """Refuse a wrong token with `code`, or with `task.unknown` if there is no such contract."""
        await self.require_known(task_id)
        raise Refused(code)


def _actor_name(move: Transition) -> str:
    """The name of the actor: actor_id, or that of the one role that is named instead. Raises Invalid."""
    named = [name for name in ("actor_id", "publisher_id", "assignee_id") if getattr(move, name) is not None]
    if move.actor_id is None and len(named) != 1:
        raise Invalid.field("body", "actor_id", msg="give this, or either publisher_id or assignee_id")
    require_line(named[0], name := cast("str", getattr(move, named[0])))
    return name
