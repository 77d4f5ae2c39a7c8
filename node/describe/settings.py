"""Documents all settings for operators: docs/settings.md, which `relay-node config --markdown` prints."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from node.config import AllowedOrigins, Limit, Limits, Networks, Proxies, Schedule, Settings, variable
from node.config.values import bounds_of

_SUBJECTS = {
    "RELAY_HOST": "Address and processes",
    "RELAY_REDIS_URL": "Redis",
    "RELAY_MAX_SESSIONS": "What the node and one client may hold",
    "RELAY_DURABILITY": "Durability, and work under way",
    "RELAY_SECRET": "Keys, proxies and origins",
    "RELAY_BUFFER_TTL": "Messages and sessions",
    "RELAY_EMBEDDING_MODEL": "Search",
    "RELAY_BLOB_URL": "Artifacts",
    "RELAY_TASK_HOT_DAYS": "How long things are kept and shown",
    "RELAY_CALLBACK_REFUSED_NETWORKS": "Callbacks",
    "RELAY_ADMIN_PORT": "Metrics, traces and log",
    "RELAY_LIMIT_RELAY": "Rate limits of a client address",
}
"""Subjects by their first setting. A subject ends where the next begins, in the order of `node/config/settings.py`."""

_KINDS: dict[Any, str] = {
    int: "integer",
    float: "number",
    str: "text",
    bool: "0 or 1",
    Path: "path",
    Limit: "count/seconds, or 0",
    Schedule: "numbers, comma separated",
    AllowedOrigins: "origins, comma separated",
    Networks: "networks, comma separated",
    Proxies: "networks, comma separated, or `unix`",
}

_HEAD = """\
# Settings

Made by `relay-node config --markdown`. `relay-node config` shows which settings are in force and where each comes from;
`relay-node check` says what works with them and what is missing.

A setting is an environment variable, or a line of `relay.toml` with its name in lower case and without `RELAY_`. If
both are given, the environment wins. `RELAY_CONFIG` or `--config` names the file; the default is `relay.toml` in the
data directory:

```toml
base_url = "https://relay.example"
trusted_proxies = ["10.0.0.0/8"]
secret_file = "/run/secrets/relay"
[limit]
relay = "10/60"
```

`RELAY_SECRET`, `RELAY_SIGNING_KEY`, `RELAY_REDIS_URL` and `RELAY_SEARCH_URL` may each be in a file of its own, which
`RELAY_SECRET_FILE` and so on name. For S3, the node reads the usual `AWS_*` variables, and `AWS_ACCESS_KEY_ID_FILE`,
`AWS_SECRET_ACCESS_KEY_FILE` and `AWS_SESSION_TOKEN_FILE`.

On SIGHUP (`systemctl reload`), every process of the node reads `relay.toml` again, without losing a connection. Rate
limits, `RELAY_TRUSTED_PROXIES`, `RELAY_CALLBACK_REFUSED_NETWORKS` and `RELAY_LOG` change at once; the log says which
have changed, and which other changes wait for a restart. The environment of a process cannot change. A `serve` that was
started in a terminal, without `nohup`, ends when that terminal closes.

An empty setting has its default. If a setting is misspelt or cannot be used, every command says so in one sentence and
ends with status 2, before it starts anything.
"""


class SettingRow(msgspec.Struct, frozen=True):
    """One row of a table on the page."""

    name: str
    subject: str
    type: str
    default: str
    unit: str
    meaning: str


def table() -> list[SettingRow]:
    """Return every setting, in the order of `node/config/settings.py`."""
    rows: list[SettingRow] = []
    subject = ""
    for name, kind, default, meta in _fields():
        subject = _SUBJECTS.get(name, subject)
        unit: str = (meta.extra or {})["unit"]
        rows.append(SettingRow(name, subject, _type(kind, meta), _shown(default), unit, meta.description or ""))
    return rows


def page() -> str:
    """Return the settings by subject, as Markdown."""
    parts, rows = [_HEAD], table()
    for subject in dict.fromkeys(row.subject for row in rows):
        lines = [f"## {subject}", "", "| Setting | Type | Default | Unit | Meaning |", "|---|---|---|---|---|"]
        lines += [
            f"| `{row.name}` | {row.type} | {f'`{row.default}`' if row.default else ''} | {row.unit} | {row.meaning} |"
            for row in rows
            if row.subject == subject
        ]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def _fields() -> Iterator[tuple[str, Any, object, msgspec.Meta]]:
    for struct, prefix in ((Settings, []), (Limits, ["limit"])):
        defaults = struct()
        for field, hint in get_type_hints(struct, include_extras=True).items():
            if get_origin(hint) is Annotated:
                kind, meta = get_args(hint)
                yield variable(*prefix, field), kind, getattr(defaults, field), meta


def _type(kind: Any, meta: msgspec.Meta) -> str:
    if get_origin(kind) is Literal:
        return ", ".join(f"`{choice}`" for choice in get_args(kind))
    return _KINDS[kind] + bounds_of(meta)


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return str(int(value)) if isinstance(value, bool) else str(value)
