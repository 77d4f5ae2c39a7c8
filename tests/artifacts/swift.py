"""OpenStack Swift with its S3 API on loopback: a real S3 service for tests, in one temporary directory.

Swift checks presigned URLs as AWS does (signature, expiry, signed headers, SHA-256); moto does not. It lives in a
virtual environment of its own, which `make clients` creates, because the versions it pins conflict with the node's. It
needs no root, no system package and nothing in /etc: every server reads `swift_dir` from its own configuration.
"""

import getpass
import os
import socket
import subprocess
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from tests.support.servers import PATIENCE

PYTHON = Path(__file__).parents[2] / ".venv-swift" / "bin" / "python"
INSTALL = "run `make clients`"

BUCKET = "artifacts"
"""The only bucket, created by the tests' fixture."""

SERVERS = ("account", "container", "object", "proxy")

RINGS = """
import sys
from swift.common.ring import RingBuilder
for name, port in zip(("account", "container", "object"), sys.argv[1:]):
    ring = RingBuilder(0, 1, 0)
    ring.add_dev(dict(region=1, zone=1, ip="127.0.0.1", port=int(port), device="d1", weight=1,
                      replication_ip="127.0.0.1", replication_port=int(port)))
    ring.rebalance()
    ring.get_ring().save(name + ".ring.gz")
"""

SHARED = """
[swift-hash]
swift_hash_path_suffix = tests
[storage-policy:0]
name = only
default = yes
"""

SERVER = """
[DEFAULT]
bind_ip = 127.0.0.1
bind_port = {port}
workers = 0
user = {user}
swift_dir = {directory}
devices = {directory}/devices
recon_cache_path = {directory}
mount_check = false
[pipeline:main]
pipeline = {pipeline}
[app:{name}-server]
use = egg:swift#{name}
"""

PROXY = """
account_autocreate = true
[filter:catch_errors]
use = egg:swift#catch_errors
[filter:s3api]
use = egg:swift#s3api
location = us-east-1
storage_domain = s3.test
[filter:tempauth]
use = egg:swift#tempauth
user_test_tester = testing .admin
[filter:slo]
use = egg:swift#slo
"""


class Swift(NamedTuple):
    """What a client needs to know, under the names of the AWS environment variables."""

    AWS_ENDPOINT_URL: str
    AWS_ACCESS_KEY_ID: str = "test:tester"
    AWS_SECRET_ACCESS_KEY: str = "testing"


@contextmanager
def running(directory: Path) -> Generator[Swift]:
    """Run Swift in `directory` until the block ends. Raises RuntimeError, which says what to install or quotes
    the log.
    """
    if not PYTHON.exists():
        raise RuntimeError(f"the S3 tests need OpenStack Swift: {INSTALL}")
    (directory / "devices" / "d1").mkdir(parents=True)
    _need_xattr(directory)
    ports = dict(zip(SERVERS, _free_ports(len(SERVERS)), strict=True))
    (directory / "swift.conf").write_text(SHARED)
    for name, port in ports.items():
        pipeline = f"{name}-server" if name != "proxy" else "catch_errors s3api tempauth slo proxy-server"
        text = SERVER.format(name=name, port=port, user=getpass.getuser(), directory=directory, pipeline=pipeline)
        (directory / f"{name}.conf").write_text(text + (PROXY if name == "proxy" else ""))
    rings = [PYTHON, "-c", RINGS, *(str(ports[name]) for name in SERVERS[:3])]
    made = subprocess.run(rings, check=False, cwd=directory, capture_output=True, text=True)
    if made.returncode:
        raise RuntimeError(f"Swift does not work, {INSTALL}:\n{made.stderr}")
    with ExitStack() as stack:
        servers = {name: stack.enter_context(_server(directory, name)) for name in SERVERS}
        deadline = time.monotonic() + PATIENCE
        for name, port in ports.items():
            while not _answers(port):
                if servers[name].poll() is not None or time.monotonic() > deadline:
                    log = (directory / f"{name}.log").read_text()
                    raise RuntimeError(f"Swift's {name} server did not start:\n{log[-4000:]}")
                time.sleep(0.05)
        yield Swift(f"http://127.0.0.1:{ports['proxy']}")


@contextmanager
def _server(directory: Path, name: str) -> Generator[subprocess.Popen[bytes]]:
    with (directory / f"{name}.log").open("wb") as log:
        command = [PYTHON, PYTHON.with_name(f"swift-{name}-server"), directory / f"{name}.conf"]
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _answers(port: int) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/healthcheck", timeout=PATIENCE):
            return True
    except HTTPError:
        return True
    except (URLError, OSError):
        return False


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _need_xattr(directory: Path) -> None:
    try:
        os.setxattr(directory, "user.swift", b"1")
    except OSError as error:
        raise RuntimeError(f"Swift needs a file system with extended attributes at {directory}: {error}") from error
