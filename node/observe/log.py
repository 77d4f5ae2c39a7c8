"""How a process of the node logs: one JSON object per line on stderr, from the node and from libraries alike.

A line says what happened to which id, never what somebody wrote: no payload, title, body or token is a field of a line.
Tracebacks come without the values of variables and without what an exception quotes, and long text is cut. Lines that
belong to a request have its id, from `REQUEST_ID`.
"""

import json
import logging
import logging.config
import os
import re
import sys
from types import TracebackType
from typing import Any

import orjson
import structlog
from structlog.processors import ExceptionRenderer, JSONRenderer, TimeStamper
from structlog.stdlib import ProcessorFormatter
from structlog.tracebacks import ExceptionDictTransformer
from structlog.typing import EventDict, Processor

from node import VERSION
from node.common.request_id import REQUEST_ID

MAX_TEXT = 500
"""Characters after which a text in a line is cut: a library's message may quote its input."""

_role = "command"

QUOTED = re.compile(r"""(?:(?<!\w)|(?<=\bb))(['"])(?:\\.|.)+?(?:\1(?!\w)|\Z)""", re.DOTALL)
"""Matches a quotation of text or bytes in a message of Python or a library, which may quote a payload. A quotation that
is not closed goes on to the end of the message: trying each quotation mark anew would take time quadratic in their
number."""


def add_origin(_logger: object, _method: str, event: EventDict) -> EventDict:
    """A processor that adds which process of which version wrote the line, and for which request."""
    if request_id := REQUEST_ID.get():
        event.setdefault("request_id", request_id)
    event["pid"], event["role"], event["version"] = os.getpid(), _role, VERSION
    return event


CONTEXT: list[Processor] = [
    structlog.contextvars.merge_contextvars,
    add_origin,
    structlog.stdlib.add_log_level,
    TimeStamper(fmt="iso", utc=True),
]

# The level is set in the standard library, not by a structlog wrapper: a logger keeps the wrapper of its first use.
PROCESSORS: list[Processor] = [structlog.stdlib.filter_by_level, *CONTEXT, ProcessorFormatter.wrap_for_formatter]
"""One list for all configurations, because a logger keeps the list of its first use."""


def configure(level: str, role: str = "") -> None:
    """Send what this process logs, from `level` up, to stderr as JSON. May be called again to change the level.

    `role`: what lines call this process from now on; an empty role changes nothing. A process with a role also logs the
    exception that ends it.
    """
    global _role  # noqa: PLW0603 - of the process, as logging is
    _role = role or _role
    structlog.configure(
        processors=PROCESSORS,
        wrapper_class=structlog.make_filtering_bound_logger(logging.NOTSET),
        # A log line that cannot be written must not fail a request; the standard library's handlers ensure that.
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    logging.config.dictConfig(standard_library(level))
    logging.captureWarnings(capture=True)
    if role:
        sys.excepthook = _log_last


def standard_library(level: str) -> dict[str, Any]:
    """Return the `logging` configuration that `configure` applies, for Granian, which applies it again itself.

    Other libraries log only from warning up: at info, HTTP clients log the addresses that they call, and Granian logs a
    line for each client that goes away during its answer.
    """
    own: dict[str, Any] = {"level": level.upper(), "handlers": [], "propagate": True}
    others = max(logging.WARNING, logging.getLevelNamesMapping()[level.upper()])
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"json": {"()": "node.observe.log.formatter"}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "stream": "ext://sys.stderr", "formatter": "json"}},
        "loggers": {"node": own, "_granian": dict(own), "_granian.asgi.io": {**own, "level": others}},
        "root": {"level": others, "handlers": ["stderr"]},
    }


def _log_last(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Log an uncaught exception. Python would print it in many lines, with everything that the exception quotes."""
    structlog.stdlib.get_logger("node").critical("process failed", exc_info=(kind, error, trace))


def formatter() -> logging.Formatter:
    """Return a formatter that renders a record of the node or of a library as one line of JSON."""
    return ProcessorFormatter(
        foreign_pre_chain=[*CONTEXT, structlog.stdlib.add_logger_name],
        processors=[
            ProcessorFormatter.remove_processors_meta,
            ExceptionRenderer(ExceptionDictTransformer(show_locals=False)),
            hide_quoted,
            cut,
            JSONRenderer(serializer=_dumps),
        ],
    )


def hide_quoted(_logger: object, _method: str, event: EventDict) -> EventDict:
    """A processor that leaves out what exceptions and library messages quote."""
    if "exception" in event:
        event["exception"] = _unquoted(event["exception"])
    if not event.get("logger", "node").startswith(("node", "_granian", "py.warnings")):
        event["event"] = QUOTED.sub("'…'", str(event["event"]))
    return event


def _unquoted(raised: Any) -> Any:
    match raised:
        case list():
            return [_unquoted(inner) for inner in raised]  # pyright: ignore[reportUnknownVariableType]
        case {"exc_value": str(message), **rest}:
            kept = {name: _unquoted(inner) if name == "exceptions" else inner for name, inner in rest.items()}
            return {**kept, "exc_value": QUOTED.sub("'…'", message)}
        case _:
            return raised


def cut(_logger: object, _method: str, event: EventDict) -> EventDict:
    """A processor that shortens every text of an event to MAX_TEXT characters."""
    return {name: _cut(value) for name, value in event.items()}


def _cut(value: Any) -> Any:
    match value:
        case str() if len(value) > MAX_TEXT:
            return value[:MAX_TEXT] + "…"
        case dict():
            return {name: _cut(inner) for name, inner in value.items()}  # pyright: ignore[reportUnknownVariableType]
        case list():
            return [_cut(inner) for inner in value]  # pyright: ignore[reportUnknownVariableType]
        case _:
            return value


def _dumps(event: EventDict, **_: object) -> str:
    try:
        return orjson.dumps(event, default=str).decode()
    except TypeError:  # a text has lone surrogates, such as a file name that is not UTF-8
        return json.dumps(event, default=str)
