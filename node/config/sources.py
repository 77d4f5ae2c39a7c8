"""Collects the text of each setting from its source: the environment, a file that the environment names, or relay.toml.

The environment takes precedence over relay.toml. Variables such as `RELAY_SECRET_FILE` name a file that contains the
value, so that an operator need not write a secret into either source. The only settings that this module knows by name
are those that say where to look.
"""

import errno
import os
import re
import stat
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec

from node.config.values import ConfigError

PREFIX = "RELAY_"
FILE_SUFFIX = "_FILE"
ENVIRONMENT = "environment"
CONFIG = "RELAY_CONFIG"
"""Name of the variable that names the settings file, as `--config` does."""

CONFIG_NAME = "relay.toml"
"""Name of the settings file if none is given. It is looked for in the data directory that the environment names."""

NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
"""Errors that mean that nothing exists at a path. After any other error, something may exist there."""

IN_FORCE = "NODE_SETTINGS"
"""The variable with which a supervisor hands down the settings in force whose values are not in the environment, as
JSON. A process that it restarts thus has the same settings as the others, even if relay.toml has changed since."""

MAX_SECRET_BYTES = 64 * 1024
"""Largest file from which one value is read. A larger one, such as a device or a log, was named by mistake."""

# Variables that Kubernetes adds to every container for each Service in its namespace, for example one named `relay`.
# `enableServiceLinks: false` turns them off.
_SERVICE_LINK = re.compile(r"\w+_SERVICE_(?:HOST|PORT(?:_\w+)?)|\w+_PORT_\d+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?")
_SERVICE_ADDRESS = re.compile(r"(?:tcp|udp|sctp)://")


_OF_THE_CLIENT = frozenset(
    f"{PREFIX}{name}" for name in ("NODE", "INBOX", "INBOX_TOKEN", "KEY", "MESSAGE_ID", "TASK_ID")
)
"""Variables of the command `relay`. They may also be set in a shell from which a node is started or operated."""


class SettingText(msgspec.Struct, frozen=True):
    """The text of one setting, and its source."""

    text: str
    source: str

    @property
    def where(self) -> str:
        """The beginning of a message about the setting: its file; empty if it is from the environment."""
        return "" if self.source == ENVIRONMENT else f"{self.source}: "


def gather(environ: Mapping[str, str], secrets: frozenset[str], data_dir: Path) -> dict[str, SettingText]:
    """Return every setting that is given, by its name in the environment. Unknown names are not refused here.

    Each of `secrets` may also be given by a file. A file is not read again for a value that a supervisor hands down.
    Raises ConfigError.
    """
    in_force = msgspec.json.decode(environ.get(IN_FORCE) or "{}", type=dict[str, SettingText])
    there = {
        name: text
        for name, text in environ.items()
        if name.startswith(PREFIX)
        and name != CONFIG
        and text != ""
        and not _is_of_others(name, text)
        and name.removesuffix(FILE_SUFFIX) not in in_force
    }
    environment = with_files({name: SettingText(text, ENVIRONMENT) for name, text in there.items()}, secrets)
    if environ.get(IN_FORCE):
        return {**in_force, **environment}
    path = config_path(environ, data_dir)
    if path is None:
        return environment
    written = {name: SettingText(text, str(path)) for name, text in _settings_of(path)}
    if CONFIG in written or (not environ.get(CONFIG) and "RELAY_DATA_DIR" in written):
        raise ConfigError(
            f"{path}: data_dir and config say where to look for this file: set them in the environment, not in it"
        )
    by_file = {name + FILE_SUFFIX for name in secrets & environment.keys()}
    others = {name: given for name, given in written.items() if name not in by_file}
    return {**with_files(others, secrets), **environment}


def config_path(environ: Mapping[str, str], data_dir: Path) -> Path | None:
    """Return the path of the settings file; None if there is none. Raises ConfigError if a file is named but missing,
    or cannot be read.

    Anything at that path other than a file is also an error: a container that mounts a file missing on the host gets a
    directory instead.
    """
    named = environ.get(CONFIG)
    path = Path(named or Path(environ.get("RELAY_DATA_DIR") or data_dir, CONFIG_NAME))
    is_there = False
    try:
        # Not `is_file`: in Python 3.14 that returns False for a file that may not be accessed, so the file would be
        # ignored.
        is_there = stat.S_ISREG(path.stat().st_mode)
    except OSError as error:
        if error.errno not in NOT_THERE:
            what_to_do = "; run this command as the node's user" if isinstance(error, PermissionError) else ""
            raise ConfigError(f"{path} cannot be read: {error.strerror}{what_to_do}") from error
    if not is_there and os.path.lexists(path):
        raise ConfigError(f"{path} is not a file")
    if named and not is_there:
        raise ConfigError(f"{CONFIG}={named!r}: there is no such file")
    return path if is_there else None


def handed_down(given: Mapping[str, SettingText]) -> dict[str, str]:
    """Return the settings whose values are not in the environment as one variable for child processes, which inherit
    the rest."""
    written = {name: found for name, found in given.items() if found.source != ENVIRONMENT}
    return {IN_FORCE: msgspec.json.encode(written).decode()}


def _value_of_file(name: str, path: str) -> str:
    """Return the value in the file at `path`, for the setting `name`. Raises ConfigError."""
    try:
        with Path(path).open("rb") as file:
            text = file.read(MAX_SECRET_BYTES + 1).decode().strip()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "the file is not UTF-8 text"
        raise ConfigError(f"{name}={path!r}: {why}") from error
    if not text or len(text) > MAX_SECRET_BYTES:
        raise ConfigError(f"{name}={path!r}: the file is {'larger than 64 KiB' if text else 'empty'}")
    return text


def with_files(given: Mapping[str, SettingText], secrets: Iterable[str]) -> dict[str, SettingText]:
    """Return `given` with each setting that names a file replaced by the value in that file. Raises ConfigError."""
    found = dict(given)
    for name in sorted(secrets):
        if by_file := found.pop(name + FILE_SUFFIX, None):
            if name in found:
                raise ConfigError(f"{name} and {name}{FILE_SUFFIX} are both given: remove one")
            text = _value_of_file(name + FILE_SUFFIX, by_file.text)
            found[name] = SettingText(text, f"{by_file.text}, named by {name}{FILE_SUFFIX} in {by_file.source}")
    return found


def _settings_of(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the settings in a file, with their names in the environment."""
    try:
        written = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:  # bad TOML or bad UTF-8
        raise ConfigError(f"{path}: {error}") from error
    for name, value in _flat(written, ()):
        if value != "":  # an empty value means the default, as with an empty variable
            yield PREFIX + name.upper(), _text(path, name, value)


def _flat(table: Mapping[str, Any], above: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """Yield the values of nested tables with their joined names: `relay = "10/60"` in `[limit]` is `limit_relay`."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(cast("dict[str, Any]", value), (*above, name))
        else:
            yield "_".join((*above, name)), value


def _text(path: Path, name: str, value: Any) -> str:
    """Return a value as the environment would have it. The items of a list are joined with commas."""
    match value:
        case bool():
            return str(value).lower()  # a word: `1` would pass for a number, such as one day
        case str() | int() | float():
            return str(value)
        case list():
            return ",".join(_text(path, name, each) for each in cast("list[Any]", value))
        case _:
            raise ConfigError(f"{path}: {name} must be text, a number, or a list of these")


def _is_of_others(name: str, text: str) -> bool:
    """Return whether a variable is for the command `relay`, or from Kubernetes, like RELAY_PORT=tcp://10.0.0.1:8000."""
    return name in _OF_THE_CLIENT or bool(
        _SERVICE_LINK.fullmatch(name) or (name.endswith("_PORT") and _SERVICE_ADDRESS.match(text))
    )
