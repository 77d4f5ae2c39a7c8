"""Every command of ours in compose.yaml, run as it stands there, on loopback ports and without containers.

Not run are the third-party images for S3, Prometheus and Grafana.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.deploy.composition import environment, redis_servers, services
from tests.deploy.processes import HELLO, call, relay, until_ready
from tests.deploy.proxy import Proxy
from tests.support.nodes import ROOT, NodeProcess
from tests.support.servers import PATIENCE, RedisServer, free_port, until

PROGRAM = Path(sys.executable).parent / "relay-node"
REDIS_PORT = "6379"
HERE = "127.0.0.1"


def redis_options(name: str) -> list[str]:
    """Return the options of a Redis service, without the port, which the test chooses."""
    program, *options = services()[name]["command"]
    assert program == "redis-server"
    if "--port" in options:
        at = options.index("--port")
        assert options[at + 1] == REDIS_PORT
        del options[at : at + 2]
    return options


def healthy(name: str, old: str, new: int) -> bool:
    """Return whether a service's health check succeeds, on another port."""
    kind, *command = services()[name]["healthcheck"]["test"]
    assert kind == "CMD"
    assert shutil.which("redis-cli"), "no redis-cli: run `make system`, or apt-get install redis-tools"
    words = [word.replace(old, str(new)) for word in command]
    words[0] = sys.executable if words[0] == "python" else words[0]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=PATIENCE)
    return done.returncode == 0 and done.stdout.strip() in ("", "PONG")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Generator[list[RedisServer]]:
    """The Redis services, joined to a cluster by the one-shot service, which is run twice, as by a second `up`."""
    folder = tmp_path_factory.mktemp("redis")
    with ExitStack() as stack:
        servers = [
            stack.enter_context(RedisServer(folder / name, *redis_options(name), port=free_port()))
            for name in sorted(redis_servers())
        ]
        addresses = [f"{HERE}:{server.port}" for server in servers]
        command = services()["cluster-create"]["command"]
        assert command[0] == "/create-cluster.sh"
        script = ROOT / "deploy" / "redis" / "create-cluster.sh"
        first, second = (
            subprocess.run([script, *addresses], capture_output=True, text=True, check=False, timeout=PATIENCE)
            for _ in range(2)
        )
        assert first.returncode == 0, first.stdout + first.stderr
        assert (second.returncode, second.stdout) == (0, "the cluster is there\n")
        yield servers


def settings_of(name: str, cluster: list[RedisServer], search: RedisServer) -> dict[str, str]:
    """Return the environment of a node service, with addresses of this machine."""
    members = ",".join(f"{HERE}:{server.port}" for server in cluster)
    return environment(name) | {
        "RELAY_REDIS_URL": f"redis+cluster://{members}",
        "RELAY_SEARCH_URL": search.url,
        "RELAY_TRUSTED_PROXIES": HERE,
        "RELAY_ADMIN_PORT": str(free_port()),
        "RELAY_EMBEDDING_MODEL": "none",
    }


def test_three_primaries_have_a_replica_each(cluster: list[RedisServer]) -> None:
    roles = [server.info("replication")["role"] for server in cluster]
    assert sorted(roles) == ["master"] * 3 + ["slave"] * 3
    for server in cluster:
        until(lambda: b"cluster_state:ok" in server.do("CLUSTER", "INFO"), "all members agree")  # noqa: B023
        assert healthy("redis-1", REDIS_PORT, server.port)
    assert not healthy("redis-1", REDIS_PORT, free_port())


def test_the_nodes_of_the_composition_serve(cluster: list[RedisServer], tmp_path: Path) -> None:
    with ExitStack() as stack:
        search = RedisServer(tmp_path / "search", *redis_options("search"), port=free_port())
        stack.enter_context(search)
        webs: list[NodeProcess] = []
        for name in ("web-1", "web-2"):
            web = NodeProcess(tmp_path / name, [str(PROGRAM), *services()[name]["command"]])
            webs.append(stack.enter_context(web).start(**settings_of(name, cluster, search) | {"RELAY_WORKERS": "1"}))
        settings = settings_of("worker", cluster, search)
        worker = NodeProcess(tmp_path / "worker", [str(PROGRAM), *services()["worker"]["command"]])
        stack.enter_context(worker).start(**settings)
        for web in webs:
            until_ready(web)
        port = int(settings["RELAY_ADMIN_PORT"])
        until(lambda: healthy("worker", environment("worker")["RELAY_ADMIN_PORT"], port), "the worker is well")

        proxy = stack.enter_context(Proxy(tmp_path, *(web.port for web in webs)))
        proxy.sees(True, True)
        for number in range(8):
            reference = relay(proxy.port, f"{HELLO} It is number {number}.")["reference_id"]
            assert {call(web.port, "GET", f"/api/v1/relay/{reference}")[0] for web in webs} == {200}
        title = "Who can read a table of forty columns?"
        call(proxy.port, "POST", "/api/v1/board", {"title": title, "body": HELLO})
        ask = {"query": "table of forty columns", "threshold": 0.5}

        def found() -> bool:
            hits = json.loads(call(proxy.port, "POST", "/api/v1/board/search", ask)[2])["hits"]
            return [hit["title"] for hit in hits] == [title]

        until(found, "the worker has indexed it")
        for part in (*webs, worker):
            part.signal(15)
        for part in (*webs, worker):
            assert part.wait() == 0


def test_the_redis_of_the_composition_keeps_what_the_settings_promise(
    cluster: list[RedisServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with RedisServer(tmp_path / "search", *redis_options("search"), port=free_port()) as search:
        for name, value in settings_of("worker", cluster, search).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("RELAY_DATA_DIR", str(tmp_path / "data"))
        checked = subprocess.run([PROGRAM, "check"], capture_output=True, text=True, check=False, timeout=PATIENCE)
    missing = [line for line in checked.stdout.splitlines() if line.startswith("missing")]
    assert [line.split()[1:3] for line in missing] == [["blob", "store"]]  # the blob store does not run here
    for subject in ("durability", "eviction"):
        lines = [line.split() for line in checked.stdout.splitlines() if f" {subject} " in line]
        assert [line[0] for line in lines] == ["ok"] * 3
