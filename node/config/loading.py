"""Builds `Settings` from the texts of the sources. Nothing else in the program reads settings from the environment."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec

from node.config.settings import SECRETS, Limits, Settings
from node.config.sources import ENVIRONMENT, PREFIX, SettingText, gather, with_files
from node.config.values import (
    AllowedOrigins,
    ConfigError,
    Limit,
    Networks,
    Proxies,
    Schedule,
    bounds_of,
    host_names,
    http_url,
    label,
    listening_host,
)

AWS_PREFIX = "AWS_"
AWS_SECRETS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
TRACE_URL = "OTEL_EXPORTER_OTLP_ENDPOINT"  # standard variable of all programs that emit traces

MAX_INTEGER = 2**50
"""Largest integer of any setting. As seconds, it still fits into a TTL of Redis in milliseconds (64 bits)."""

MAX_FLOAT = 1e6
"""Largest value of a fractional setting. As days, it is nearly 3,000 years."""

FIELDS = tuple(name for name in Settings.__struct_fields__ if name not in {"limits", "aws"})
"""The settings with one variable each."""

_PARSERS: Mapping[Any, Callable[[str], Any]] = {
    Limit: Limit.parse,
    Schedule: Schedule.parse,
    AllowedOrigins: AllowedOrigins.parse,
    Networks: Networks.parse,
    Proxies: Proxies.parse,
    Path: Path,
}
"""Parsers of setting texts, by type."""

_TEXTS: Mapping[str, Callable[[str], str]] = {
    "host": listening_host,
    "admin_host": listening_host,
    "base_url": http_url,
    "trace_url": http_url,
    "node_id": label,
    "admin_names": host_names,
}
"""Parsers of text settings with a certain form, by name."""


def texts(environ: Mapping[str, str] = os.environ) -> dict[str, SettingText]:
    """Return the text of every given setting, with its source. The values are not checked. Raises ConfigError."""
    return gather(environ, SECRETS, Settings().data_dir)


def _known_texts(environ: Mapping[str, str]) -> dict[str, SettingText]:
    known = set(map(variable, FIELDS))
    known |= {variable("limit", field) for field in Limits.__struct_fields__}
    given = texts(environ)
    for name, found in given.items():
        if name not in known:
            raise ConfigError(f"{found.where}{name} is not a setting; `relay-node config` lists them")
    return given


def load(environ: Mapping[str, str] = os.environ) -> Settings:
    """Return the settings from the environment and relay.toml. Raises ConfigError."""
    given = _known_texts(environ)
    limits = {
        field: _value(name, Limit, given[name])
        for field in Limits.__struct_fields__
        if (name := variable("limit", field)) in given
    }
    hints = get_type_hints(Settings, include_extras=True)
    values = {
        field: _value(name, hints[field], given[name], _TEXTS.get(field))
        for field in FIELDS
        if (name := variable(field)) in given
    }
    if "trace_url" not in values and environ.get(TRACE_URL):
        values["trace_url"] = _value(TRACE_URL, str, SettingText(environ[TRACE_URL], ENVIRONMENT), http_url)
    return Settings(limits=Limits(**limits), aws=_aws(environ), **values)


def variable(*parts: str) -> str:
    """Return the name of a setting in the environment."""
    return PREFIX + "_".join(parts).upper()


def _aws(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the AWS_* variables. A file may hold each credential: `AWS_SECRET_ACCESS_KEY_FILE` and the like."""
    there = {name: text for name, text in environ.items() if name.startswith(AWS_PREFIX) and text != ""}
    given = {name: SettingText(text, ENVIRONMENT) for name, text in there.items()}
    return {name: found.text for name, found in with_files(given, AWS_SECRETS).items()}


def _value(name: str, hint: Any, given: SettingText, parse: Callable[[str], Any] | None = None) -> Any:
    kind = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    parse = parse or _PARSERS.get(kind)
    try:
        given.text.encode()
        return parse(given.text) if parse else _plain(hint, given.text)
    except UnicodeEncodeError as error:  # undecodable bytes of the environment, which Python keeps as lone surrogates
        raise ConfigError(f"{name} is not UTF-8") from error
    except ValueError as error:
        shown = name if name in SECRETS else f"{name}={given.text!r}"
        raise ConfigError(f"{given.where}{shown}: {error}") from error


def _plain(hint: Any, text: str) -> Any:
    """Return a word or a number. Raises ValueError."""
    try:
        value = msgspec.convert(text, hint, strict=False)
    except msgspec.ValidationError as error:
        raise ValueError(f"write {_accepted(*get_args(hint))}") from error
    most = MAX_FLOAT if isinstance(value, float) else MAX_INTEGER
    if isinstance(value, int | float) and not abs(value) <= most:
        raise ValueError(f"write at most {most:g}")
    return value


def _accepted(kind: Any, meta: msgspec.Meta) -> str:
    words = ("1", "0") if kind is bool else get_args(kind)
    if words:
        return " or ".join(map(str, words))
    return f"an integer{bounds_of(meta)}" if kind is int else f"a number{bounds_of(meta)}"
