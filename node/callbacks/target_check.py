"""Judges a callback_url, or the URL of an agent, when a client gives it (DESIGN 8).

This is a courtesy: the client learns at once that a URL would never be called. What protects others is the guard, which
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
"""The field that usually holds the URL."""


class TargetCheck:
    """Refuses URLs that would never be called."""

    def __init__(self, settings: Settings, is_known: Callable[[IdempotencyKey], Awaitable[bool]]) -> None:
        """`is_known`: whether a request with that Idempotency-Key has created something before."""
        self._is_known = is_known
        self._resolver = SystemResolver()
        self.change(settings)

    def change(self, settings: Settings) -> None:
        """Judge by these settings from now on."""
        self._policy = policy_of(settings)

    def check(self, url: str, field: str = CALLBACK_URL) -> Target:
        """Judge the URL without looking up its name, where an acknowledgement must not wait. Raises Invalid."""
        try:
            return parse(url, self._policy)
        except TargetRefused as refused:
            raise _invalid(refused, field) from None

    async def accept(self, url: str, client: str, repeats: IdempotencyKey | None = None) -> dict[str, str]:
        """Judge the URL, and the addresses that its name has now, within a second. Returns what is to be kept of it.

        `repeats`: the key under which something is created. If it was before, nothing is kept of this request, so that
        it does not matter where the URL leads by now. Raises Invalid, StoreUnavailable.
        """
        kept = self.kept(url, client)
        try:
            target = parse(url, self._policy)
            await check_name(target, self._policy, self._resolver, client=site_part(kept["callback_by"]))
        except TargetRefused as refused:
            if not repeats or not await self._is_known(repeats):
                raise _invalid(refused) from None
        return kept

    def kept(self, url: str, client: str) -> dict[str, str]:
        """The fields of an entity that say where its callbacks go, and who gave that URL."""
        return {"callback_url": url, "callback_by": publisher_of(client)}


def policy_of(settings: Settings) -> TargetPolicy:
    """What this node may call."""
    refused = settings.callback_refused_networks.networks
    return TargetPolicy.of(settings.public_url, refused=refused, allow_private=settings.callback_allow_private)


def _invalid(refused: TargetRefused, field: str = CALLBACK_URL) -> Invalid:
    return Invalid.field("body", field, msg=str(refused), kind=f"callback_{refused.reason}")
