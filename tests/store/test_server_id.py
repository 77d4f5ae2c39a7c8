"""How a Redis process is distinguished from the one that served before."""

from pathlib import Path

from tests.store.conftest import Opener
from tests.support.node_under_test import until
from tests.support.servers import PATIENCE, RedisServer, free_port

KEY = "session:{0}:1"
WITHOUT_INFO = ("ACL", "SETUSER", "agent", "on", ">secret", "~*", "&*", "+@all", "-info")


async def test_a_server_that_was_restarted_is_another_and_all_processes_agree(
    tmp_path: Path, open_store: Opener
) -> None:
    with RedisServer(tmp_path / "redis", port=free_port()) as server:
        stores = [await open_store(server.url, timeout=PATIENCE) for _ in range(2)]
        (first,) = {store.server_id(KEY) for store in stores}
        server.kill()
        server.start()

        async def is_another() -> bool:
            return {store.server_id(KEY) for store in stores}.isdisjoint({0, first})

        await until(is_another)
        assert len({store.server_id(KEY) for store in stores}) == 1


async def test_a_server_at_a_socket_of_this_machine_has_no_id(redis_server: RedisServer, open_store: Opener) -> None:
    """Such a server is usually the embedded one, which restarts together with the node and has lost nothing."""
    assert (await open_store(redis_server.url, timeout=PATIENCE)).server_id(KEY) == 0


async def test_a_user_that_may_not_ask_is_served_without_an_id(tmp_path: Path, open_store: Opener) -> None:
    with RedisServer(tmp_path / "redis", port=free_port()) as server:
        server.do(*WITHOUT_INFO)
        store = await open_store(f"redis://agent:secret@127.0.0.1:{server.port}", timeout=PATIENCE)
        assert await store.command("PING") == b"PONG"
        assert store.server_id(KEY) == 0
