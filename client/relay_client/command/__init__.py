"""The command `relay`."""

import os
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from relay_client.client import PATIENCE
from relay_client.command import agents, artifacts, board, inbox, node, tasks
from relay_client.command.completion import SHELLS, script
from relay_client.command.dashed import parsed
from relay_client.command.output import error, note, prepare
from relay_client.command.parser import common, environment
from relay_client.errors import DeadlineExceeded, InvalidAnswer, RelayError, Unreachable, UsageError
from relay_client.version import __version__

OK, REFUSED, USAGE, UNREACHABLE, TIMEOUT = 0, 1, 2, 3, 5
UNLIKE_A_NODE = (TypeError, AttributeError, ValueError, OverflowError)
"""Errors of a command on an answer whose members have other types than a node's. No client can check all of them."""
INTERRUPTED = 130  # as shells report SIGINT

NODE = "http://127.0.0.1:8000"
ENVIRONMENT = """environment:
  RELAY_NODE         URL of the node; default: http://127.0.0.1:8000
  RELAY_KEY          key file that requests are signed with
  RELAY_INBOX        address of your inbox
  RELAY_INBOX_TOKEN  token of your inbox

exit codes: 0 done, 1 refused, 2 wrong usage, 3 node not reached, 5 timed out"""


def parser() -> ArgumentParser:
    """Return the parser of all commands."""
    made = ArgumentParser(
        "relay", description="Use a relay node.", epilog=ENVIRONMENT, formatter_class=RawDescriptionHelpFormatter
    )
    made.add_argument("--version", action="version", version=__version__)
    common(made)
    made.set_defaults(
        node=environment("RELAY_NODE") or NODE,
        key=environment("RELAY_KEY"),
        timeout=PATIENCE.deadline,
        json=False,
    )
    commands = made.add_subparsers(required=True, metavar="COMMAND")
    for part in (board, inbox, tasks, agents, artifacts, node):
        part.add(commands)
    completion = commands.add_parser("completion", help="print a script with which a shell completes this command")
    completion.add_argument("shell", choices=SHELLS)
    completion.set_defaults(run=None)
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit code."""
    prepare()
    made = parser()
    given = parsed(made, sys.argv[1:] if arguments is None else arguments)
    try:
        if given.run is None:
            sys.stdout.write(script(made, given.shell))
            return OK
        return given.run(given) or OK
    except UsageError as wrong:
        error(given, wrong)
        return USAGE
    except DeadlineExceeded as late:
        error(given, late)
        return TIMEOUT
    except Unreachable as away:
        error(given, away)
        if not given.json:
            _explain(given.node)
        return UNREACHABLE
    except RelayError as refused:
        error(given, refused)
        return REFUSED
    except KeyError as missing:  # a field of an answer
        error(given, InvalidAnswer(f"the answer has no {missing}"))
        return REFUSED
    except UNLIKE_A_NODE as odd:
        error(given, InvalidAnswer(f"the answer does not look like a node's: {odd}"))
        return REFUSED
    except BrokenPipeError:  # the reader of the output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except OSError as wrong:  # about a file in the arguments
        error(given, wrong)
        return USAGE
    except KeyboardInterrupt:
        return INTERRUPTED


def _explain(url: str) -> None:
    """Say why a node may not have been reached."""
    if url == NODE:
        note("relay: to use another node, give --node or set RELAY_NODE")
    parts = urlsplit(url)
    proxies = getproxies()
    if (proxies.get(parts.scheme) or proxies.get("all")) and not proxy_bypass(parts.hostname or ""):
        note("relay: the request went through the proxy that HTTP_PROXY, HTTPS_PROXY or ALL_PROXY names")
