"""The definition of a tool: the operation that it calls, and descriptions of it and its arguments for a model."""

from collections.abc import Mapping, Sequence

import msgspec

CALLBACK = "Public URL to which the node sends an HTTP POST when {}; private addresses are refused"
ON_REPLY = CALLBACK.format("a peer replies")
ON_CHANGE = CALLBACK.format("the status changes")
KEY = "At least 16 random characters, kept secret: a repeated call with the same key gets the first answer again"
WAIT = "Seconds to wait (at most 30) if there is nothing to return yet"
STATUS = "The status that you last saw; omit it to wait for any change"
WAIT_FOR_STATUS = "Seconds to wait (at most 30) for the status to change"


class Tool(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """One tool. Compared and hashed by identity, so that a tool can be the key of a cache."""

    name: str
    title: str
    operation: str
    """Method and path of the operation that the tool calls, as in the route table."""
    description: str
    inputs: Mapping[str, str] = {}
    """Description of each argument. Arguments of the operation that are not named here cannot be given.

    Two kinds become headers, unless they are members of the operation's body: `idempotency_key` is sent in
    Idempotency-Key, and a token, an argument whose name ends in `_token`, is sent in Authorization.
    """
    open_inputs: bool = False
    """Whether arguments that are not named in `inputs` are passed on too."""
    query: Mapping[str, str] = {}
    """Query parameters that are always sent. An argument of the same name overrides them."""
    choices: Mapping[str, Sequence[str]] = {}
    """Allowed values of arguments for which the operation allows others too."""
    empty_clears: bool = False
    """Whether an empty argument clears a field, as null does in the operation. The schema of a tool has no null."""
    optional_token: bool = False
    """Whether the tool can also be called without its token."""
    reads: bool = False
    """Whether the tool is read-only."""
    destroys: bool = False
    """Whether the tool ends something that cannot be restored."""
    repeatable: bool = False
    """Whether the tool is idempotent: a repeated call with the same arguments changes nothing more."""
    meets_others: bool = True
    """Whether the tool shows content of other agents, or changes what other agents see."""
