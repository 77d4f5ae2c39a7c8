"""Parses the URL of a Redis into the addresses of its servers and how to log in. Opens no connection."""

import ssl
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

DEFAULT_PORT = 6379
SCHEMES = ("redis", "rediss", "unix", "redis+cluster", "rediss+cluster")
CHOICES = {"ssl_check_hostname": ("yes", "no"), "ssl_cert_reqs": ("required", "none")}
"""TLS options that are not paths, with their allowed values; the first is the default."""

TLS_OPTIONS = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile", *CHOICES)
"""TLS options of a URL, named as in redis-py."""
OPTIONS = {"unix": ("db",), "redis": ("db",), "rediss": ("db", *TLS_OPTIONS), "rediss+cluster": TLS_OPTIONS}
"""Options that the query of a URL may have, by scheme."""


class ServerAddress(msgspec.Struct, frozen=True):
    """One Redis process: a host and port, or the path of a unix socket."""

    host: str = ""
    port: int = 0
    path: str = ""

    def __str__(self) -> str:
        return self.path or f"{self.host}:{self.port}"


class Access(msgspec.Struct, frozen=True):
    """How to log in; the same for all servers of one Redis."""

    user: str = ""
    password: str = ""
    database: int = 0
    tls: ssl.SSLContext | None = None
    writes: bool = False
    """Whether to refuse a server that is a replica. Not needed in a cluster, whose map names the primaries."""

    @property
    def login(self) -> tuple[str, ...]:
        """The command that logs in; empty if there is neither a user nor a password. A user may have no password."""
        if self.user:
            return "AUTH", self.user, self.password
        return ("AUTH", self.password) if self.password else ()


class Location(msgspec.Struct, frozen=True):
    """One server, or some members of a cluster, from which the others are discovered."""

    servers: tuple[ServerAddress, ...]
    access: Access
    cluster: bool


def locate(url: str) -> Location:
    """Parse a Redis URL. Raises ValueError, whose text says what to write instead.

    `redis://user:password@host:6379/0`, `rediss://…` for TLS (TLS_OPTIONS),
    `unix:///path?db=0`, `redis+cluster://host:port,host:port`.
    """
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in SCHEMES:
        raise ValueError(f"a Redis URL starts with one of {', '.join(f'{known}://' for known in SCHEMES)}")
    location, _, query = rest.partition("?")
    authority, slash, path = location.partition("/")
    credentials, _, hosts = authority.rpartition("@")
    options = {name: values[-1] for name, values in parse_qs(query).items()}
    unknown = options.keys() - OPTIONS.get(scheme, ())
    # The error does not quote the wrong part, unlike below: it is the end of a password, which no message may show.
    is_cut_query = "@" in query and (unknown or not options or "@" in options.get("db", ""))
    if is_cut_query or ("@" in path and (scheme != "unix" or hosts)):
        raise ValueError("write / as %2F and ? as %3F in a user name or password")
    if unknown:
        raise ValueError(f"{', '.join(sorted(unknown))} is not an option of {scheme}://")
    cluster = scheme.endswith("+cluster")
    database = options.get("db", "" if scheme == "unix" else path.strip("/")) or "0"
    if not database.isdecimal() or (cluster and database != "0"):
        raise ValueError(f"{database!r} is not a database of this Redis; a cluster has only 0")
    user, _, password = credentials.partition(":")
    access = Access(
        user=unquote(user),
        password=unquote(password),
        database=int(database),
        tls=_tls(options) if scheme.startswith("rediss") else None,
    )
    if scheme == "unix":
        if not path:
            raise ValueError("a unix:// URL must name the path of a socket, such as unix:///run/redis.sock")
        return Location((ServerAddress(path=unquote(slash + path)),), access, cluster=False)
    servers = tuple(_server(part) for part in hosts.split(","))
    if len(servers) > 1 and not cluster:
        raise ValueError("only a cluster has several hosts: write redis+cluster://")
    return Location(servers, access, cluster)


def _server(text: str) -> ServerAddress:
    where = urlsplit(f"//{text}")
    if not where.hostname or where.port == 0:
        raise ValueError(f"{text!r} is not HOST or HOST:PORT")
    return ServerAddress(where.hostname, where.port or DEFAULT_PORT)


def _tls(options: dict[str, str]) -> ssl.SSLContext:
    for name, values in CHOICES.items():
        if options.get(name, values[0]) not in values:
            raise ValueError(f"{name}={options[name]} is not one of {', '.join(values)}")
    if "ssl_keyfile" in options and "ssl_certfile" not in options:
        raise ValueError("ssl_keyfile needs its certificate: name the certificate in ssl_certfile")
    try:
        context = ssl.create_default_context(cafile=options.get("ssl_ca_certs"))
        if "ssl_certfile" in options:
            context.load_cert_chain(options["ssl_certfile"], options.get("ssl_keyfile"))
    except OSError as error:  # ssl.SSLError is one
        files = " and ".join(options[name] for name in TLS_OPTIONS if name in options and name not in CHOICES)
        raise ValueError(f"{files} cannot be used: {error.strerror or error}") from error
    is_unverified = options.get("ssl_cert_reqs") == "none"
    if is_unverified or options.get("ssl_check_hostname") == "no":
        context.check_hostname = False
    if is_unverified:
        context.verify_mode = ssl.CERT_NONE
    return context
