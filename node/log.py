"""How a process of the node logs: one JSON object a line on stderr, ours and the libraries' alike.

A line says what happened to which id, never what somebody wrote: no payload, title, body or token
is a field of a log line, tracebacks come without the values of variables, and long text is cut.
Whoever handles a request binds its id with `structlog.contextvars`; every line of it then has it.
"""

import logging
import logging.config
from typing import Any

import orjson
import structlog
from structlog.processors import ExceptionRenderer, JSONRenderer, TimeStamper
from structlog.stdlib import ProcessorFormatter
from structlog.tracebacks import ExceptionDictTransformer
from structlog.typing import EventDict, Processor

LONGEST_TEXT = 500  # characters: a library's message may quote its input

CONTEXT: list[Processor] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    TimeStamper(fmt="iso", utc=True),
]


def configure(level: str) -> None:
    """Send what this process logs, from `level` up, to stderr as JSON. Repeating it is harmless."""
    structlog.configure(
        processors=[*CONTEXT, ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        # A log line that cannot be written must not fail a request: the standard library's handlers see to that.
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    logging.config.dictConfig(standard_library(level))
    logging.captureWarnings(capture=True)


def standard_library(level: str) -> dict[str, Any]:
    """The `logging` configuration that `configure` applies, for Granian, which applies one itself.

    Other libraries speak from warning up only: at info, HTTP clients log the addresses they call.
    """
    own: dict[str, Any] = {"level": level.upper(), "handlers": [], "propagate": True}
    others = max(logging.WARNING, logging.getLevelNamesMapping()[level.upper()])
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"json": {"()": "node.log.formatter"}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "stream": "ext://sys.stderr", "formatter": "json"}},
        "loggers": {"node": own, "_granian": dict(own)},
        "root": {"level": others, "handlers": ["stderr"]},
    }


def formatter() -> logging.Formatter:
    """Renders a record of ours or of a library as one line of JSON."""
    return ProcessorFormatter(
        foreign_pre_chain=[*CONTEXT, structlog.stdlib.add_logger_name],
        processors=[
            ProcessorFormatter.remove_processors_meta,
            ExceptionRenderer(ExceptionDictTransformer(show_locals=False)),
            cut,
            JSONRenderer(serializer=_dumps),
        ],
    )


def cut(_logger: object, _method: str, event: EventDict) -> EventDict:
    """A processor that shortens every text of an event to LONGEST_TEXT characters."""
    return {name: _cut(value) for name, value in event.items()}


def _cut(value: Any) -> Any:
    match value:
        case str() if len(value) > LONGEST_TEXT:
            return value[:LONGEST_TEXT] + "…"
        case dict():
            return {name: _cut(inner) for name, inner in value.items()}  # pyright: ignore[reportUnknownVariableType]
        case list():
            return [_cut(inner) for inner in value]  # pyright: ignore[reportUnknownVariableType]
        case _:
            return value


def _dumps(event: EventDict, **_: object) -> str:
    return orjson.dumps(event, default=str).decode()
