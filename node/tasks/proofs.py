"""What a request presents as proof for a step on a contract: tokens, and the key that signed it.

A wrong token costs one small read, which tells whether there is such a contract; the contract itself, whose result may
have a megabyte, is not read for a refusal.
"""

from typing import NoReturn

from node.common.refusal import Refused
from node.sign.signed import Signed
from node.store import ids
from node.tasks.model import Cancellation, Transition
from node.tasks.reader import TaskReader
from node.tasks.replies import known
from node.tasks.rights import Actor, Claim, ContractTokens, actor_name


class Proofs:
    """Finds out who acts from what a request presents."""

    def __init__(self, contracts: TaskReader, tokens: ContractTokens) -> None:
        self._contracts = contracts
        self._tokens = tokens

    async def publisher(self, task_id: str, proof: Cancellation, signed: Signed | None) -> Actor:
        """Who acts as the publisher. Raises Refused `task.unknown`, `task.publisher`, StoreUnavailable."""
        ids.require_id(task_id, "task.unknown")
        return Actor(
            has_publisher_token=await self._shows(task_id, proof.publisher_token, "task.publisher"),
            signer=signed.signer if signed else "",
            replay_id=signed.replay_id if signed else "",
        )

    async def actor(self, task_id: str, move: Transition, signed: Signed | None) -> Actor:
        """Who moves a contract.

        Raises Invalid, Refused `task.unknown`, `task.proof`, `task.token`, StoreUnavailable.
        """
        ids.require_id(task_id, "task.unknown")
        return Actor(
            name=actor_name(move),
            has_publisher_token=await self._shows(task_id, move.publisher_token, "task.proof"),
            claim=await self.claim_of(task_id, move.claim_token) if move.claim_token is not None else None,
            signer=signed.signer if signed else "",
            replay_id=signed.replay_id if signed else "",
        )

    async def claim_of(self, task_id: str, claim_token: str) -> Claim:
        """The claim of a token. Raises Refused `task.unknown`, `task.token`, StoreUnavailable."""
        ids.require_id(task_id, "task.unknown")
        claim = self._tokens.claim_of(task_id, claim_token)
        return claim or await self._refuse(task_id, "task.token")

    async def require_publisher(self, task_id: str, publisher_token: str | None, signer: str) -> None:
        """Raise unless the publisher_token or the key of the offer is shown.

        Raises Refused `task.unknown`, `callbacks.proof` if nothing is shown, `task.publisher`, StoreUnavailable.
        """
        ids.require_id(task_id, "task.unknown")
        row = known(await self._contracts.read(task_id, (b"kind", b"signer")))
        if publisher_token is None and not signer:
            raise Refused("callbacks.proof")
        is_signer = bool(signer) and row.fields.get(b"signer") == signer.encode()
        if not is_signer and not self._tokens.is_publisher(task_id, publisher_token):
            raise Refused("task.publisher")

    async def require_known(self, task_id: str) -> None:
        """Raise Refused `task.unknown` if there is no such contract. Raises StoreUnavailable."""
        ids.require_id(task_id, "task.unknown")
        known(await self._contracts.read(task_id, (b"kind",)))

    async def _shows(self, task_id: str, publisher_token: str | None, code: str) -> bool:
        """Whether the publisher_token was shown. A wrong one is refused with `code`, not taken for none."""
        if publisher_token is None:
            return False
        if not self._tokens.is_publisher(task_id, publisher_token):
            await self._refuse(task_id, code)
        return True

    async def _refuse(self, task_id: str, code: str) -> NoReturn:
        """Refuse a wrong token with `code`, or with `task.unknown` if there is no such contract."""
        await self.require_known(task_id)
        raise Refused(code)
