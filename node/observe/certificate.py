"""How long the TLS certificate of the node's public address is still valid.

The proxy in front of the node has the certificate and renews it. Once an hour, the node connects to its public address
as a client would. If that does not work from the node itself, no figure is shown.
"""

import asyncio
import ssl
import time
from typing import Any, cast
from urllib.parse import urlsplit

import structlog

from node.common.stopping import sleep_unless_stopped
from node.observe.metrics.snapshots import Reading

log = structlog.get_logger()

LOOK_SECONDS = 3600.0
"""Interval between two looks, in seconds."""

DEADLINE = 10.0
"""Maximum duration of one look, in seconds."""


class Certificate:
    """The certificate of a public address. Nothing is known of it before the first look, or without https."""

    def __init__(self, public_url: str) -> None:
        self._url = urlsplit(public_url)
        self._ends: float | None = None
        """When the certificate expires, in seconds since 1970; 0 if clients do not trust it; None if unknown."""

    def figures(self) -> list[Reading]:
        """Return the seconds for which clients still trust the certificate, as a metric; nothing if unknown."""
        if self._ends is None:
            return []
        return [Reading("relay_certificate_seconds", (), max(0.0, self._ends - time.time()))]

    async def watch(self, stop: asyncio.Event) -> None:
        """Look at the certificate every LOOK_SECONDS, until `stop` is set."""
        while self._url.scheme == "https" and not stop.is_set():
            await self.look()
            await sleep_unless_stopped(stop, LOOK_SECONDS)

    async def look(self) -> None:
        """Look at the certificate. If the address does not answer, the last result stays."""
        try:
            self._ends = await self._asked()
        except ssl.SSLCertVerificationError as untrusted:
            self._ends = 0.0
            log.warning("clients do not trust the certificate", reason=untrusted.verify_message)
        except (OSError, TimeoutError) as failure:
            log.info("certificate not seen", reason=str(failure) or "no answer in time")

    async def _asked(self) -> float:
        """Return when the certificate expires, in seconds since 1970. Raises OSError, TimeoutError."""
        async with asyncio.timeout(DEADLINE):
            _, writer = await asyncio.open_connection(self._url.hostname, self._url.port or 443, ssl=True)
        try:
            shown = cast("dict[str, Any]", writer.get_extra_info("peercert"))
            return ssl.cert_time_to_seconds(shown["notAfter"])
        finally:
            writer.transport.abort()
