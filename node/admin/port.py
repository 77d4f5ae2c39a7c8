"""The process behind RELAY_ADMIN_PORT: it serves metrics (`node.run.metrics`) and the operator's pages.

The pages need the services of every feature, which take memory that scrapes do not need. So they are loaded when the
operator first asks for a page.
"""

import argparse
import asyncio
import signal
import sys
from http import HTTPStatus
from importlib import import_module
from ipaddress import ip_address
from typing import TYPE_CHECKING, cast

from node.common import process
from node.common.addresses import unmapped
from node.config import ConfigError, Settings
from node.observe import log
from node.observe.metrics.server import AdminRequest, AdminResponse, plain
from node.run.metrics import report
from node.run.validation import loaded

if TYPE_CHECKING:
    from node.admin.page.pages import OperatorPages

FROM_ELSEWHERE = b"The admin pages can be opened from this machine only: use `ssh -L` or `kubectl port-forward`.\n"


class LazyPages:
    """The pages, loaded at the first request. Requests from other machines are refused."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._pages: OperatorPages | None = None
        self._lock = asyncio.Lock()

    async def answer(self, request: AdminRequest) -> AdminResponse:
        if not _is_this_machine(request.peer):
            return plain(HTTPStatus.FORBIDDEN, FROM_ELSEWHERE)
        async with self._lock:
            if self._pages is None:
                # In a thread, so that scrapes are answered meanwhile.
                module = await asyncio.to_thread(import_module, "node.admin.page.pages")
                self._pages = cast("OperatorPages", module.OperatorPages(self._settings))
        return await self._pages.answer(request)

    async def close(self) -> None:
        """Close the connections of the pages, if the pages were loaded."""
        if self._pages is not None:
            await self._pages.close()


def _is_this_machine(peer: str) -> bool:
    return unmapped(ip_address(peer)).is_loopback


async def serve(settings: Settings, roles: list[str]) -> None:
    """Serve until SIGTERM or SIGINT. Raises OSError if the port is taken."""
    pages = LazyPages(settings)
    try:
        await report(settings, roles, pages.answer)
    finally:
        await pages.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("roles", nargs="+")
    given = parser.parse_args()
    process.die_with_parent(given.parent, signal.SIGKILL)
    try:
        settings = loaded()
    except ConfigError as error:
        sys.stderr.write(f"relay-node: {error}\n")
        sys.exit(error.status)
    log.configure(settings.log, "metrics")
    asyncio.run(serve(settings, given.roles))


if __name__ == "__main__":
    main()
