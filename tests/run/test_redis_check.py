"""Which Redis servers a process refuses to work on, and why one does not serve, in words about what is wrong with the
URL.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from node.admin.transfer import fill
from node.config import ConfigError
from node.run.redis_check import check_redis, check_redis_when_there, diagnose, schema_in_redis
from tests.support.node_under_test import settings_for
from tests.support.servers import RedisServer, free_port

TIMEOUT = 5.0  # s
UNKNOWN = "nobody knows"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("redis"), port=free_port()) as server:
        server.do("ACL", "SETUSER", "relay", "on", ">right", "~*", "+@all")
        yield server


@pytest.mark.parametrize("scheme", ["redis", "redis+cluster"])
async def test_wrong_credentials_are_reported(server: RedisServer, scheme: str) -> None:
    where = f"127.0.0.1:{server.port}"
    said = await diagnose(f"{scheme}://relay:wrong@{where}", TIMEOUT, UNKNOWN)
    assert said == f"{where}: WRONGPASS invalid username-password pair or user is disabled."


async def test_a_server_outside_a_cluster_is_reported_with_each_other_named_member(server: RedisServer) -> None:
    here, nowhere = f"127.0.0.1:{server.port}", f"127.0.0.1:{free_port()}"
    first, second = (await diagnose(f"redis+cluster://{nowhere},{here}", TIMEOUT, UNKNOWN)).split("; ")
    assert first.startswith(f"{nowhere}: ")
    assert "onnect" in first  # in the words of the event loop
    assert second == f"{here}: ERR This instance has cluster support disabled"


async def test_a_replica_is_reported(server: RedisServer) -> None:
    server.do("REPLICAOF", "127.0.0.1", 1)
    said = await diagnose(f"redis://127.0.0.1:{server.port}", TIMEOUT, UNKNOWN)
    server.do("REPLICAOF", "NO", "ONE")
    assert said == f"127.0.0.1:{server.port}: it is a replica of 127.0.0.1:1, which takes no writes"


async def test_if_a_server_serves_the_reason_known_before_is_returned(server: RedisServer, tmp_path: Path) -> None:
    assert await diagnose(f"redis://relay:right@127.0.0.1:{server.port}", TIMEOUT, UNKNOWN) == UNKNOWN
    with RedisServer(tmp_path / "member", "--cluster-enabled", "yes", port=free_port()) as member:
        assert await diagnose(f"redis+cluster://127.0.0.1:{member.port}", TIMEOUT, UNKNOWN) == UNKNOWN


async def test_no_node_works_on_half_a_restore_which_would_be_replaced_when_it_is_repeated(tmp_path: Path) -> None:
    with RedisServer(tmp_path / "target") as target:
        settings = settings_for(target.url)
        await fill(settings, tmp_path / "copy", "a backup", is_first=True, is_last=False)
        for check in (check_redis, check_redis_when_there, schema_in_redis):
            with pytest.raises(ConfigError, match="a restore into this Redis is under way, or was interrupted"):
                await check(settings)
        await fill(settings, tmp_path / "copy", "a backup", is_first=True, is_last=True)
        assert await check_redis(settings)
