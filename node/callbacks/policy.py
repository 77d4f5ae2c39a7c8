"""Whether a callback_url that a client gives is taken at all (DESIGN 8).

A courtesy to the client, who learns at once: what protects others is the guard at every call.
"""

from ipaddress import ip_network

from node.callbacks.owners import publisher_of, site_part
from node.callbacks.resolve import SystemResolver, check_name
from node.callbacks.target import Policy, Target, TargetRefused, parse
from node.common.refusal import Invalid
from node.config import ConfigError, Settings


class TargetPolicy:
    """Refuses targets that would never be called."""

    def __init__(self, settings: Settings) -> None:
        self._policy = policy_of(settings)
        self._resolver = SystemResolver()

    def check(self, url: str) -> Target:
        """Look at the URL alone, for the acknowledgement path. Raises Invalid."""
        try:
            return parse(url, self._policy)
        except TargetRefused as refused:
            raise _invalid(refused) from None

    async def accept(self, url: str, client: str) -> dict[str, str]:
        """Look at the URL and at what its name stands for now, for at most a second: what is kept of it then.

        Raises Invalid.
        """
        target = self.check(url)
        kept = self.kept(url, client)
        try:
            await check_name(target, self._policy, self._resolver, client=site_part(kept["callback_by"]))
        except TargetRefused as refused:
            raise _invalid(refused) from None
        return kept

    def kept(self, url: str, client: str) -> dict[str, str]:
        """Fields of an entity whose news go to that URL, given by that client."""
        return {"callback_url": url, "callback_by": publisher_of(client)}


def policy_of(settings: Settings) -> Policy:
    """What this node may call. Raises ConfigError."""
    names = [name.strip() for name in settings.callback_refused_networks.split(",") if name.strip()]
    try:
        refused = [ip_network(name) for name in names]
    except ValueError as error:
        raise ConfigError(f"RELAY_CALLBACK_REFUSED_NETWORKS: {error}") from error
    return Policy.of(settings.public_url, refused=refused, allow_private=settings.callback_allow_private)


def _invalid(refused: TargetRefused) -> Invalid:
    return Invalid.field("body", "callback_url", msg=str(refused), kind=f"callback_{refused.reason}")
