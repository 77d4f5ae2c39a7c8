"""The address of a Redis and the login: URLs, passwords, databases, TLS."""

import re
import ssl
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest

from node.store import StoreUnavailable
from node.store.address import Access, ServerAddress, locate
from tests.store.conftest import Opener
from tests.support.servers import Proxy, RedisServer

TLS = Path(__file__).parent / "tls"  # a self-signed certificate for localhost


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("redis://host", ServerAddress("host", 6379)),
        ("redis://host:7000/", ServerAddress("host", 7000)),
        ("redis://[::1]:7000", ServerAddress("::1", 7000)),
        ("unix:///run/redis%20one.sock", ServerAddress(path="/run/redis one.sock")),
    ],
)
def test_a_url_names_one_server(url: str, server: ServerAddress) -> None:
    location = locate(url)
    assert location.servers == (server,)
    assert not location.cluster
    assert location.access == Access()


def test_a_url_carries_user_password_and_database() -> None:
    assert locate("redis://ann:p%40ss%3A@host:1/3").access == Access(user="ann", password="p@ss:", database=3)
    assert locate("redis://:word@host").access == Access(password="word")
    assert locate("unix:///sock?db=2").access == Access(database=2)


def test_a_cluster_url_names_any_few_members() -> None:
    location = locate("redis+cluster://user:word@one:7000,two:7001,three")
    assert location.servers == (ServerAddress("one", 7000), ServerAddress("two", 7001), ServerAddress("three", 6379))
    assert location.cluster
    assert location.access == Access(user="user", password="word")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "host:6379",
        "http://host",
        "redis://",
        "redis://host/name",
        "redis://one,two",
        "redis+cluster://one/1",
        "redis://host:port",
    ],
)
def test_a_url_that_cannot_be_meant_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        locate(url)


@pytest.mark.parametrize(
    "url",
    [
        "redis://:pass/word@host:6379/0",
        "redis://ann:p@ss/word@host",
        "redis://:pass?word@host:6379/0",
        "redis://:pass?word=x@host",
        "redis://:pass?db=7@host",
        "redis+cluster://:pass/word@one:7000,two:7001",
        "rediss://:pass?word=x@host",
        "unix://:pass/word@/run/redis.sock",
    ],
)
def test_what_follows_a_slash_in_a_password_is_not_shown(url: str) -> None:
    """That part of a password must not be taken for the database, an option or a path, and be logged as such."""
    with pytest.raises(ValueError, match=r"^write / as %2F and \? as %3F in a user name or password$"):
        locate(url)


def test_other_signs_in_a_password_and_at_signs_in_paths_are_taken_as_they_are() -> None:
    assert locate("redis://:p#a[s@s@host").access == Access(password="p#a[s@s")
    assert locate("unix://:word@/run/redis@1.sock?db=2").servers == (ServerAddress(path="/run/redis@1.sock"),)
    assert locate("unix:///run/redis@1.sock").servers == (ServerAddress(path="/run/redis@1.sock"),)
    with pytest.raises(ValueError, match=r"^/etc/redis@1/ca\.pem cannot be used: "):
        locate("rediss://:word@host?ssl_ca_certs=/etc/redis@1/ca.pem")


async def test_password_and_database_are_given_on_every_connection(tmp_path: Path, open_store: Opener) -> None:
    with RedisServer(tmp_path / "redis") as server:
        server.do("ACL", "SETUSER", "ann", "on", ">pass word", "~*", "&*", "+@all")
        server.do("ACL", "SETUSER", "default", "off")
        path = quote(str(server.socket))
        store = await open_store(f"unix://ann:pass%20word@{path}?db=5", max_in_flight=10)
        assert await store.command("ACL", "WHOAMI") == b"ann"
        info = await store.command("CLIENT", "INFO")
        assert isinstance(info, bytes)
        assert b" db=5 " in info


async def test_a_user_without_a_password_is_logged_in(tmp_path: Path, open_store: Opener) -> None:
    """Otherwise the node would work as the default user, who may have other rights."""
    with RedisServer(tmp_path / "redis") as server:
        server.do("ACL", "SETUSER", "ann", "on", "nopass", "~*", "&*", "+@all")
        store = await open_store(f"unix://ann@{quote(str(server.socket))}", max_in_flight=10)
        assert await store.command("ACL", "WHOAMI") == b"ann"


async def test_a_wrong_password_is_reported_as_the_reason(tmp_path: Path, open_store: Opener) -> None:
    with RedisServer(tmp_path / "redis") as server:
        server.do("CONFIG", "SET", "requirepass", "secret")
        store = await open_store(f"unix://:wrong@{quote(str(server.socket))}", max_in_flight=10, required=False)
        with pytest.raises(StoreUnavailable, match="WRONGPASS"):
            await store.command("PING")


async def test_a_server_that_knows_no_login_does_not_make_the_password_known(
    tmp_path: Path, open_store: Opener, caplog: pytest.LogCaptureFixture
) -> None:
    """Redis' error repeats what it was sent, and the error is logged."""
    with RedisServer(tmp_path / "redis", "--rename-command", "AUTH", "") as server:
        store = await open_store(f"unix://ann:secret@{quote(str(server.socket))}", max_in_flight=10, required=False)
        with pytest.raises(StoreUnavailable, match=r"ERR unknown command 'AUTH'$"):
            await store.command("PING")
    assert "unknown command 'AUTH'" in caplog.text
    assert "secret" not in caplog.text


def tls_server() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / "cert.pem", TLS / "key.pem")
    return context


async def test_tls_is_spoken_and_the_certificate_checked(redis_server: RedisServer, open_store: Opener) -> None:
    async with Proxy(redis_server, tls_server()) as network:
        async with await open_store(
            f"rediss://localhost:{network.port}?ssl_ca_certs={quote(str(TLS / 'cert.pem'))}"
        ) as store:
            assert await store.command("ECHO", "x" * 100_000) == b"x" * 100_000
        async with await open_store(f"rediss://localhost:{network.port}", required=False) as store:
            with pytest.raises(StoreUnavailable, match="certificate"):
                await store.command("PING")


async def test_a_client_certificate_is_shown_where_one_is_asked_for(
    redis_server: RedisServer, open_store: Opener
) -> None:
    context = tls_server()
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(TLS / "cert.pem")
    options = urlencode(
        {"ssl_ca_certs": TLS / "cert.pem", "ssl_certfile": TLS / "cert.pem", "ssl_keyfile": TLS / "key.pem"}
    )
    async with (
        Proxy(redis_server, context) as network,
        await open_store(f"rediss://localhost:{network.port}?{options}") as store,
    ):
        assert await store.command("PING") == b"PONG"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("ssl_ca_cert=/etc/ca.pem", "ssl_ca_cert is not an option of rediss://"),
        ("ssl_ca_certs=/nowhere/ca.pem", "/nowhere/ca.pem cannot be used: No such file or directory"),
        (f"ssl_ca_certs={__file__}", "cannot be used"),
        (f"ssl_certfile={__file__}", "cannot be used"),
        ("ssl_keyfile=/etc/key.pem", "name the certificate in ssl_certfile"),
        ("ssl_cert_reqs=maybe", "ssl_cert_reqs=maybe is not one of required, none"),
        ("ssl_check_hostname=false", "ssl_check_hostname=false is not one of yes, no"),
    ],
)
def test_an_option_that_cannot_be_used_is_one_sentence(options: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)):
        locate(f"rediss://redis.example:6379?{options}")


def test_options_say_whom_to_believe() -> None:
    def tls(options: str) -> tuple[bool, ssl.VerifyMode]:
        context = locate(f"rediss+cluster://redis.example:6379?{options}").access.tls
        assert context
        return context.check_hostname, context.verify_mode

    assert tls(f"ssl_ca_certs={TLS}/cert.pem") == (True, ssl.CERT_REQUIRED)
    assert tls(f"ssl_certfile={TLS}/cert.pem&ssl_keyfile={TLS}/key.pem") == (True, ssl.CERT_REQUIRED)
    assert tls("ssl_check_hostname=no") == (False, ssl.CERT_REQUIRED)
    assert tls("ssl_cert_reqs=none") == (False, ssl.CERT_NONE)
