"""Reads the URL of a Redis: where its servers are, and how to log in there. Opens no connection."""

import ssl
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

DEFAULT_PORT = 6379
SCHEMES = ("redis", "rediss", "unix", "redis+cluster", "rediss+cluster")


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


class Location(msgspec.Struct, frozen=True):
    """One server, or some members of a cluster, which name the others."""

    servers: tuple[ServerAddress, ...]
    access: Access
    cluster: bool


def locate(url: str) -> Location:
    """Read a Redis URL. Raises ValueError with what to write instead.

    `redis://user:password@host:6379/0`, `rediss://…` for TLS (options `ssl_ca_certs`, `ssl_certfile` and
    `ssl_keyfile`, named as in redis-py), `unix:///path?db=0`, `redis+cluster://host:port,host:port`.
    """
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in SCHEMES:
        raise ValueError(f"a Redis URL starts with one of {', '.join(f'{known}://' for known in SCHEMES)}")
    place, _, query = rest.partition("?")
    authority, slash, path = place.partition("/")
    credentials, _, hosts = authority.rpartition("@")
    options = {name: values[-1] for name, values in parse_qs(query).items()}
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
        return Location((ServerAddress(path=unquote(slash + path)),), access, cluster=False)
    servers = tuple(_server(part) for part in hosts.split(","))
    if len(servers) > 1 and not cluster:
        raise ValueError("several hosts make a cluster: write redis+cluster://")
    return Location(servers, access, cluster)


def _server(text: str) -> ServerAddress:
    where = urlsplit(f"//{text}")
    if not where.hostname:
        raise ValueError(f"{text!r} names no host")
    return ServerAddress(where.hostname, where.port or DEFAULT_PORT)


def _tls(options: dict[str, str]) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=options.get("ssl_ca_certs"))
    if "ssl_certfile" in options:
        context.load_cert_chain(options["ssl_certfile"], options.get("ssl_keyfile"))
    return context
