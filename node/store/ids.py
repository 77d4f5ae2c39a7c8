"""Ids, and the partition that each of them names: arithmetic, so that any process knows where something is.

The data is divided into 64 partitions, each of which lies in one slot of a Redis Cluster (DESIGN 4). The last byte of
an id names its partition. What has no id, such as a client, is in the partition that a hash of its name gives.
"""

import os
import re
import time
from functools import lru_cache
from hashlib import blake2b
from zlib import crc32

import uuid_utils

from node.common import base64url
from node.common.refusal import Refused
from node.share.site import site_of

PARTITIONS = 64

CACHED_CLIENTS = 4096
"""Clients whose partition and site are cached; only a few send much."""

THUMBPRINT_LENGTH = 43
"""Characters of SHA-256 in base64url."""

RANDOM_BYTES = 4096
"""Random bytes that are fetched at a time."""

_MASK = PARTITIONS - 1
_62_BITS = (1 << 62) - 1
_HEX = [f"{number:02x}" for number in range(256)]
_random: list[int] = []
"""Random numbers of 64 bits that are not used yet. They are fetched many at a time, since each call of the system costs
a third of a microsecond and gives the interpreter lock away."""
os.register_at_fork(after_in_child=_random.clear)  # or two processes would make the same ids
_ADDRESS = re.compile(r"[A-Za-z0-9_-]{27}|[A-Za-z0-9_-]{43}")
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def partition_of(*parts: str) -> int:
    """The partition that things named by `parts` share."""
    return crc32("\0".join(parts).encode("utf-8", "surrogatepass")) & _MASK


@lru_cache(CACHED_CLIENTS)
def home_of(client: str) -> int:
    """The partition where a client is counted: that of its site, so that one script can see the totals of both."""
    return partition_of(site_of(client))


@lru_cache(CACHED_CLIENTS)
def site_name(client: str) -> str:
    """A short name for the site of a client, from which its address cannot be read: 16 hex digits."""
    return digest(site_of(client))[:16]


def new_id(partition: int | None = None) -> str:
    """A UUIDv7 whose last byte names the partition; a random one if None."""
    text = str(uuid_utils.uuid7())
    if partition is None:
        return text
    return text[:-2] + _HEX[int(text[-2:], 16) & ~_MASK | partition]


def unlisted_id(partition: int | None = None) -> str:
    """A UUIDv7 like those of `new_id` that cannot be guessed from others: for entities that are found by their id
    alone.

    The ids of the library count up within a millisecond and have only 32 random bits. These have 62, or 56 with a
    partition, after a clock of a quarter of a microsecond (RFC 9562 §6.2, method 3).
    """
    if not _random:
        _random.extend(memoryview(os.urandom(RANDOM_BYTES)).cast("Q"))
    chance = _random.pop()
    if partition is not None:
        chance = chance & ~_MASK | partition
    milliseconds, rest = divmod(time.time_ns(), 1_000_000)
    version_and_clock = milliseconds << 16 | 0x7000 | rest * 4096 // 1_000_000
    variant_and_chance = chance & _62_BITS | 1 << 63
    return str(uuid_utils.UUID(int=version_and_clock << 64 | variant_and_chance))


def is_id(text: str) -> bool:
    """Whether `text` has the form of an id."""
    return _ID.fullmatch(text) is not None


def require_id(text: str, code: str) -> None:
    """Raise Refused with `code`, as for an unknown id, if `text` has not the form of an id. Redis is not asked."""
    if not is_id(text):
        raise Refused(code)


def post_named(name: str) -> tuple[str, int]:
    """The thread and the number of the reply that `<thread>` or `<thread>:<number>` names; 0 is the thread itself.

    Raises ValueError.
    """
    thread_id, colon, seq = name.partition(":")
    if not is_id(thread_id) or (colon and not (seq.isascii() and seq.isdecimal())):
        raise ValueError(f"{name!r} is neither <thread id> nor <thread id>:<number of a reply>")
    return thread_id, int(seq or 0)


def is_address(text: str) -> bool:
    """Whether `text` has the form of the address of an inbox: a thumbprint (RFC 7638), or 160 random bits."""
    return _ADDRESS.fullmatch(text) is not None


def is_of_key(address: str) -> bool:
    """Whether an address is the thumbprint of a key, which can open it again and again."""
    return len(address) == THUMBPRINT_LENGTH


def new_address(partition: int | None = None) -> str:
    """160 random bits in base64url (27 characters) that lie in the partition; in any if None.

    It never begins with `-`, which commands would take for an option.
    """
    while True:
        address = base64url.encode(os.urandom(20))
        if address.startswith("-"):
            continue
        if partition is None or partition_of(address) == partition:
            return address


def partition_of_id(entity_id: str) -> int:
    """The partition of an entity, from its id."""
    return int(entity_id[-2:], 16) & _MASK


def named_partition(text: str) -> int:
    """The partition that an id from a request names; some partition for a text without the form of an id."""
    return partition_of_id(text) if is_id(text) else partition_of(text)


def digest(*parts: str | bytes) -> str:
    """A short name for what is too long or too private to be part of a key: 32 hex digits."""
    name = blake2b(digest_size=16)
    for part in parts:
        raw = part if isinstance(part, bytes) else part.encode("utf-8", "surrogatepass")
        name.update(b"%d:" % len(raw))
        name.update(raw)
    return name.hexdigest()


def may_be_ours(context_id: str) -> bool:
    """Whether the id of an A2A context has the form of `unlisted_id`. Then the node may have made it."""
    return is_id(context_id) and context_id[14] == "7"


def context_home(context_id: str, client: str) -> int:
    """The partition of an A2A context: that named by its id if `may_be_ours`, otherwise that of the client."""
    return partition_of_id(context_id) if may_be_ours(context_id) else partition_of(client)
