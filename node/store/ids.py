"""Ids, and the partition that each of them names. Any process computes where an entity lies from its id alone.

The data is divided into 64 partitions, each of which lies in one slot of a Redis Cluster (DESIGN 4). The last byte of
an id names its partition. Data without an id, such as a client's limits, lies in the partition given by a hash of its
name.
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
"""Most clients whose partition and site name are cached; few clients send most of the requests."""

THUMBPRINT_LENGTH = 43
"""Length of a SHA-256 in base64url, in characters."""

RANDOM_BYTES = 4096
"""Random bytes that one system call fetches."""

_MASK = PARTITIONS - 1
_62_BITS = (1 << 62) - 1
_HEX = [f"{number:02x}" for number in range(256)]
_random: list[int] = []
"""Unused random numbers of 64 bits. They are fetched many at a time, since each system call costs a third of a
microsecond and releases the interpreter lock."""
os.register_at_fork(after_in_child=_random.clear)  # otherwise two processes would make the same ids
_ADDRESS = re.compile(r"[A-Za-z0-9_-]{27}|[A-Za-z0-9_-]{43}")
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def partition_of(*parts: str) -> int:
    """Return the partition of whatever is named by `parts`, from a hash of them."""
    return crc32("\0".join(parts).encode("utf-8", "surrogatepass")) & _MASK


@lru_cache(CACHED_CLIENTS)
def home_of(client: str) -> int:
    """Return the partition where a client is counted: that of its site, so that one script sees the totals of both."""
    return partition_of(site_of(client))


@lru_cache(CACHED_CLIENTS)
def site_name(client: str) -> str:
    """Return a short name for the site of a client that does not reveal the address: 16 hex digits."""
    return digest(site_of(client))[:16]


def new_id(partition: int | None = None) -> str:
    """Return a UUIDv7 whose last byte names the partition; a random partition if None."""
    text = str(uuid_utils.uuid7())
    if partition is None:
        return text
    return text[:-2] + _HEX[int(text[-2:], 16) & ~_MASK | partition]


def unlisted_id(partition: int | None = None) -> str:
    """Return a UUIDv7, like `new_id`, that cannot be guessed from other ids: for entities that are in no list and are
    reached by id alone.

    The ids of the library count up within a millisecond and have only 32 random bits. These ids have 62 random bits, or
    56 with a given partition, after a timestamp with a resolution of a quarter of a microsecond (RFC 9562 §6.2,
    method 3).
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
    """Return whether `text` has the form of an id."""
    return _ID.fullmatch(text) is not None


def require_id(text: str, code: str) -> None:
    """Raise Refused with `code`, the code for an unknown id, if `text` does not have the form of an id. Does not call
    Redis."""
    if not is_id(text):
        raise Refused(code)


def post_named(name: str) -> tuple[str, int]:
    """Parse `<thread>` or `<thread>:<number>` into the thread's id and the number of a reply; 0 is the thread itself.

    Raises ValueError.
    """
    thread_id, colon, seq = name.partition(":")
    if not is_id(thread_id) or (colon and not (seq.isascii() and seq.isdecimal() and int(seq) <= 2**53)):
        raise ValueError(f"{name!r} is neither <thread id> nor <thread id>:<number of a reply>")
    return thread_id, int(seq or 0)


def is_address(text: str) -> bool:
    """Return whether `text` has the form of an inbox address: a thumbprint (RFC 7638), or 160 random bits."""
    return _ADDRESS.fullmatch(text) is not None


def is_of_key(address: str) -> bool:
    """Return whether an address is the thumbprint of a key, whose holder can open the inbox again at any time."""
    return len(address) == THUMBPRINT_LENGTH


def new_address(partition: int | None = None) -> str:
    """Return a random inbox address in the partition (any if None): 160 bits in base64url, 27 characters.

    It never begins with `-`, which a command line would take for an option.
    """
    while True:
        address = base64url.encode(os.urandom(20))
        if address.startswith("-"):
            continue
        if partition is None or partition_of(address) == partition:
            return address


def partition_of_id(entity_id: str) -> int:
    """Return the partition of an entity."""
    return int(entity_id[-2:], 16) & _MASK


def named_partition(text: str) -> int:
    """Return the partition that an id from a request names. Text that is not an id is hashed to a partition."""
    return partition_of_id(text) if is_id(text) else partition_of(text)


def digest(*parts: str | bytes) -> str:
    """Return a digest of parts that are too long or too private to be in a key: 32 hex digits."""
    name = blake2b(digest_size=16)
    for part in parts:
        raw = part if isinstance(part, bytes) else part.encode("utf-8", "surrogatepass")
        name.update(b"%d:" % len(raw))
        name.update(raw)
    return name.hexdigest()


def may_be_ours(context_id: str) -> bool:
    """Return whether the id of an A2A context has the form of `unlisted_id`, so that this node may have made it."""
    return is_id(context_id) and context_id[14] == "7"


def context_home(context_id: str, client: str) -> int:
    """Return the partition of an A2A context: the one its id names if `may_be_ours`, otherwise that of the client."""
    return partition_of_id(context_id) if may_be_ours(context_id) else partition_of(client)
