"""Judges a callback_url, or the URL of an agent, when a client gives it (DESIGN 8).

This is a courtesy: the client learns at once that a URL would never be called. Others are protected by the guard, which
judges again at every attempt (`guard.py`).
"""

from collections.abc import Awaitable, Callable

from node.callbacks.owners import publisher_of, site_part
from node.callbacks.resolve import SystemResolver, check_name
from node.callbacks.target import Target, TargetPolicy, TargetRefused, parse
from node.common.refusal import Invalid
from node.config import Settings
from node.store.idempotency import IdempotencyKey

CALLBACK_URL = "callback_url"
"""The name of the field that usually holds the URL."""


class TargetCheck:
    """Refuses URLs that would never be called."""

    def __init__(self, settings: Settings, is_known: Callable[[IdempotencyKey], Awaitable[bool]]) -> None:
        """`is_known` tells whether an earlier request with an Idempotency-Key has created something."""
        self._is_known = is_known
        self._resolver = SystemResolver()
        self.change(settings)

    def change(self, settings: Settings) -> None:
        """Judge by these settings from now on."""
        self._policy = policy_of(settings)

    def check(self, url: str, field: str = CALLBACK_URL) -> Target:
        """Return the parsed URL without looking up its name, where an acknowledgement must not wait. Raises Invalid."""
        try:
            return parse(url, self._policy)
        except TargetRefused as refused:
            raise _invalid(refused, field) from None

    async def accept(self, url: str, client: str, repeats: IdempotencyKey | None = None) -> dict[str, str]:
        """Judge the URL, and the addresses that its name has now, within a second. Returns the fields to keep (`kept`).

        `repeats`: the Idempotency-Key of a request that creates something. If an earlier request with that key has
        created it, nothing of this request is kept, so it does not matter where the URL leads by now. Raises Invalid,
        StoreUnavailable.
        """
        kept = self.kept(url, client)
        try:
            target = parse(url, self._policy)
            await check_name(target, self._policy, self._resolver, site_part(kept["callback_by"]))
        except TargetRefused as refused:
            if not repeats or not await self._is_known(repeats):
                raise _invalid(refused) from None
        return kept

    def kept(self, url: str, client: str) -> dict[str, str]:
        """Return the fields of an entity that say where its callbacks go, and which publisher gave that URL."""
        return {"callback_url": url, "callback_by": publisher_of(client)}


def policy_of(settings: Settings) -> TargetPolicy:
    """Return what a node with these settings may call."""
    refused = settings.callback_refused_networks.networks
    return TargetPolicy.of(settings.public_url, refused=refused, allow_private=settings.callback_allow_private)


def _invalid(refused: TargetRefused, field: str = CALLBACK_URL) -> Invalid:
    return Invalid.field("body", field, msg=str(refused), kind=f"callback_{refused.reason}")
