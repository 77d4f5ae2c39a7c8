"""Slot arithmetic compared with the server's own."""

from collections.abc import Iterator

import pytest
import redis
from hypothesis import given, settings
from hypothesis import strategies as st

from node.store import RedisReply
from node.store.address import ServerAddress
from node.store.slots import read_map, read_redirect, slot_of
from tests.support.servers import PATIENCE, RedisServer, free_port

HERE = ServerAddress("here", 7000)
keys = (
    st.text(alphabet=st.sampled_from("ab{}:é\U0001f600"), max_size=12) | st.text(max_size=30) | st.binary(max_size=30)
)


@pytest.fixture(scope="module")
def member(tmp_path_factory: pytest.TempPathFactory) -> Iterator["redis.Redis"]:
    port = free_port()
    folder = tmp_path_factory.mktemp("member")
    with (
        RedisServer(folder, "--cluster-enabled", "yes", port=port),
        redis.Redis(port=port, socket_timeout=PATIENCE) as client,
    ):
        yield client


@settings(max_examples=500)
@given(key=keys)
def test_the_slot_of_any_key_is_the_one_the_server_computes(member: "redis.Redis", key: str | bytes) -> None:
    assert slot_of(key) == member.execute_command("CLUSTER", "KEYSLOT", key)  # type: ignore[no-untyped-call]


@pytest.mark.parametrize(
    ("key", "same_as"),
    [
        ("thread:{2a}:x", "2a"),
        ("{user1000}.following", "user1000"),
        ("foo{bar}{zap}", "bar"),
        ("foo{{bar}}zap", "{bar"),
        ("foo{}{bar}", None),
        ("{}", None),
        ("a}b{c", None),
    ],
)
def test_only_the_first_tag_that_is_not_empty_counts(key: str, same_as: str | None) -> None:
    assert (slot_of(key) == slot_of(same_as)) if same_as else (slot_of(key) != slot_of("bar"))


def test_the_map_gives_each_range_its_primary_and_a_nameless_host_is_the_one_asked() -> None:
    reply: RedisReply = [
        [0, 5, [b"one", 7001, b"id", []], [b"replica", 7002, b"id", []]],
        [6, 6, [None, 7003, b"id", []]],
        [7, 9, [b"", 7004, b"id"]],
        [10, 11, [b"?", 7005, b"id"]],
    ]
    assert read_map(reply, HERE) == [
        (range(6), ServerAddress("one", 7001)),
        (range(6, 7), ServerAddress("here", 7003)),
        (range(7, 10), ServerAddress("here", 7004)),
        (range(10, 12), ServerAddress("here", 7005)),
    ]


@pytest.mark.parametrize(
    ("error", "server"),
    [
        ("MOVED 3999 127.0.0.1:6381", ServerAddress("127.0.0.1", 6381)),
        ("ASK 3999 ::1:6381", ServerAddress("::1", 6381)),
        ("MOVED 3999 :6381", ServerAddress("here", 6381)),
        ("MOVED 3999 host.example:6381", ServerAddress("host.example", 6381)),
    ],
)
def test_a_redirection_names_slot_and_server(error: str, server: ServerAddress) -> None:
    assert read_redirect(error, HERE) == (3999, server)
