"""Who may do what with an inbox and its messages, proven by tokens and signatures. No token is stored.

An inbox_token contains its address and epoch, so that a script can tell whether a rotation has ended the token. A
receipt_token is valid for one message.
"""

import msgspec

from node.common.tokens import Tokens

BY_KEY = "*"
"""Used in place of an epoch for a request signed by the key of the address. No epoch has this value."""

UNPROVEN = ""
"""Used in place of an epoch for an address that was just generated."""


class Owner(msgspec.Struct, frozen=True):
    """The owner of an inbox, as far as a request proves it. The script that acts on the inbox makes the final check."""

    address: str
    proven_by: str
    """Epoch of the token, which a script compares with the epoch of the inbox; or BY_KEY or UNPROVEN."""
    replay_id: str = ""
    """Identifies the signature of the request, the same each time it is used; empty if the request is not signed."""


class InboxTokens:
    """Issues and reads the tokens of inboxes."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    def inbox_token(self, address: str, epoch: str) -> str:
        """Return `<address>.<epoch>.<mac>`."""
        return f"{address}.{epoch}.{self._tokens.issue('inbox', address, epoch)}"

    def owner_of(self, token: str | None) -> tuple[str, str] | None:
        """Return the address and epoch of a token, in constant time; None if this node issued no such token."""
        address, _, rest = (token or "").partition(".")
        epoch, _, mac = rest.partition(".")
        return (address, epoch) if self._tokens.proves(mac, "inbox", address, epoch) else None

    def receipt_token(self, address: str, message_id: str) -> str:
        """Return the token that only the sender of a message is given."""
        return self._tokens.issue("receipt", address, message_id)

    def is_sender(self, address: str, message_id: str, token: str | None) -> bool:
        """Whether this is the receipt_token of the message, in constant time."""
        return self._tokens.proves(token, "receipt", address, message_id)
