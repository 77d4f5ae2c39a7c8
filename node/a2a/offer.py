"""An A2A message as the offer of a work contract."""

import msgspec
from msgspec import UNSET, Raw, UnsetType
from msgspec.structs import asdict, fields

from node.a2a.model import ReceivedMessage
from node.a2a.proto_json import integer
from node.common.refusal import Invalid, Refused
from node.store.ids import digest
from node.tasks.model import NewTask
from node.text.lines import mixes_alphabets
from node.text.readable import first_sentence, is_one_line
from node.web.issues import issue_of
from node.web.json import decode

TITLE_LENGTH = 120
"""Longest title, in characters, that is made of a message's first sentence."""

MESSAGE_ID_LENGTH = 128
"""Longest message id, in characters, that becomes part of a publisher_id as it is; a longer one is hashed."""


class Options(msgspec.Struct, rename="camel"):
    """The fields of a contract that metadata may set, under their names there."""

    publisher_id: Raw | UnsetType = UNSET
    title: Raw | UnsetType = UNSET
    lease_seconds: Raw | UnsetType = UNSET
    require_proof: Raw | UnsetType = UNSET


NAMES = {field.name: field.encode_name for field in fields(Options)}


def offer_of(received: ReceivedMessage) -> NewTask:
    """The contract that a message offers. Raises Invalid.

    Metadata has no integers, only numbers, and null in it means that a member is not set (ProtoJSON).
    """
    said = {field: decode(bytes(raw), object) for field, raw in _options(received).items()}
    said["lease_seconds"] = integer(said.get("lease_seconds"))
    name = received.message.message_id
    if len(name) > MESSAGE_ID_LENGTH or not is_one_line(name) or mixes_alphabets(name):
        name = digest(name)
    offer = {
        "publisher_id": f"a2a:{name}",
        "title": first_sentence(received.text, TITLE_LENGTH),
        "description": received.text,
        **{field: value for field, value in said.items() if value not in (None, "")},
    }
    try:
        return msgspec.convert(offer, NewTask)
    except msgspec.ValidationError as error:
        raise Invalid([issue_of(str(error), "body")]) from None


def invalid_in(received: ReceivedMessage, invalid: Invalid) -> Invalid:
    """The same issues, with the fields of a contract named as in the message that offers it."""
    return invalid.moved(lambda loc: ("body", field) if (field := _field_of(received, loc[-1])) else loc)


def refused_in(received: ReceivedMessage, refused: Refused) -> Refused:
    """The same refusal, with what is not English named as in the message."""
    if refused.code != "language.not_english":
        return refused
    return Refused(refused.code, field=_field_of(received, refused.facts["field"]) or received.text_field)


def _options(received: ReceivedMessage) -> dict[str, Raw]:
    """What the metadata of the request and of the message set; that of the message counts where both name the same."""
    given = [each for each in (received.metadata, received.message.metadata) if each is not UNSET]
    read = [asdict(msgspec.json.decode(each, type=Options)) for each in given]
    return {name: raw for options in read for name, raw in options.items() if raw is not UNSET}


def _field_of(received: ReceivedMessage, field: object) -> str | None:
    """Where in a message a field of its contract comes from: the title from the text, unless metadata has one."""
    if field == "description" or (field == "title" and "title" not in _options(received)):
        return received.text_field
    name = NAMES.get(str(field))
    return f"message.metadata.{name}" if name else None
