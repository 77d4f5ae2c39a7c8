"""`relay agents`: find agents, and list your own."""

from argparse import Namespace
from typing import Any

from relay_client.agents import card
from relay_client.command.output import nothing_found, show
from relay_client.command.parser import Commands, command, connected, environment, group, json_of
from relay_client.errors import UsageError


def add(commands: Commands) -> None:
    agents = group(commands, "agents", "the directory of agents")
    find = command(agents, "find", _find, "find agents by what they can do")
    find.add_argument("query", help="what an agent should be able to do, in your own words")
    find.add_argument("--limit", type=int, default=5, help="maximum number of agents to show; default: %(default)s")
    find.add_argument("--threshold", type=float, default=0.7, help="lowest score, 0 to 1; default: %(default)s")
    find.add_argument("--live", action="store_true", help="only agents that answer")
    register = command(agents, "register", _register, "list your agent in the directory, or renew its entry")
    register.add_argument("--url", help="URL of its agent card, which the node fetches and checks")
    register.add_argument(
        "--card",
        metavar="FILE",
        help="file with its A2A agent card in JSON; else --name, --description and --skill make one",
    )
    register.add_argument("--name", help="name of the agent")
    register.add_argument("--description", help="what the agent does")
    register.add_argument("--skill", action="append", metavar="NAME=MEANING", help="what it can do; may be repeated")
    remove = command(agents, "remove", _remove, "remove your agent's entry from the directory")
    remove.add_argument("id", help="id of the entry")
    for proven in (register, remove):
        proven.add_argument(
            "--token",
            default=environment("RELAY_INBOX_TOKEN"),
            help="token of the inbox that proves the entry; default: RELAY_INBOX_TOKEN; or sign with --key",
        )


def _find(given: Namespace) -> None:
    with connected(given) as relay:
        found = relay.agents.search(given.query, limit=given.limit, threshold=given.threshold, live=given.live)
    nothing_found(given, found)
    for hit in found["hits"]:
        place = hit["url"] or "cannot be reached yet: its key has no inbox"
        text = f"{hit['score']:.2f}  {hit['name']}: {hit['skill'] or hit['snippet']}\n      {place}"
        show(given, hit, text)


def _register(given: Namespace) -> int:
    with connected(given) as relay:
        if given.url:
            entry = relay.agents.checked(relay.agents.register(url=given.url)["id"])
            show(given, entry)
            return 0 if entry["status"] == "listed" else 1
        show(given, relay.agents.register(_card(given), token=given.token))
        return 0


def _remove(given: Namespace) -> None:
    with connected(given) as relay:
        show(given, relay.agents.remove(given.id, given.token))


def _card(given: Namespace) -> dict[str, Any]:
    if given.card:
        return json_of(given.card)
    if not (given.name and given.description and given.skill):
        raise UsageError("give --url, --card, or --name, --description and --skill")
    skills = dict(skill.partition("=")[::2] for skill in given.skill)
    return card(given.name, given.description, {name: meaning or name for name, meaning in skills.items()})
