"""Finds out who acts on a contract, by the tokens that a request shows and the key that signed it (SPEC 5.2, DESIGN 8).

A publisher_token belongs to a contract. A claim_token names the claim that it belongs to, so that a script can tell
whether that claim is still the present one. No token is stored.

Refusing a wrong token costs one small read, which tells whether the contract exists. The rest of the contract, whose
result may have a megabyte, is not read for that.
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
    """Who acts on a contract, and the proofs that the request has shown."""

    name: str = ""
    """The name that the request gives: that of the publisher or of the assignee."""
    has_publisher_token: bool = False
    claim: Claim = NO_CLAIM
    """The claim whose token the request has shown."""
    signed: Signed = UNSIGNED


class Proofs:
    """Issues tokens, and finds out who acts by what a request shows. Every async method raises StoreUnavailable."""

    def __init__(self, contracts: TaskReader, tokens: Tokens) -> None:
        self._contracts = contracts
        self._tokens = tokens

    def publisher_token(self, task_id: str) -> str:
        """Return the publisher_token of a contract, which only the answer to its offer shows."""
        return self._tokens.issue("publish", task_id)

    def claim_token(self, task_id: str, claim: Claim) -> str:
        """Return `<attempt>.<request>.<mac>`."""
        return f"{claim.attempt}.{claim.request}.{self._tokens.issue('claim', task_id, claim.attempt, claim.request)}"

    async def publisher(self, task_id: str, proof: Cancellation, signed: Signed) -> Actor:
        """Return who acts as the publisher. Raises Refused `task.unknown`, `task.publisher`."""
        ids.require_id(task_id, "task.unknown")
        return Actor(
            has_publisher_token=await self._shows(task_id, proof.publisher_token, "task.publisher"), signed=signed
        )

    async def actor(self, task_id: str, move: Transition, signed: Signed) -> Actor:
        """Return who moves a contract. Raises Invalid, Refused `task.unknown`, `task.proof`, `task.token`."""
        ids.require_id(task_id, "task.unknown")
        return Actor(
            name=_actor_name(move),
            has_publisher_token=await self._shows(task_id, move.publisher_token, "task.proof"),
            claim=NO_CLAIM if move.claim_token is None else await self.claim_of(task_id, move.claim_token),
            signed=signed,
        )

    async def claim_of(self, task_id: str, claim_token: str) -> Claim:
        """Return the claim that a token names. Raises Refused `task.unknown`, `task.token`."""
        ids.require_id(task_id, "task.unknown")
        attempt, _, rest = claim_token.partition(".")
        request, _, mac = rest.partition(".")
        if not self._tokens.proves(mac, "claim", task_id, attempt, request):
            await self._refuse(task_id, "task.token")
        return Claim(attempt, request)

    async def require_publisher(self, task_id: str, publisher_token: str | None, signer: str) -> None:
        """Raise unless the request shows the publisher_token or is signed with the key of the offer.

        Raises Refused `task.unknown`, `callbacks.proof` if it has neither a token nor a signature, `task.publisher`.
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
        """Return whether the publisher_token was shown. A wrong one is refused with `code`, not ignored."""
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
    """Return the name of the actor: actor_id, or the publisher_id or assignee_id in its place. Raises Invalid."""
    named = [name for name in ("actor_id", "publisher_id", "assignee_id") if getattr(move, name) is not None]
    if move.actor_id is None and len(named) != 1:
        raise Invalid.field("body", "actor_id", msg="give actor_id, or either publisher_id or assignee_id")
    require_line(named[0], name := cast("str", getattr(move, named[0])))
    return name
