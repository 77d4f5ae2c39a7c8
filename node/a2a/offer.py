"""Converts an A2A message into the offer of a work contract."""

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
"""Maximum length, in characters, of a title that is taken from the first sentence of a message."""

MESSAGE_ID_LENGTH = 128
"""Maximum length, in characters, of a message id that is part of a publisher_id unhashed."""


class Options(msgspec.Struct, rename="camel"):
    """The fields of a contract that metadata may set, undecoded."""

    publisher_id: Raw | UnsetType = UNSET
    title: Raw | UnsetType = UNSET
    lease_seconds: Raw | UnsetType = UNSET
    require_proof: Raw | UnsetType = UNSET


NAMES = {field.name: field.encode_name for field in fields(Options)}
"""Name in metadata by name in the contract."""


def offer_of(received: ReceivedMessage) -> NewTask:
    """Return the contract that a message offers. Raises Invalid.

    In metadata, ProtoJSON allows an integer to be written as 60.0 or "60", and null means that a member is not set.
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
    """Return the same issues, located in the message instead of the contract that it offers."""
    return invalid.moved(lambda loc: ("body", field) if (field := _field_of(received, loc[-1])) else loc)


def refused_in(received: ReceivedMessage, refused: Refused) -> Refused:
    """Return the same refusal. If a text is not English, the refusal names its field in the message."""
    if refused.code != "language.not_english":
        return refused
    return Refused(refused.code, field=_field_of(received, refused.facts["field"]) or received.text_field)


def _options(received: ReceivedMessage) -> dict[str, Raw]:
    """Return the options set by the metadata of the request and of the message. The message's take precedence."""
    given = [each for each in (received.metadata, received.message.metadata) if each is not UNSET]
    read = [asdict(msgspec.json.decode(each, type=Options)) for each in given]
    return {name: raw for options in read for name, raw in options.items() if raw is not UNSET}


def _field_of(received: ReceivedMessage, field: object) -> str | None:
    """Return the field of the message from which a field of the contract was taken; None if it has no such field.

    A title comes from the text, unless metadata has one.
    """
    if field == "description" or (field == "title" and "title" not in _options(received)):
        return received.text_field
    name = NAMES.get(str(field))
    return f"message.metadata.{name}" if name else None
