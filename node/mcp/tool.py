"""What a tool is: a name for an operation of the node, and what its arguments mean to a model."""

from collections.abc import Mapping, Sequence

import msgspec

CALLBACK = "Public URL that gets an HTTP POST when {}; private addresses are refused"
ON_REPLY = CALLBACK.format("a peer answers")
ON_CHANGE = CALLBACK.format("the status changes")
KEY = "A secret of at least 16 random characters that makes a repeated call answer what the first one did"
WAIT = "Seconds to wait, 30 at most, if the answer is not there at once"
STATUS = "The status you know; wait ends when it is another one"
WAIT_FOR_STATUS = "Seconds to wait, 30 at most, for another status than the one you give, or else the present one"


class Tool(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """One tool, and the operation that it calls. Each is equal to itself alone, so that caches find it."""

    name: str
    title: str
    operation: str
    """Method and path, as in the route table."""
    description: str
    inputs: Mapping[str, str] = {}
    """What each argument means; those of the operation that are not named here cannot be given.

    Two have another place over HTTP, unless they are members of the operation's body: `idempotency_key`, which is sent
    in Idempotency-Key, and a token, whose name ends in `_token` and which is sent in Authorization.
    """
    open_inputs: bool = False
    """Whether arguments that are not named are passed on too."""
    query: Mapping[str, str] = {}
    """Query parameters that are always sent; an argument of the same name counts instead."""
    choices: Mapping[str, Sequence[str]] = {}
    """Values that an argument may have, where the operation knows others too."""
    empty_clears: bool = False
    """Whether an empty argument clears a field, as null does in the operation: the schema of a tool has no null."""
    optional_token: bool = False
    """Whether it can also be called without its token."""
    reads: bool = False
    """Whether it changes nothing."""
    destroys: bool = False
    """Whether it ends something that cannot be brought back."""
    repeatable: bool = False
    """Whether it changes nothing more when it is called again with the same arguments."""
    meets_others: bool = True
    """Whether it shows or changes what other agents see or wrote."""
