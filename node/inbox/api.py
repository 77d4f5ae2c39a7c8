"""/api/v1/inboxes (NETWORK 1)."""

from contextlib import AsyncExitStack

from msgspec import UNSET
from msgspec.json import encode

from node.callbacks.model import InboxMessageCallback
from node.common.refusal import Refused
from node.inbox import examples
from node.inbox.listing import CardListing
from node.inbox.model import (
    ClosedInbox,
    Inbox,
    InboxCard,
    InboxPage,
    InboxPageQuery,
    InboxProof,
    NewInbox,
    NewInboxMessage,
    OpenedInbox,
    Receipt,
    ReceiptQuery,
    SendQuery,
    SentInboxMessage,
    SettledMessage,
    SettledThrough,
    Settlement,
    SettleThrough,
)
from node.inbox.service import INBOX_LIFE_MS, Inboxes
from node.share.cost import VECTOR_CHARACTERS
from node.store import ids
from node.store.errors import after_write
from node.web.bearer import bearer_of, lacks_token
from node.web.http import NO_STORE, Request, Response, created, json_response
from node.web.idempotency import idempotency_key
from node.web.json import read_json, read_optional_json, read_query
from node.web.limits import Limiter, Permit
from node.web.route import Operation, OtherAnswer, Route, routes_of
from node.web.signature import Signatures

TOKEN = ("Authorization", "`Bearer` and the inbox_token; or sign the request with the key of the address instead")
RECEIPT = ("Authorization", "`Bearer` and the receipt_token of the message")
EITHER = (
    "Authorization",
    "`Bearer` and the receipt_token of the message; the owner of the inbox sends its inbox_token "
    "or signs the request instead",
)

OWNER = ("inbox.unknown", "inbox.proof", "inbox.token", "signature.invalid")
REPEATED = ("idempotency.conflict", "idempotency.short", "signature.replayed")


class InboxApi:
    """Inboxes over HTTP."""

    def __init__(self, inboxes: Inboxes, limiter: Limiter, signatures: Signatures, listing: CardListing) -> None:
        """`listing` lists inboxes that are opened with a card."""
        self._inboxes = inboxes
        self._limiter = limiter
        self._listing = listing
        self._signatures = signatures

    @Operation(
        "Open an inbox, or renew it with its token or signature",
        body=NewInbox,
        headers=(TOKEN,),
        answers=OpenedInbox,
        shows={"agent_id": UNSET},
        status=201,
        also=(
            OtherAnswer(
                "application/json",
                OpenedInbox,
                200,
                "The inbox existed already: it was renewed, and the fields in the body were changed.",
            ),
        ),
        callbacks=(InboxMessageCallback,),
        errors=(*OWNER, "quota.inbox", "language.not_english", "agents.host_full", *REPEATED),
        limit="inbox",
    )
    async def open(self, request: Request) -> Response:
        """Open an inbox, or renew it. An empty body opens one with the defaults, or changes nothing."""
        async with self._limiter.permit(request, "inbox") as permit, AsyncExitStack() as stack:
            wanted = await read_optional_json(request, NewInbox)
            body = await request.body()
            proof = await proof_of(request, self._signatures)
            if proof.is_empty and lacks_token(request):  # the client meant an existing inbox: open no new one
                raise Refused("inbox.proof")
            named = self._inboxes.named(proof)
            home = ids.partition_of(named) if named else None
            idempotency = idempotency_key(request, f"inbox-open:{named}", body, home=home)
            place = None
            if await self._inboxes.is_renewal(proof):
                await permit.count()
            else:
                place = await permit.hold(INBOX_LIFE_MS, repeats=idempotency)
            await permit.charge("inbox", len(body), idempotency)
            is_renewal = place is None
            earlier = await self._inboxes.name_on_card(named) if is_renewal and wanted.card is not UNSET else ""
            listing = None
            if wanted.card:
                listing = await stack.enter_async_context(self._limiter.permit(request, "agent", refusals=False))
                await self._judge(listing, named, wanted.card)
            opened, opening = await self._inboxes.open(permit.client, place, wanted, proof, idempotency)
            if opening.replayed_at:
                await permit.replay()
                if listing:
                    await listing.keep_nothing()
            elif not opening.is_new:
                await permit.release()
            if wanted.card is not UNSET:
                await self._relist(permit.client, wanted.card, "" if opening.replayed_at else earlier, proof, opened)
        if opening.is_new:
            return created(opened, opened.url, NO_STORE)
        return json_response(opened, headers=NO_STORE)

    @Operation(
        "Read what an inbox is for, and whether it accepts messages",
        answers=Inbox,
        shows=examples.INBOX,
        errors=("inbox.unknown",),
    )
    async def get(self, request: Request) -> Response:
        return json_response(await self._inboxes.get(request.params["address"]))

    @Operation(
        "Close an inbox: its unsettled messages end as expired",
        headers=(TOKEN,),
        answers=ClosedInbox,
        errors=(*OWNER, "signature.replayed"),
    )
    async def close(self, request: Request) -> Response:
        proof = await proof_of(request, self._signatures)
        return json_response(await self._inboxes.close(request.params["address"], proof))

    @Operation(
        "Send a message to an inbox; with wait, wait for its owner's reply",
        hot=True,
        body=NewInboxMessage,
        query=SendQuery,
        answers=SentInboxMessage,
        shows=examples.SENT,
        status=201,
        errors=("inbox.unknown", "inbox.policy", "inbox.full", "signature.invalid", *REPEATED),
        limit="inbox_send",
    )
    async def send(self, request: Request) -> Response:
        address = request.params["address"]
        own = self._limiter.permit(request, "inbox_sender", address, refusals=False)
        async with own as rate, self._limiter.permit(request, "inbox_send") as permit:
            query = read_query(request, SendQuery)
            new = await read_json(request, NewInboxMessage)
            body = await request.body()
            await permit.count()
            proof = await proof_of(request, self._signatures)
            idempotency = idempotency_key(request, f"inbox:{address}", body, home=ids.partition_of(address))
            await permit.charge("message", len(body), idempotency)
            sending = self._inboxes.send(rate, address, new, proof, idempotency, query.wait)
            sent, replayed = await request.while_waiting(query.wait, sending)
            if replayed:
                await permit.replay()
        return created(sent, sent.receipt_url, NO_STORE)

    @Operation(
        "Read the unsettled messages of your inbox after since_seq",
        hot=True,
        query=InboxPageQuery,
        headers=(TOKEN,),
        answers=InboxPage,
        shows=examples.PAGE,
        errors=OWNER,
    )
    async def read(self, request: Request) -> Response:
        query = read_query(request, InboxPageQuery)
        proof = await proof_of(request, self._signatures)
        reading = self._inboxes.read(request.params["address"], query, proof)
        return json_response(await request.while_waiting(query.wait, reading), headers=NO_STORE)

    @Operation(
        "Settle a message of your inbox: it is no longer held, and its sender gets your reply",
        hot=True,
        body=Settlement,
        headers=(TOKEN,),
        answers=SettledMessage,
        errors=(*OWNER, "receipt.unknown", "inbox.settled"),
        keeps="result",
    )
    async def settle(self, request: Request) -> Response:
        settlement = await read_json(request, Settlement)
        proof = await proof_of(request, self._signatures)
        address, message_id = request.params["address"], request.params["id"]
        async with self._limiter.charged(request, "result", len(await request.body())) as give_back:
            settled, is_repeated = await self._inboxes.settle(address, message_id, settlement, proof)
            if is_repeated:
                give_back()
        return json_response(settled, headers=NO_STORE)

    @Operation(
        "Settle all messages of your inbox up to a seq as done",
        hot=True,
        body=SettleThrough,
        headers=(TOKEN,),
        answers=SettledThrough,
        shows=examples.SETTLED,
        errors=OWNER,
    )
    async def settle_through(self, request: Request) -> Response:
        wanted = await read_json(request, SettleThrough)
        proof = await proof_of(request, self._signatures)
        settled = await self._inboxes.settle_through(request.params["address"], wanted.through_seq, proof)
        return json_response(settled, headers=NO_STORE)

    @Operation(
        "Read what became of a message; with wait, wait for its next status",
        query=ReceiptQuery,
        headers=(EITHER,),
        answers=Receipt,
        shows=examples.RECEIPT,
        errors=(*OWNER, "receipt.unknown"),
    )
    async def receipt(self, request: Request) -> Response:
        query = read_query(request, ReceiptQuery)
        proof = await proof_of(request, self._signatures)
        asking = self._inboxes.receipt(request.params["address"], request.params["id"], query, proof)
        return json_response(await request.while_waiting(query.wait, asking), headers=NO_STORE)

    @Operation(
        "Withdraw a message that you sent, if it is not settled",
        headers=(RECEIPT,),
        answers=SettledMessage,
        shows=examples.WITHDRAWN,
        errors=("inbox.unknown", "inbox.proof", "receipt.token", "receipt.unknown", "inbox.settled"),
    )
    async def withdraw(self, request: Request) -> Response:
        proof = InboxProof(bearer_of(request))
        withdrawn = await self._inboxes.withdraw(request.params["address"], request.params["id"], proof)
        return json_response(withdrawn, headers=NO_STORE)

    def routes(self) -> tuple[Route, ...]:
        """NETWORK 1."""
        return routes_of(
            "inboxes",
            ("POST", "/api/v1/inboxes", self.open),
            ("GET", "/api/v1/inboxes/{address}", self.get),
            ("DELETE", "/api/v1/inboxes/{address}", self.close),
            ("POST", "/api/v1/inboxes/{address}/messages", self.send),
            ("GET", "/api/v1/inboxes/{address}/messages", self.read),
            ("POST", "/api/v1/inboxes/{address}/messages/{id}/settle", self.settle),
            ("POST", "/api/v1/inboxes/{address}/settle", self.settle_through),
            ("GET", "/api/v1/inboxes/{address}/messages/{id}", self.receipt),
            ("DELETE", "/api/v1/inboxes/{address}/messages/{id}", self.withdraw),
        )

    async def _judge(self, permit: Permit, address: str, card: InboxCard) -> None:
        """Count and charge the listing of an inbox's card in the directory. Raises if the card cannot be listed."""
        await permit.count()
        await permit.charge("agent", len(encode(card)) + VECTOR_CHARACTERS * len(card.skills))
        await self._listing.judge(address, card)

    async def _relist(
        self, client: str, card: InboxCard | None, earlier: str, proof: InboxProof, opened: OpenedInbox
    ) -> None:
        """List the card of an open inbox in place of its card with the name `earlier`.

        The listing is proven by the key that signed the request, or else by the token of the inbox.
        """
        is_by_key = proof.signer and proof.token is None  # a token takes precedence, as in `proven`
        owner = InboxProof(None, proof.signer) if is_by_key else InboxProof(opened.inbox_token)
        with after_write("the inbox is open"):
            if card:
                opened.agent_id = await self._listing.enter(client, card, owner) or UNSET
            if earlier and not (card and card.name == earlier):
                await self._listing.leave(opened.address, earlier, owner)


async def proof_of(request: Request, signatures: Signatures) -> InboxProof:
    """Return the credentials of the request. Raises RefusedWithHeaders `signature.invalid`."""
    return InboxProof(*await signatures.credentials(request))
