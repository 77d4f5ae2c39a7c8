"""`relay key`, `relay mcp config` and `relay doctor`."""

import platform
import re
import time
from argparse import Namespace
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

from relay_client.call import Call
from relay_client.carrier import base_of
from relay_client.client import Relay
from relay_client.command.mcp import CLIENTS, configuration
from relay_client.command.output import note, show
from relay_client.command.parser import Commands, command, connected, group, signer
from relay_client.errors import Refused, UsageError
from relay_client.node import Node
from relay_client.steps import Answer
from relay_client.tasks import Tasks
from relay_client.version import __version__

SKEW_SECONDS = 60.0
"""A larger difference between the clocks breaks signatures, deadlines and callbacks."""
NOBODY = "relay-doctor"


def add(commands: Commands) -> None:
    command(
        commands,
        "key",
        _key,
        "show the public key and the inbox address of the key file --key; a missing file is created",
    )
    mcp = group(commands, "mcp", "use the node's tools in MCP clients")
    config = command(mcp, "config", _config, "show the configuration with which an MCP client uses the node")
    config.add_argument("client", choices=sorted(CLIENTS), help="the MCP client")
    command(commands, "doctor", _doctor, "check the connection to the node, clocks, limits and versions")


def _key(given: Namespace) -> None:
    key = signer(given)
    if key is None:
        raise UsageError("give --key FILE, or set RELAY_KEY")
    show(given, {"public_key": key.public, "address": key.address, "file": given.key})


def _config(given: Namespace) -> None:
    file, content = configuration(given.client, base_of(given.node))
    note(f"put this into {file}:")
    show(given, {"file": file, "content": content}, content.rstrip())


def _doctor(given: Namespace) -> int:
    is_well = True
    with connected(given) as relay:
        for name, is_good, says in _checks(relay):
            is_well = is_well and is_good
            show(given, {"check": name, "ok": is_good, "says": says}, f"{'ok ' if is_good else 'BAD'} {name}: {says}")
    return 0 if is_well else 1


def _checks(relay: Relay) -> Iterator[tuple[str, bool, str]]:
    """Yield the name of each check, whether it succeeded, and what was found."""
    began = time.monotonic()
    answer = _asked(relay, Node.health.call())
    took = time.monotonic() - began
    health = answer.json()
    yield "node", health["status"] == "ok", f"{relay.carrier.base_url} answers in {took * 1000:.0f} ms"
    for room in ("memory", "disk"):
        yield room, health[room] == "ok", health[room]
    skew = time.time() - parsedate_to_datetime(answer.headers["date"]).timestamp()  # Date has whole seconds
    yield "clock", abs(skew) <= SKEW_SECONDS, f"this machine is {abs(skew):.0f} s {'ahead' if skew > 0 else 'behind'}"
    python = platform.python_version()
    versions = f"node {health['version']}, client {__version__}, Python {python}, httpx {httpx.__version__}"
    yield "versions", True, versions
    identity = relay.node.identity()
    yield "address", True, f"{identity['node_id']} gives its URL as {identity['base_url']}"
    # Asks for an offer that nobody makes: this finds none, but takes one place in the limit.
    try:
        claimed = _asked(relay, Tasks.claim_next.call(NOBODY, publisher_ids=[NOBODY]))
    except Refused as refused:
        yield "limits", False, str(refused)
    else:
        yield "limits", True, _limits(claimed)
    if relay.carrier.signer:
        yield "key", True, relay.carrier.signer.address


def _asked(relay: Relay, call: Call[Any]) -> Answer:
    return relay.run(relay.carrier.answer(call, relay.patience))


def _limits(answer: Answer) -> str:
    policy = re.search(r'"(\w+)";q=(\d+);w=(\d+)', answer.headers.get("ratelimit-policy", ""))
    left = re.search(r";r=(\d+)", answer.headers.get("ratelimit", ""))
    if not policy or not left:
        return "none"
    return f"{left[1]} of {policy[2]} {policy[1]}s in {policy[3]} s left; /llms-full.txt lists all limits"
