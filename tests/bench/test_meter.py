"""Roles of processes, and counters read from outside."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from bench.meter import Usage, age, processes, redis_settings, role_of, usage
from bench.server import Server
from tests.support.servers import RedisServer

IMPORTED = time.monotonic()


@pytest.mark.parametrize(
    ("words", "parent", "role"),
    [
        (["python", "-P", "-m", "node", "serve"], "supervisor", "supervisor"),
        (["python", "-P", "-m", "node", "web"], "supervisor", "web"),
        (["python", "-c", "from multiprocessing.spawn import spawn_main"], "web", "web"),
        (["python", "-P", "-m", "node", "worker"], "supervisor", "worker"),
        (["python", "-c", "from multiprocessing.resource_tracker import main"], "worker", "worker"),
        (["/x/valkey-server unixsocket:/tmp/redis.sock"], "supervisor", "redis"),
        (["/usr/bin/webdis", "webdis.json"], "web", "web"),
    ],
)
def test_a_process_has_the_role_that_its_command_line_and_its_parent_give_it(
    words: list[str], parent: str, role: str
) -> None:
    assert role_of(words, parent) == role


def test_a_running_process_is_found_and_metered() -> None:
    own = Server(name="this test", port=1, root=os.getpid())
    assert (os.getpid(), "web") in list(processes(own))
    used = usage(own)
    assert used.cpu["web"] > 0
    assert used.rss["web"] > 1


def test_a_role_is_as_old_as_its_first_process() -> None:
    own = Server(name="this test", port=1, root=os.getpid())
    began = time.monotonic()
    with subprocess.Popen(["sleep", "60"]) as child:
        started = Server(name="a child", port=1, root=child.pid)
        younger, none = age(started, "web"), age(started, "worker")
        since = time.monotonic() - began
        older = age(own, "web")
        child.kill()
    tick = 1 / os.sysconf("SC_CLK_TCK")
    assert 0 <= younger <= since + tick
    assert older >= began - IMPORTED - tick
    assert none == 0


def test_a_server_somebody_else_started_has_no_usage() -> None:
    assert usage(Server(name="elsewhere", port=1)) == Usage()


def test_only_what_was_used_since_counts_and_the_meters_own_calls_do_not() -> None:
    before = Usage(cpu={"web": 1.0}, commands={"evalsha": 5, "info": 1})
    after = Usage(cpu={"web": 1.5, "redis": 0.25}, rss={"web": 80.0}, commands={"evalsha": 9, "info": 2, "ping": 0})
    assert after.since(before) == Usage(cpu={"web": 0.5, "redis": 0.25}, rss={"web": 80.0}, commands={"evalsha": 4})


def test_commands_are_counted_by_redis_itself(empty_redis: RedisServer) -> None:
    server = Server(name="redis", port=1, redis=Path(empty_redis.socket))
    before = usage(server)
    empty_redis.do("SET", "bench", "1", "PX", "1000")
    assert usage(server).since(before).commands["set"] == 1
    assert redis_settings(Path(empty_redis.socket))["appendonly"] in {"yes", "no"}
