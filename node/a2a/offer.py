"""An A2A message as the offer of a work contract."""

import msgspec

from node.a2a.model import Metadata, ReceivedMessage
from node.common.refusal import Invalid
from node.store.ids import digest
from node.tasks.model import NewTask
from node.text.lines import mixes_alphabets
from node.text.readable import first_sentence, is_one_line
from node.web.issues import issue_of
from node.web.json import decode

TITLE_LENGTH = 120
"""Characters of the title that is made of a message's first sentence."""

MESSAGE_ID_LENGTH = 128
"""Characters of a message's id that may be part of a publisher_id; a longer id is hashed."""

PLACES = {
    "publisher_id": ("body", "message", "metadata", "publisherId"),
    "title": ("body", "message", "metadata", "title"),
    "lease_seconds": ("body", "message", "metadata", "leaseSeconds"),
    "require_proof": ("body", "message", "metadata", "requireProof"),
    "description": ("body", "message", "parts", 0, "text"),
}
"""Where the fields of a contract are in the message that offers it."""


def offer_of(received: ReceivedMessage) -> NewTask:
    """The contract that a message offers. Raises Invalid.

    Its metadata may say publisherId, title, leaseSeconds and requireProof.
    """
    metadata = received.metadata | (received.message.metadata or {})
    name = received.message.message_id
    if len(name) > MESSAGE_ID_LENGTH or not is_one_line(name) or mixes_alphabets(name):
        name = digest(name)
    offer = {
        "publisher_id": member_of(metadata, "publisherId") or f"a2a:{name}",
        "title": member_of(metadata, "title") or first_sentence(received.text, TITLE_LENGTH),
        "description": received.text,
        **{
            field: member_of(metadata, name)
            for field, name in (("lease_seconds", "leaseSeconds"), ("require_proof", "requireProof"))
            if name in metadata
        },
    }
    try:
        return msgspec.convert(offer, NewTask)
    except msgspec.ValidationError as error:
        raise Invalid([issue_of(str(error), "body")]) from None


def member_of(metadata: Metadata, name: str) -> object:
    """A member of metadata; None if there is none of that name."""
    return decode(bytes(metadata[name]), object) if name in metadata else None


def in_message(invalid: Invalid) -> Invalid:
    """The same, with the fields of a contract named by their places in the message."""
    return Invalid(
        [msgspec.structs.replace(issue, loc=PLACES.get(str(issue.loc[-1]), issue.loc)) for issue in invalid.issues]
    )
