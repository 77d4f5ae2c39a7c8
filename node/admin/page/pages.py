"""The operator's pages: each runs commands as `relay-node admin` does, and shows what they return.

The page of an act first says what would happen (the command's dry run). Its one button posts the form that does it.
"""

import argparse
import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from http import HTTPStatus
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec

from node.admin.commands import Commands
from node.admin.console import clients, reports, status, threads
from node.admin.console.clients import TOP
from node.admin.console.context import AdminCommand, CommandContext, CommandResult, opened
from node.admin.page.actions import ACTIONS, TIMES, PageAction, arguments
from node.admin.page.csrf import CsrfTokens
from node.admin.page.views import PAGE_SIZE, VIEWS
from node.common.refusal import Refused
from node.config import ConfigError, Settings
from node.observe.metrics.server import AdminRequest, AdminResponse, plain
from node.site.assets import ASSETS, FOR_EVER, TYPES, Assets
from node.site.template import FOLDER, Templates
from node.store import CommandFailed, StoreUnavailable
from node.text.readable import readable
from node.web.errors import sentence

OWN = Path(__file__).parent
CSP = (
    "default-src 'none'; style-src 'self'; font-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
HEADERS = (
    ("Content-Type", "text/html; charset=utf-8"),
    ("Cache-Control", "no-store"),
    ("Content-Security-Policy", CSP),
    # Not no-referrer, with which browsers send forms with `Origin: null`.
    ("Referrer-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("X-Content-Type-Options", "nosniff"),
)
FILE_HEADERS = (("Cache-Control", FOR_EVER.decode()), ("X-Content-Type-Options", "nosniff"))
"""Headers of a stylesheet or font. It never changes under the same name, which contains its digest."""

MAX_FIELDS = 8
"""Most fields that a query or form may have; none of ours has so many."""

FILES = (ASSETS, Assets(OWN / "static"))


class BadRequest(Exception):
    """A request that no page of ours sends; the message says what is wrong with it."""


class _Parser(argparse.ArgumentParser):
    """Raises BadRequest where argparse would end the process."""

    def error(self, message: str) -> NoReturn:
        raise BadRequest(message)


class OperatorPages:
    """All pages of one process. Connects to Redis when a page is first asked for."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._csrf = CsrfTokens()
        self._parser = _Parser(add_help=False)
        commands = Commands(self._parser)
        for group in (status, threads, reports, clients):
            group.register(commands)
        self._templates = Templates(OWN / "templates", FOLDER, shown=_shown)
        self._open = AsyncExitStack()
        self._context: CommandContext | None = None
        self._opening = asyncio.Lock()

    async def close(self) -> None:
        await self._open.aclose()

    async def answer(self, request: AdminRequest) -> AdminResponse:
        """Return the page, or one that says why there is none."""
        target = urlsplit(request.target)
        if target.path.startswith("/static/"):
            return _file(target.path.removeprefix("/static/"))
        try:
            return await self._page(request, target.path.removeprefix("/admin").rstrip("/"), _fields(target.query))
        except Refused as refused:
            return self._failure(HTTPStatus.NOT_FOUND, sentence(refused))
        except BadRequest as error:
            return self._failure(HTTPStatus.BAD_REQUEST, str(error))
        except (StoreUnavailable, CommandFailed, ConfigError) as error:
            return self._failure(HTTPStatus.SERVICE_UNAVAILABLE, f"Redis did not answer as it should: {error}")

    async def _page(self, request: AdminRequest, path: str, fields: Mapping[str, str]) -> AdminResponse:
        step, _, name = path.removeprefix("/").partition("/")
        if step == "act" and name in ACTIONS:
            if request.method == "POST":
                return await self._act(request, name)
            return await self._confirm(request, name, fields.get("id", ""))
        view = VIEWS.get(path)
        if view is None:
            return self._failure(HTTPStatus.NOT_FOUND, "There is no such page.")
        if request.method == "POST":
            return self._failure(HTTPStatus.METHOD_NOT_ALLOWED, "This page only shows things; it takes no form.")
        found = {
            name: msgspec.to_builtins((await self._run(request, line)).data)
            for name, line in view.lines(fields).items()
        }
        if not path:
            found["instance"] = await request.ready()
        return self._html(HTTPStatus.OK, view.template, path, fields=fields, top=TOP, page_size=PAGE_SIZE, **found)

    async def _confirm(self, request: AdminRequest, name: str, target: str) -> AdminResponse:
        act = ACTIONS[name]
        if not target:
            raise BadRequest("The address names no thread, post or client to do this to.")
        would = await self._run(request, arguments(act, target, {}), is_dry=True)
        token = self._csrf.token(name, target)
        return self._outcome(act, name, target, would, token if would.ok else "")

    async def _act(self, request: AdminRequest, name: str) -> AdminResponse:
        form = _fields(request.body.decode("utf-8", "replace"))
        act, target = ACTIONS[name], form.get("id", "")
        if not self._csrf.is_confirmed(name, target, form.get("token", ""), request.headers):
            why = "Nothing was done, because the form did not come from this page. Go back and reload the page."
            return self._failure(HTTPStatus.FORBIDDEN, why)
        return self._outcome(act, name, target, await self._run(request, arguments(act, target, form)), "")

    async def _run(self, request: AdminRequest, line: list[str], *, is_dry: bool = False) -> CommandResult:
        """Run a command as the command line does; if `is_dry`, only find out what it would do."""
        try:
            given = self._parser.parse_args(line)
        except SystemExit as error:  # argparse also ends the process without an error, after --help for instance
            raise BadRequest("This is not a command.") from error
        if is_dry:
            given.dry_run = True
        command: AdminCommand = given.command
        context = await self._reach()
        return await command.carry_out(context._replace(who=f"admin page, {request.peer}"), given)

    async def _reach(self) -> CommandContext:
        async with self._opening:
            if self._context is None:
                self._context = await self._open.enter_async_context(opened(self._settings, ""))
            return self._context

    def _outcome(self, act: PageAction, name: str, target: str, result: CommandResult, token: str) -> AdminResponse:
        """Return the page that says what would be done, with a button if there is a token, or what was done."""
        status = HTTPStatus.OK if result.ok else HTTPStatus.NOT_FOUND
        values = {"act": act, "name": name, "target": target, "result": result, "token": token, "times": TIMES}
        return self._html(status, "act.html", f"/act/{name}", **values)

    def _failure(self, status: HTTPStatus, why: str) -> AdminResponse:
        return self._html(status, "failure.html", "", why=why, status=status)

    def _html(self, status: HTTPStatus, template: str, path: str, /, **values: Any) -> AdminResponse:
        page = self._templates.render(template, path=path, asset=_asset, query=_query, **values)
        return AdminResponse(status, HEADERS, page.encode())


def _shown(value: Any) -> Any:
    """Return a value as a page may show it: text without characters that reorder or hide text."""
    return readable(value) if type(value) is str else value


def _fields(text: str) -> dict[str, str]:
    try:
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_FIELDS))
    except ValueError:
        raise BadRequest("The request has too many fields.") from None


def _query(**fields: object) -> str:
    """Encode fields as the query of an address."""
    return urlencode(fields)


def _asset(name: str) -> str:
    return FILES[name == "admin.css"].url(name)


def _file(name: str) -> AdminResponse:
    for files in FILES:
        if document := files.document(name):
            media_type = TYPES[Path(name).suffix]
            return AdminResponse(HTTPStatus.OK, (("Content-Type", media_type), *FILE_HEADERS), document.body)
    return plain(HTTPStatus.NOT_FOUND, b"There is no such file.\n")
