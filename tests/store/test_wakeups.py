"""Wake-ups: listeners hear, and a listener that may have missed something is told to look."""

import asyncio
import time
from pathlib import Path

import pytest

from node.store import Listener, Store
from node.store.wakeups import MAX_MESSAGES, MAX_QUEUED_BYTES
from tests.store.conftest import Opener, step
from tests.support.servers import PATIENCE, RedisServer, eventually

PUBLISH = step("publish", "redis.call('SET', key1, arg1) redis.call('SPUBLISH', key1, arg1) return 1", args=1)
PUBLISH_TWO = step("publish", "redis.call('SPUBLISH', key1, 'one') redis.call('SPUBLISH', key1, 'two') return 1")


def channels(server: RedisServer) -> list[bytes]:
    return sorted(server.do("PUBSUB", "SHARDCHANNELS"))


async def test_a_listener_hears_what_a_script_publishes_on_the_channel(store: Store) -> None:
    with await store.wakeups.listen("thread:{2a}:1") as listener:
        await store.run(PUBLISH("thread:{2a}:1", "reply"))
        assert await listener.next(PATIENCE) == b"reply"


async def test_a_listener_hears_messages_in_order_and_only_those_of_its_channel(store: Store) -> None:
    with await store.wakeups.listen("mine") as listener:
        for number in range(50):
            await store.command("SPUBLISH", "other", "not for us")
            await store.command("SPUBLISH", "mine", number)
        assert [await listener.next(PATIENCE) for _ in range(50)] == [str(number).encode() for number in range(50)]


async def test_a_listener_waits_no_longer_than_asked(store: Store) -> None:
    with await store.wakeups.listen("channel") as listener:
        assert await listener.next(0.01) is None
        await store.command("SPUBLISH", "channel", "later")
        assert await listener.next(PATIENCE) == b"later"


async def test_a_wait_that_a_message_ended_ends_no_later_one(store: Store) -> None:
    with await store.wakeups.listen("channel") as listener, await store.wakeups.listen("silent") as silent:
        waiting = asyncio.create_task(listener.next(0.1))
        await asyncio.sleep(0)
        listener.hear(b"first")
        assert await waiting == b"first"
        waiting = asyncio.create_task(listener.next(PATIENCE))
        assert await silent.next(0.2) is None  # longer than the first call would have waited
        await store.command("SPUBLISH", "channel", "second")
        assert await waiting == b"second"


async def test_all_listeners_of_a_channel_share_one_subscription(redis_server: RedisServer, store: Store) -> None:
    listeners = await asyncio.gather(*(store.wakeups.listen("channel") for _ in range(20)))
    assert redis_server.do("PUBSUB", "SHARDNUMSUB", "channel") == [b"channel", 1]
    await store.command("SPUBLISH", "channel", "all")
    assert await asyncio.gather(*(listener.next(PATIENCE) for listener in listeners)) == [b"all"] * 20


async def test_a_listener_that_left_hears_nothing_and_the_others_go_on(store: Store) -> None:
    with await store.wakeups.listen("channel") as staying:
        with await store.wakeups.listen("channel") as leaving:
            pass
        await store.command("SPUBLISH", "channel", "message")
        assert await staying.next(PATIENCE) == b"message"
        assert await leaving.next(0) is None


async def test_a_channel_without_listeners_is_left_after_a_while_and_can_be_heard_again(
    redis_server: RedisServer, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("node.store.wakeups.UPKEEP_SECONDS", 0.02)

    def connections() -> int:
        return redis_server.do("CLIENT", "LIST").count(b"\n")

    before = connections()
    for _ in range(2):
        with await store.wakeups.listen("channel") as listener:
            assert channels(redis_server) == [b"channel"]
            await store.command("SPUBLISH", "channel", "message")
            assert await listener.next(PATIENCE) == b"message"
        await eventually(lambda: channels(redis_server) == [] and connections() == before)


async def test_a_channel_that_was_left_is_not_subscribed_again(
    redis_server: RedisServer, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("node.store.wakeups.UPKEEP_SECONDS", 0.02)
    with await store.wakeups.listen("left"), await store.wakeups.listen("channel"):
        pass
    with await store.wakeups.listen("channel") as listener:
        await eventually(lambda: channels(redis_server) == [b"channel"])
        redis_server.do("CLIENT", "KILL", "TYPE", "PUBSUB")
        await heard_again(redis_server, listener)
        assert channels(redis_server) == [b"channel"]


async def test_a_listener_with_a_prefix_hears_what_begins_with_it(store: Store) -> None:
    with await store.wakeups.listen("channel", b"mine") as listener:
        for message in ("yours", "mine: read"):
            await store.command("SPUBLISH", "channel", message)
        assert await listener.next(PATIENCE) == b"mine: read"


async def test_messages_that_arrive_together_are_all_heard_by_who_waits(store: Store) -> None:
    with await store.wakeups.listen("channel") as listener:
        waiting = asyncio.create_task(listener.next(PATIENCE))
        await asyncio.sleep(0)
        await store.run(PUBLISH_TWO("channel"))
        assert [await waiting, await listener.next(PATIENCE)] == [b"one", b"two"]
        await store.command("SPUBLISH", "channel", "three")
        assert await listener.next(PATIENCE) == b"three"


async def test_a_payload_arrives_as_it_was_sent(store: Store) -> None:
    vector = bytes(range(256)) * 6
    with await store.wakeups.listen("answers") as listener:
        await store.command("SPUBLISH", "answers", vector)
        assert await listener.next(PATIENCE) == vector


async def test_of_a_long_backlog_the_newest_messages_are_kept_and_the_loss_is_told(store: Store) -> None:
    with await store.wakeups.listen("busy") as listener, await store.wakeups.listen("end") as end:
        for number in range(MAX_MESSAGES + 10):
            await store.command("SPUBLISH", "busy", number)
        await store.command("SPUBLISH", "end", "")
        await end.next(PATIENCE)
        kept = [await listener.next(PATIENCE) for _ in range(MAX_MESSAGES)]
        assert kept == [b"", *(str(number).encode() for number in range(11, MAX_MESSAGES + 10))]
        assert await listener.next(0) is None


async def test_a_long_backlog_is_one_of_many_bytes_too(store: Store) -> None:
    large = b"x" * (MAX_QUEUED_BYTES // 4)
    with await store.wakeups.listen("busy") as listener, await store.wakeups.listen("end") as end:
        for number in range(10):
            await store.command("SPUBLISH", "busy", b"%d" % number + large[1:])
        await store.command("SPUBLISH", "end", "")
        await end.next(PATIENCE)
        kept = [await listener.next(PATIENCE) for _ in range(5)]
        assert [message and message[:1] for message in kept] == [b"", b"6", b"7", b"8", b"9"]
        await store.command("SPUBLISH", "busy", b"x" * (MAX_QUEUED_BYTES + 1))
        assert await listener.next(PATIENCE) == b"", "whoever looks learns what was in it"
        await store.command("SPUBLISH", "busy", "small")
        assert await listener.next(PATIENCE) == b"small"


async def heard_again(server: RedisServer, listener: Listener) -> None:
    """Check that the listener is told to look, and then hears the channel again."""
    message = await listener.next(PATIENCE)
    assert message == b""
    while message == b"":  # repeated, in case a busy machine was silent for too long
        server.do("SPUBLISH", "channel", "after")
        message = await listener.next(PATIENCE)
    assert message == b"after"


async def test_after_a_restart_listeners_are_told_to_look_and_hear_again(
    redis_server: RedisServer, store: Store
) -> None:
    with await store.wakeups.listen("channel") as listener:
        redis_server.kill()
        redis_server.start()
        await heard_again(redis_server, listener)


@pytest.mark.parametrize("prefix", [b"", b"aft"])
async def test_after_a_broken_connection_listeners_are_told_to_look_and_hear_again(
    redis_server: RedisServer, store: Store, prefix: bytes
) -> None:
    with await store.wakeups.listen("channel", prefix) as listener:
        redis_server.do("CLIENT", "KILL", "TYPE", "PUBSUB")
        await heard_again(redis_server, listener)


async def test_a_silent_server_is_noticed_and_listening_resumes(
    redis_server: RedisServer, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("node.store.wakeups.UPKEEP_SECONDS", 0.05)
    monkeypatch.setattr("node.store.wakeups.PING_SECONDS", 0.2)
    with await store.wakeups.listen("channel") as listener:
        redis_server.pause()
        await eventually(lambda: store.stats.reconnects)
        redis_server.resume()
        await heard_again(redis_server, listener)


async def test_a_server_that_has_nothing_to_tell_is_asked_whether_it_is_there(
    redis_server: RedisServer, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("node.store.wakeups.UPKEEP_SECONDS", 0.05)
    monkeypatch.setattr("node.store.wakeups.PING_SECONDS", 0.2)
    with await store.wakeups.listen("channel"):
        await eventually(lambda: b"cmd=ping" in redis_server.do("CLIENT", "LIST", "TYPE", "PUBSUB"))


async def test_a_process_that_was_held_up_itself_keeps_its_connection(
    redis_server: RedisServer, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("node.store.wakeups.PING_SECONDS", 0.5)

    def asked() -> int:
        return redis_server.info("commandstats").get("cmdstat_ping", {"calls": 0})["calls"]

    with await store.wakeups.listen("channel") as listener:
        before = asked()
        await eventually(lambda: asked() > before + 1)  # the connection has been checked several times
        time.sleep(1.5)  # noqa: ASYNC251  # the event loop stands still: nothing is asked, and nothing heard
        before = asked()
        await eventually(lambda: asked() > before + 1)
        assert store.stats.reconnects == 0
        assert await listener.next(0) is None, "nothing may have been lost"


async def test_listening_before_redis_exists_works_and_tells_to_look_when_it_does(
    tmp_path: Path, open_store: Opener
) -> None:
    server = RedisServer(tmp_path / "redis")
    store = await open_store(server.url, max_in_flight=10, required=False)
    with await store.wakeups.listen("channel") as listener, server:
        await heard_again(server, listener)


async def test_a_subscription_that_the_server_refused_is_tried_again(
    redis_server: RedisServer, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server here refuses for a reason that a single server can have; a cluster would with CLUSTERDOWN."""
    monkeypatch.setattr("node.store.wakeups.UPKEEP_SECONDS", 0.02)
    redis_server.do("ACL", "SETUSER", "default", "resetchannels")
    listening = asyncio.create_task(store.wakeups.listen("channel"))
    await eventually(lambda: redis_server.do("ACL", "LOG"))
    redis_server.do("ACL", "SETUSER", "default", "allchannels")
    with await listening as listener:
        await store.command("SPUBLISH", "channel", "message")
        assert await listener.next(PATIENCE) == b"message"


async def test_a_listener_that_waits_long_for_its_subscription_is_not_forgotten(
    redis_server: RedisServer, open_store: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("node.store.wakeups.UPKEEP_SECONDS", 0.01)
    monkeypatch.setattr("node.store.wakeups.IDLE_ROUNDS", 0)
    store = await open_store(redis_server.url)
    redis_server.pause()
    with await store.wakeups.listen("channel") as listener:
        redis_server.resume()
        await heard_again(redis_server, listener)


async def test_a_listener_that_gives_up_while_subscribing_leaves_no_trace(
    redis_server: RedisServer, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("node.store.wakeups.UPKEEP_SECONDS", 0.02)
    redis_server.pause()
    task = asyncio.create_task(store.wakeups.listen("channel"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    redis_server.resume()
    with await store.wakeups.listen("channel") as listener:
        await eventually(lambda: channels(redis_server) == [b"channel"])
        await store.command("SPUBLISH", "channel", "message")
        while (message := await listener.next(PATIENCE)) == b"":
            pass
        assert message == b"message"
    await eventually(lambda: channels(redis_server) == [])


async def test_thousands_of_listeners_each_hear_their_own_channel(store: Store) -> None:
    listeners = await asyncio.gather(*(store.wakeups.listen(f"channel:{n}") for n in range(2000)))
    await asyncio.gather(*(store.command("SPUBLISH", f"channel:{n}", n) for n in range(2000)))
    heard = await asyncio.gather(*(listener.next(PATIENCE) for listener in listeners))
    assert heard == [str(n).encode() for n in range(2000)]
