"""The system's Chromium, and what a page did while a test had it open."""

import shutil
from collections.abc import Generator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Page, Playwright, ViewportSize

from tests.support.servers import PATIENCE

ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
DESKTOP: ViewportSize = {"width": 1280, "height": 900}
PHONE: ViewportSize = {"width": 375, "height": 812}
SMALLEST: ViewportSize = {"width": 320, "height": 640}


def launch(playwright: Playwright) -> Browser:
    """Start the system's Chromium. Fails the test, and says what to install, if there is none.

    The headless shell is preferred, since it takes less processor time.
    """
    found = filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "chromium-browser")))
    if (path := next(found, None)) is None:
        pytest.fail("no Chromium to look at the pages with: run `make system`, or install chromium-headless-shell")
    return playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS))


class Tab:
    """One page of the node, and everything it did that no page of the node may do."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.url = url
        self.trouble: list[str] = []
        page.on("console", lambda message: self._note(message.type in {"error", "warning"}, message.text))
        page.on("pageerror", lambda error: self._note(True, str(error)))
        page.on("dialog", lambda dialog: self._note(True, f"dialog: {dialog.message}"))
        page.on("request", lambda request: self._note(not request.url.startswith(url), f"request: {request.url}"))

    def open(self, path: str, status: int = 200) -> Page:
        """Open the path, and wait until everything is loaded."""
        answer = self.page.goto(self.url + path)
        assert answer is not None
        assert answer.status == status
        if status >= 400:  # the browser itself logs such a status to the console
            self.trouble = [line for line in self.trouble if f"status of {status}" not in line]
        return self.page

    def _note(self, is_trouble: bool, text: str) -> None:
        if is_trouble:
            self.trouble.append(text)


@contextmanager
def tab(
    browser: Browser,
    url: str,
    *,
    scripts: bool = True,
    scheme: str = "light",
    size: ViewportSize = DESKTOP,
    motion: str = "no-preference",
) -> Generator[Tab]:
    """Open one tab in a fresh browser profile. Anything that goes wrong in it fails the test."""
    context = browser.new_context(
        java_script_enabled=scripts,
        color_scheme="dark" if scheme == "dark" else "light",
        reduced_motion="reduce" if motion == "reduce" else "no-preference",
        viewport=size,
    )
    context.set_default_timeout(PATIENCE * 1000)
    opened = Tab(context.new_page(), url)
    try:
        yield opened
    finally:
        context.close()
    assert opened.trouble == []
