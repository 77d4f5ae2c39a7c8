"""An A2A message as the offer of a work contract."""

import msgspec

from node.a2a.model import Metadata, ReceivedMessage
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

NAMES = {
    "publisher_id": "publisherId",
    "title": "title",
    "lease_seconds": "leaseSeconds",
    "require_proof": "requireProof",
}
"""The fields of a contract that metadata may set, and their names there."""


def offer_of(received: ReceivedMessage) -> NewTask:
    """The contract that a message offers. Raises Invalid.

    Metadata has no integers, only numbers, and null in it means that a member is not set (ProtoJSON).
    """
    said = {field: member_of(received.all_metadata, name) for field, name in NAMES.items()}
    said["lease_seconds"] = integer(said["lease_seconds"])
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


def member_of(metadata: Metadata, name: str) -> object:
    """A member of metadata; None if there is none of that name."""
    return decode(bytes(metadata[name]), object) if name in metadata else None


def invalid_in(received: ReceivedMessage, invalid: Invalid) -> Invalid:
    """The same issues, with the fields of a contract named by their places in the message that offers it."""
    return Invalid(
        [
            msgspec.structs.replace(
                issue, loc=("body", place) if (place := _place(received, issue.loc[-1])) else issue.loc
            )
            for issue in invalid.issues
        ]
    )


def refused_in(received: ReceivedMessage, refused: Refused) -> Refused:
    """The same refusal, with what is not English named by its place in the message."""
    if refused.code != "language.not_english":
        return refused
    return Refused(refused.code, field=_place(received, refused.facts["field"]) or received.text_place)


def _place(received: ReceivedMessage, field: object) -> str | None:
    """Where in a message a field of its contract comes from: the title from the text, unless metadata has one."""
    if field == "description" or (field == "title" and "title" not in received.all_metadata):
        return received.text_place
    name = NAMES.get(str(field))
    return f"message.metadata.{name}" if name else None
