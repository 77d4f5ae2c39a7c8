"""Who may do what with an inbox and its messages, as proven by tokens and signatures. No token is stored.

An inbox_token names its address and epoch, so that the script that uses it can tell whether it was rotated away. A
receipt_token is for one message.
"""

import msgspec

from node.common.tokens import Tokens

BY_KEY = "*"
"""In place of an epoch, for a request signed by the key of the address. No epoch has this name."""

UNPROVEN = ""
"""In place of an epoch, for an address that was made just now."""


class Owner(msgspec.Struct, frozen=True):
    """The owner of an inbox, as far as a request proves it. The script that acts on the inbox has the last word."""

    address: str
    proven_by: str
    """The epoch of the token that was shown, which a script compares with that of the inbox; or BY_KEY."""
    replay_id: str = ""
    """The same for every use of the signature that the request has; empty if it has none."""


class InboxTokens:
    """Issues and reads the tokens of inboxes."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    def inbox_token(self, address: str, epoch: str) -> str:
        """`<address>.<epoch>.<mac>`."""
        return f"{address}.{epoch}.{self._tokens.issue('inbox', address, epoch)}"

    def owner_of(self, token: str | None) -> tuple[str, str] | None:
        """Address and epoch that a token was issued for, in constant time; None if this node issued no such token."""
        address, _, rest = (token or "").partition(".")
        epoch, _, mac = rest.partition(".")
        return (address, epoch) if self._tokens.proves(mac, "inbox", address, epoch) else None

    def receipt_token(self, address: str, message_id: str) -> str:
        """What only the sender of a message is given."""
        return self._tokens.issue("receipt", address, message_id)

    def is_sender(self, address: str, message_id: str, token: str | None) -> bool:
        """Whether the token is that of the message, in constant time."""
        return self._tokens.proves(token, "receipt", address, message_id)
