"""Reads what a server used while it was measured: CPU and memory by role, and Redis commands.

Everything is read from outside, from /proc and from Redis' own counters, before and after a run and never
during one. A role is what a process does for the node: web, worker, redis, or the supervisor that started
them. A peer's processes have the role web, or redis if they are a Redis server.
"""

import asyncio
import os
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import redis

from bench.server import Server
from node.store.search_keys import SearchKeys

PROC = Path("/proc")
TICKS = os.sysconf("SC_CLK_TCK")

REST_SECONDS = 1.5
"""Seconds for which the worker must be idle before everything that was sent counts as processed."""

_REDIS = re.compile(r"(redis|valkey)-server")


class Usage(msgspec.Struct):
    """Totals since the processes started: CPU seconds and resident megabytes by role, Redis calls by command."""

    cpu: dict[str, float] = {}
    rss: dict[str, float] = {}
    commands: dict[str, int] = {}

    def since(self, before: "Usage") -> "Usage":
        """Return the CPU time and commands used since `before`, and the memory as it is now."""
        return Usage(
            cpu={role: used - before.cpu.get(role, 0.0) for role, used in self.cpu.items()},
            rss=self.rss,
            commands={
                name: calls - before.commands.get(name, 0)
                for name, calls in self.commands.items()
                if calls > before.commands.get(name, 0) and name not in _OURS
            },
        )


_OURS = frozenset({"info", "client|setinfo", "client|setname", "hello", "config|get"})  # what the meter itself sends


def processes(server: Server) -> Iterator[tuple[int, str]]:
    """Yield every process of a server with its role. Processes that end meanwhile are left out."""
    waiting = [(server.root, server.role)] if server.root is not None else []
    if server.redis_pid is not None:
        waiting.append((server.redis_pid, "redis"))
    while waiting:
        pid, inherited = waiting.pop()
        try:
            words = (PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")
            children = [
                int(child)
                for task in (PROC / str(pid) / "task").iterdir()
                for child in (task / "children").read_text().split()
            ]
        except (FileNotFoundError, ProcessLookupError):
            continue
        role = role_of(words, inherited)
        yield pid, role
        waiting += [(child, role) for child in children]


def role_of(words: list[str], parent: str) -> str:
    """Return the role of a process, given its command line and its parent's role."""
    if _REDIS.search(words[0]):
        return "redis"
    if "worker" in words:
        return "worker"
    if "serve" in words:
        return "supervisor"
    if parent == "supervisor":
        return "web"
    return parent


def usage(server: Server) -> Usage:
    """Read all counters now."""
    used = Usage()
    for pid, role in processes(server):
        try:
            stat = _stat(pid)
            resident = int((PROC / str(pid) / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (FileNotFoundError, ProcessLookupError):
            continue
        used.cpu[role] = used.cpu.get(role, 0.0) + (int(stat[11]) + int(stat[12])) / TICKS
        used.rss[role] = used.rss.get(role, 0.0) + resident / 2**20
    if server.redis is not None:
        used.commands = commands(server.redis)
    return used


async def settled(server: Server) -> Usage:
    """Wait until the worker is idle, then read all counters."""
    before, since = usage(server), time.monotonic()
    while time.monotonic() - since < REST_SECONDS:
        await asyncio.sleep(0.1)
        now = usage(server)
        if now.cpu.get("worker", 0) - before.cpu.get("worker", 0) > 0.01 * REST_SECONDS:
            before, since = now, time.monotonic()
    return usage(server)


def age(server: Server, role: str) -> float:
    """Seconds since the oldest process of a role started; 0 if there is none."""
    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    return max((now - int(_stat(pid)[19]) / TICKS for pid, each in processes(server) if each == role), default=0.0)


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/<pid>/stat from the third on. The second one may contain spaces."""
    return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()


def largest_web_process(server: Server) -> float:
    """Peak resident megabytes (VmHWM) of the web process with the highest peak."""
    largest = 0.0
    for pid, role in processes(server):
        if role == "web":
            found = re.search(r"VmHWM:\s+(\d+) kB", (PROC / str(pid) / "status").read_text())
            largest = max(largest, int(found[1]) / 1024 if found else 0.0)
    return largest


def commands(redis_socket: Path) -> dict[str, int]:
    """Return the calls of each command since the server started (INFO commandstats)."""
    return {
        name.removeprefix("cmdstat_"): int(values["calls"])
        for name, values in info(redis_socket, "commandstats").items()
    }


def info(redis_socket: Path, section: str) -> Mapping[str, Any]:
    """Return one section of Redis' INFO."""
    with _client(redis_socket) as client:
        return client.info(section)


def redis_memory(server: Server) -> int:
    """Bytes that the server's Redis has allocated; 0 if that Redis is not known."""
    return int(info(server.redis, "memory")["used_memory"]) if server.redis is not None else 0


def vector_index(server: Server, corpus: str) -> str:
    """Return the algorithm of the vector index that searches of a corpus use. A second index may still be being built.

    Empty if there is no index, or if the server's Redis is not known.
    """
    if server.redis is None:
        return ""
    with _client(server.redis) as client:
        return client.hget(SearchKeys(corpus).current, "algorithm") or ""


def waiting_for_vectors(server: Server, corpus: str) -> int:
    """Posts of a corpus that are still waiting for their vectors; 0 if the server's Redis is not known."""
    if server.redis is None:
        return 0
    keys = SearchKeys(corpus)
    with _client(server.redis) as client:
        return client.zcard(keys.pending) + client.zcard(keys.backlog)


def is_being_indexed(server: Server, corpus: str) -> bool:
    """Whether posts of a corpus still wait for their vectors, or a replaced index is still to be removed."""
    if server.redis is None:
        return False
    with _client(server.redis) as client:
        return client.scard(SearchKeys(corpus).versions) > 1 or waiting_for_vectors(server, corpus) > 0


SETTINGS = ("appendonly", "appendfsync", "save", "maxmemory-policy", "io-threads", "stream-node-max-bytes")


def redis_settings(redis_socket: Path) -> dict[str, str]:
    """Return the settings that determine what a write costs, as the server itself reports them."""
    with _client(redis_socket) as client:
        stated: Mapping[str, str] = client.config_get(*SETTINGS)
        server: Mapping[str, Any] = client.info("server")
    version = server.get("valkey_version") or server.get("redis_version")
    return {"server": f"{server.get('server_name', 'redis')} {version}"} | {
        name: stated[name] for name in SETTINGS if name in stated
    }


def _client(redis_socket: Path) -> Any:  # redis-py's own types are partly unknown
    return redis.Redis(unix_socket_path=str(redis_socket), socket_timeout=5, decode_responses=True)
