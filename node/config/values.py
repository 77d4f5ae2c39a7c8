"""The types of settings other than numbers and words. Each is parsed from text, and `str` turns it back into text."""

import re
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

import msgspec

MAX_PAUSE = 86400.0
"""Longest pause between two attempts at one callback, in seconds."""

MAX_PAUSES = 100
"""Most pauses between attempts at one callback. Until the last attempt, its message takes memory in Redis."""

MAX_COUNT = 10**9
"""Largest count of a limit. Redis keeps the time of each request in the window."""

MAX_WINDOW = 366 * 86400
"""Longest window of a limit, in seconds."""

UNIX_PEER = "unix"
"""Stands for a peer on a Unix socket, in RELAY_TRUSTED_PROXIES and as the address of a client."""

_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^\s/?#@,]+")
"""Matches a scheme, a host and optionally a port (RFC 6454 §6.2)."""

_VISIBLE = re.compile(r"[!-~]+")

_HOST_NAME = re.compile(r"[\w.-]+")

Network = IPv4Network | IPv6Network
Address = IPv4Address | IPv6Address

USAGE_ERROR = 2
"""Exit status of a process that cannot run with its settings. argparse uses the same one for wrong arguments."""


class ConfigError(Exception):
    """A setting that cannot be used. The message names the setting and says what to write."""

    status = USAGE_ERROR
    """Exit status of the process that ends because of it."""


class Limit(msgspec.Struct, frozen=True):
    """At most `count` accepted requests in any `seconds`; a count of 0 means no limit."""

    count: int
    seconds: int

    @classmethod
    def parse(cls, text: str) -> "Limit":
        """Read `<count>/<seconds>`, or `0` for none. Raises ValueError."""
        if text.strip() == "0":
            return NO_LIMIT
        numbers = re.fullmatch(r"\s*(\d{1,12})\s*/\s*(\d{1,12})\s*", text)
        limit = cls(int(numbers[1]), int(numbers[2])) if numbers else cls(0, 0)
        if not (1 <= limit.count <= MAX_COUNT and 1 <= limit.seconds <= MAX_WINDOW):
            raise ValueError(
                f"{text!r} is not <count>/<seconds> of at most {MAX_COUNT}/{MAX_WINDOW}, such as 10/60, "
                "nor 0 (no limit)"
            )
        return limit

    def __str__(self) -> str:
        return f"{self.count}/{self.seconds}" if self.count else "0"


NO_LIMIT = Limit(0, 1)


class Schedule(msgspec.Struct, frozen=True):
    """Pauses before the second and each further attempt, in seconds. There is one attempt more than pauses."""

    seconds: tuple[float, ...]

    @classmethod
    def parse(cls, text: str) -> "Schedule":
        """Read `5,60,300`. Raises ValueError."""
        try:
            schedule = cls(tuple(float(pause) for pause in text.split(",")))
        except ValueError:
            schedule = cls((0.0,))
        if len(schedule.seconds) > MAX_PAUSES or not all(0 < pause <= MAX_PAUSE for pause in schedule.seconds):
            raise ValueError(
                f"{text!r} is not a list of up to {MAX_PAUSES} pauses, in seconds, such as 5,60,300; each must be "
                f"over 0 and at most {MAX_PAUSE:g}"
            )
        return schedule

    def __str__(self) -> str:
        return ",".join(f"{pause:g}" for pause in self.seconds)


class AllowedOrigins(msgspec.Struct, frozen=True):
    """The other origins whose pages may call the node from a browser."""

    listed: tuple[str, ...] = ()
    everyone: bool = False
    given: bool = True
    """Whether an operator has set it. If not, the policy depends on who can reach the node."""

    @classmethod
    def parse(cls, text: str) -> "AllowedOrigins":
        """Read `*`, `none`, or `https://app.example,https://other.example:8443`. Raises ValueError."""
        if text == "*":
            return cls(everyone=True)
        listed = () if text == "none" else tuple(origin.strip().lower() for origin in text.split(","))
        for origin in listed:
            if not _ORIGIN.fullmatch(origin):
                raise ValueError(
                    f"{origin!r} is not an origin; write origins such as https://app.example, comma separated, "
                    "or * for all, or none"
                )
        return cls(listed)

    def __str__(self) -> str:
        return "*" if self.everyone else ",".join(self.listed) or ("none" if self.given else "")


class Networks(msgspec.Struct, frozen=True):
    """A set of addresses and networks."""

    networks: tuple[Network, ...] = ()

    @classmethod
    def parse(cls, text: str) -> "Networks":
        """Read `192.0.2.0/24,2001:db8::1`. Raises ValueError."""
        return cls(tuple(_network(name, strict=True) for name in _names(text)))

    def __contains__(self, address: Address) -> bool:
        return any(address in network for network in self.networks)

    def __str__(self) -> str:
        return ",".join(map(_short, self.networks))


class Proxies(Networks, frozen=True):
    """Peers that are trusted to name their clients."""

    unix: bool = False
    """Whether peers on a Unix socket are trusted, too."""

    @classmethod
    def parse(cls, text: str) -> "Proxies":
        """Read `10.0.0.0/8,2001:db8::1,unix`. Raises ValueError."""
        names = _names(text)
        return cls(tuple(_network(name, strict=False) for name in names if name != UNIX_PEER), UNIX_PEER in names)

    def __bool__(self) -> bool:
        return self.unix or bool(self.networks)

    def __str__(self) -> str:
        return ",".join([*map(_short, self.networks), *([UNIX_PEER] if self.unix else [])])


def bounds_of(meta: msgspec.Meta) -> str:
    """Return the bounds of a number setting, such as ` from 1 to 65535`; empty if it has none."""
    return "".join(f" {word} {bound:g}" for word, bound in (("from", meta.ge), ("to", meta.le)) if bound is not None)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _network(name: str, *, strict: bool) -> Network:
    try:
        return ip_network(name, strict=strict)
    except ValueError as error:
        raise ValueError(f"{error}; write addresses and networks such as 192.0.2.0/24,2001:db8::1") from error


def _short(network: Network) -> str:
    return str(network.network_address) if network.prefixlen == network.max_prefixlen else str(network)


def http_url(text: str) -> str:
    """Return the URL of a server without trailing slashes. Raises ValueError."""
    try:
        parts = urlsplit(text)
        is_one = parts.scheme in ("http", "https") and bool((parts.hostname or "").encode("idna")) and parts.port != 0
    except ValueError:  # a bad port, a bad address in brackets, or a name with an empty or too long part
        is_one, parts = False, urlsplit("")
    if not is_one or parts.query or parts.fragment or not _VISIBLE.fullmatch(text) or {"@", ","} & set(parts.netloc):
        raise ValueError(f"{text!r} is not http(s)://HOST, or http(s)://HOST:PORT/PATH")
    return text.rstrip("/")


def listening_host(text: str) -> str:
    """Return an address or host name without a port (the port is a setting of its own). Raises ValueError."""
    if not _HOST_NAME.fullmatch(text):
        try:
            ip_address(text)
        except ValueError as error:
            raise ValueError("write an IP address or a host name, without a scheme, brackets or a port") from error
    return text


def label(text: str) -> str:
    """Return a name that is shown in headers and metrics. Raises ValueError."""
    if not text.isprintable() or len(text) > 100:
        raise ValueError("write at most 100 printable characters")
    return text


def host_names(text: str) -> str:
    """Return comma-separated host names. Raises ValueError for one with a port or a path, which would never match."""
    for name in text.split(","):
        if ":" in name or "/" in name:
            raise ValueError(f"{name.strip()!r} is not a host name: write it without a scheme, a port or a path")
    return text
