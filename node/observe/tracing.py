"""OpenTelemetry traces of requests, store calls and callbacks (extra `otel`, RELAY_TRACE_URL).

When a process is composed, its parts are wrapped so that they make spans. Without RELAY_TRACE_URL nothing is wrapped,
nothing of OpenTelemetry is imported, and no request executes a line of this.
"""

from importlib.util import find_spec
from typing import TYPE_CHECKING

from node.common.extras import pip_install
from node.config import ConfigError, Settings

if TYPE_CHECKING:
    from node.observe.spans import Tracing

PACKAGES = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")


def check(settings: Settings) -> None:
    """Raise ConfigError if traces are asked for and the packages for them are missing."""
    if settings.trace_url and not all(map(_is_there, PACKAGES)):
        raise ConfigError(f"RELAY_TRACE_URL needs OpenTelemetry: run {pip_install('otel')}")


def tracing_of(settings: Settings, role: str) -> "Tracing | None":
    """Return what makes the spans of this process; None without RELAY_TRACE_URL."""
    if not settings.trace_url:
        return None
    from node.observe.spans import Tracing, exporter_to  # noqa: PLC0415 - an extra; most nodes never load it

    return Tracing(settings, role, exporter_to(settings.trace_url))


def _is_there(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # the parent package is missing
        return False
