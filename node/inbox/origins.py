"""Finds the origins of inboxes and of the messages that they hold, for the operator only."""

from collections.abc import AsyncIterator, Sequence
from typing import cast

import msgspec

from node.inbox.model import MESSAGE
from node.share.origin import Attributed, ClientOrigin
from node.store import Store, ids, keys
from node.store.decoding import entries_of, number, text


class _Signed(msgspec.Struct):
    """The signer of a message. Nothing else of the message is read for the operator."""

    signer: str | None = None


def sender_name(address: str, client: str) -> str:
    """Return the name of a client within one inbox. In every other inbox, the client has another name."""
    return ids.digest(address, client)[:16]


class InboxOrigins:
    """Finds the inboxes and messages of a client or key by scanning all inboxes. Raises StoreUnavailable."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def find(self, origin: ClientOrigin) -> list[Attributed]:
        """Return the inboxes and the unsettled messages that came from an origin.

        Of a sender, only a digest of its address is known, so the messages of a whole network cannot be found.
        """
        found: dict[str, Attributed] = {}
        async for opened in self._inboxes():
            addresses = [each.id for each in opened]
            inboxes = [each for each in opened if origin.covers(each.client or "", each.signer)]
            found |= {each.id: each for each in inboxes}
            found |= {each.id: each for each in await self._messages(origin, addresses)}
        return list(found.values())

    async def _inboxes(self) -> AsyncIterator[list[Attributed]]:
        """Yield all inboxes in batches, each with the client in whose quota it counts."""
        async for names in self._store.names(keys.pattern("inbox")):
            addresses = [name.rpartition(":")[2] for name in names]
            rows = await self._store.run_all([("HMGET", keys.inbox(each), "client", "opened_at") for each in addresses])
            clients = cast("list[tuple[bytes | None, bytes | None]]", rows)
            yield [
                Attributed("inbox", address, number(at), text(client), address if ids.is_of_key(address) else None)
                for address, (client, at) in zip(addresses, clients, strict=True)
            ]

    async def _messages(self, origin: ClientOrigin, addresses: Sequence[str]) -> list[Attributed]:
        if origin.client:
            return await self._of_sender(origin.client, addresses)
        return [each for address in addresses for each in await self._of_key(origin.key, address)] if origin.key else []

    async def _of_sender(self, client: str, addresses: Sequence[str]) -> list[Attributed]:
        held = await self._store.run_all([("ZRANGE", keys.inbox_ends(each), 0, -1) for each in addresses])
        places = zip(addresses, cast("list[list[bytes]]", held), strict=True)
        words = [(address, place.decode().split()) for address, found in places for place in found]
        sent = [(address, place[1]) for address, place in words if place[3] == sender_name(address, client)]
        times = await self._store.run_all([("HGET", keys.inbox_receipt(*each), "sent_at") for each in sent])
        return [
            Attributed(MESSAGE, ":".join(each), number(at), client, None)
            for each, at in zip(sent, cast("list[bytes | None]", times), strict=True)
        ]

    async def _of_key(self, key: str, address: str) -> list[Attributed]:
        entries = await self._store.command("XRANGE", keys.inbox_messages(address), "-", "+")
        return [
            Attributed(MESSAGE, f"{address}:{message[b'id'].decode()}", int(message[b"at"]), None, key)
            for _, message in entries_of(entries)
            if msgspec.json.decode(message[b"text"], type=_Signed).signer == key
        ]
