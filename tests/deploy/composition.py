"""compose.yaml as Compose reads it, with its variables filled in."""

import re
from functools import cache
from typing import Any, cast

import yaml

from tests.support.node_under_test import SECRET
from tests.support.nodes import ROOT

FILE = ROOT / "compose.yaml"
_VARIABLE = re.compile(r"\$\{(?P<name>\w+)(?::(?P<how>[-?])(?P<text>[^}]*))?\}")

GIVEN = {
    "RELAY_SECRET": SECRET,
    "RELAY_SIGNING_KEY": "whsk_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
    "S3_ACCESS_KEY_ID": "relay",
    "S3_SECRET_ACCESS_KEY": "secret",
    "GRAFANA_PASSWORD": "password",
}
"""What the comment at the head of the file tells the operator to write to .env."""


def required() -> set[str]:
    """Return the variables without which Compose refuses the file."""
    return {found["name"] for found in _VARIABLE.finditer(FILE.read_text()) if found["how"] == "?"}


@cache
def composition() -> dict[str, Any]:
    """Return the whole file."""

    def value(found: re.Match[str]) -> str:
        given = GIVEN.get(found["name"], "")
        return given or (found["text"] if found["how"] == "-" else "")

    text = _VARIABLE.sub(value, FILE.read_text())
    return cast("dict[str, Any]", yaml.safe_load(text))


def services() -> dict[str, dict[str, Any]]:
    """Return every service by name."""
    return composition()["services"]


def environment(name: str) -> dict[str, str]:
    """Return the environment of a service."""
    return services()[name].get("environment", {})


def redis_servers() -> dict[str, str]:
    """Return the address of each member of the cluster, by the name of its service."""
    return {
        name: f"{service['networks']['store']['ipv4_address']}:6379"
        for name, service in services().items()
        if re.fullmatch(r"redis-\d", name)
    }
