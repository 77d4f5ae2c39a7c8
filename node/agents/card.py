"""What the directory takes from an agent card: judged and readable texts, and the endpoint of the agent.

A card is believed only as far as it is proven. Fetching it from a host proves what that host says, and nothing about
other hosts, so only endpoints on the same host are accepted. Signatures on a card are ignored, and no `jku` is ever
followed, because a card would choose its own verification key by it (A2A v1.0 §8.4).
"""

from typing import Annotated
from urllib.parse import quote, unquote_to_bytes

import msgspec
from msgspec import Meta

from node.agents.model import CARD_LENGTH, AgentSkill, ListedCard
from node.callbacks.target import Target, TargetPolicy, TargetRefused, parse
from node.common.refusal import Invalid
from node.text.lines import require_english, require_line, require_name, require_text
from node.text.readable import readable

WELL_KNOWN = "/.well-known/agent-card.json"

PATH_CHARACTERS = "!$&'()*+,;=:@"
"""Characters besides letters, digits and `-._~` that need no escape in a path segment (RFC 3986 §3.3)."""

MAX_INTERFACES = 20
"""Maximum number of a card's interfaces that are examined; further ones are ignored."""

BINDING_LENGTH = 50

A2A_HTTP, A2A_RPC, MCP = "HTTP+JSON", "JSONRPC", "MCP"
PROBED = (A2A_RPC, A2A_HTTP, MCP)
"""Bindings that the node can probe. A2A lets a card name others (v1.0 §5.8)."""


class CardInterface(msgspec.Struct, rename="camel"):
    """Where an agent is called, and by which protocol (A2A v1.0 §4.4.6). In v0.3, the binding is in `transport`."""

    url: str = ""
    protocol_binding: str = ""
    protocol_version: str = ""
    transport: str = ""


class FetchedCard(ListedCard, rename="camel"):
    """The members of an agent card of A2A v1.0 or v0.3 that the node uses."""

    supported_interfaces: list[CardInterface] = msgspec.field(default_factory=list[CardInterface])
    url: str = ""
    preferred_transport: str = ""
    protocol_version: str = ""
    additional_interfaces: list[CardInterface] = msgspec.field(default_factory=list[CardInterface])


class Endpoint(msgspec.Struct, frozen=True):
    """Where an agent is called, by which binding and protocol version."""

    url: str
    binding: Annotated[str, Meta(max_length=BINDING_LENGTH)]
    version: str


def card_targets(target: Target) -> list[Target]:
    """Return where the card of a posted URL may be, in this order: at the URL, or at the well-known path below it."""
    path = target.resource
    if path.endswith(".json"):
        return [target]
    below = msgspec.structs.replace(target, resource=path.rstrip("/") + WELL_KNOWN)
    return [below] if path == "/" else [target, below]


def has_one_spelling(path: str) -> bool:
    """Whether a path is in its normal form.

    Most servers accept other spellings of the path as well (RFC 3986 §6.2.2), each of which would become another entry
    with the same card.
    """
    segments = path.split("/")[1:]
    is_resolved = all(segments[:-1]) and not {".", ".."} & set(segments)
    return is_resolved and all(quote(unquote_to_bytes(each), safe=PATH_CHARACTERS) == each for each in segments)


def endpoint_of(card: FetchedCard, card_target: Target, policy: TargetPolicy) -> Endpoint:
    """Return the first endpoint on the card's own host that can be probed, or else the first one. Raises Invalid."""
    own = [each for each in _endpoints(card) if _host(each.url, policy) == card_target.host]
    if not own:
        raise Invalid.field(
            "body", "card", msg=f"names no endpoint on {card_target.host}, the host that it was fetched from"
        )
    chosen = next((each for each in own if each.binding in PROBED), own[0])
    # The binding is shown beside the agent's name, and the version is sent to the agent in a header.
    for word in (chosen.binding, chosen.version):
        if not (word.isascii() and word.isprintable()):
            raise Invalid.field(
                "body", "card", msg="protocol binding and version of an endpoint must be visible ASCII characters"
            )
    return chosen


def readable_card(card: ListedCard) -> ListedCard:
    """Return a card in the form that is kept and shown. Raises Invalid, Refused `language.not_english`."""
    kept = ListedCard(card.name, readable(card.description), [_readable_skill(skill) for skill in card.skills])
    texts = [kept.name, kept.description]
    for skill in kept.skills:
        texts += [skill.name, skill.description, *skill.tags, *skill.examples]
    if sum(map(len, texts)) > CARD_LENGTH:  # checked before the language, which takes by far the longest
        raise Invalid.field("body", "card", msg=f"must have at most {CARD_LENGTH} characters of text")
    require_name("card", kept.name)
    require_text("card", f"{kept.name}{kept.description}" if kept.name.strip() and kept.description.strip() else "")
    require_english("card.name or card.description", f"{kept.name}\n{kept.description}")
    for index, skill in enumerate(kept.skills):
        _require_skill(skill, f"card.skills[{index}]")
    return kept


def _readable_skill(skill: AgentSkill) -> AgentSkill:
    examples = [readable(example) for example in skill.examples]
    return AgentSkill(skill.name, readable(skill.description), skill.tags, examples)


def _require_skill(skill: AgentSkill, field: str) -> None:
    """Check a skill. A card has up to 20 skills with examples, so `field` tells the client which text is refused.

    Raises Invalid, Refused `language.not_english`.
    """
    require_name("card", skill.name)
    for tag in skill.tags:
        require_line("card", tag)
    require_text("card", skill.description if skill.name.strip() else "")
    require_english(field, f"{skill.name}\n{skill.description}")
    for number, example in enumerate(skill.examples):
        require_english(f"{field}.examples[{number}]", example)


def _endpoints(card: FetchedCard) -> list[Endpoint]:
    named = card.supported_interfaces or [
        CardInterface(card.url, transport=card.preferred_transport or A2A_RPC),
        *card.additional_interfaces,
    ]
    found: list[Endpoint] = []
    for each in named[:MAX_INTERFACES]:
        # Cut to the allowed length, and without surrounding spaces, which are not allowed in a header.
        binding, version = (
            word[:BINDING_LENGTH].strip()
            for word in (each.protocol_binding or each.transport, each.protocol_version or card.protocol_version)
        )
        known = next((name for name in PROBED if name.lower() == binding.lower()), binding)
        found.append(Endpoint(each.url, known, version))
    return found


def _host(url: str, policy: TargetPolicy) -> str | None:
    """Return the host of a URL; None if the URL must not be called."""
    try:
        return parse(url, policy).host
    except TargetRefused:
        return None
