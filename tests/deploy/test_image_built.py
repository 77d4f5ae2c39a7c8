"""The image, built from the Dockerfile and run like a container: `make image-test`.

It takes some minutes and half a gigabyte of packages, so it is not part of `make test`.
"""

import json
import os
import signal
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.deploy.image import NAME, Image
from tests.deploy.processes import HELLO, call, relay, status
from tests.support.node_under_test import SECRET, SIGNING_KEY
from tests.support.nodes import NodeProcess
from tests.support.servers import RedisServer, free_port, until

pytestmark = pytest.mark.skipif(os.environ.get("IMAGE") != "build", reason="`make image-test` builds the image")

LARGEST = 900 * 2**20  # bytes of all files; torch alone would take as much
WITHOUT = ("torch", "transformers", "sentence_transformers", "onnx", "pytest")
DURABLE = ("--appendonly", "yes", "--appendfsync", "always")
START = 120.0  # s, the first start loads a model


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Generator[Image]:
    if os.geteuid() != 0:
        pytest.fail("an image is built as root here: run `sudo make image-test`")
    built = Image(tmp_path_factory.mktemp("image"))
    built.build()
    built.open()
    yield built
    built.close()


@pytest.fixture(scope="module")
def serving(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Generator[NodeProcess]:
    """The image's default command, on a volume of its own."""
    data = tmp_path_factory.mktemp("volume") / "data"
    with image.node(data).start() as node:
        until(lambda: status(node.port, "/ready") == 200, f"it is ready {node.words()}", START)
        yield node


def volume(node: NodeProcess) -> Path:
    return node.folder


def test_the_image_is_small_and_has_no_torch(image: Image, tmp_path: Path) -> None:
    assert image.size() < LARGEST
    look = f"import importlib.util as u; print([name for name in {WITHOUT} if u.find_spec(name)])"
    found = image.run(["python", "-c", look], tmp_path / "data")
    assert (found.returncode, found.stdout.strip()) == (0, "[]"), found.stderr


def test_what_an_engine_is_told_is_in_the_image(image: Image) -> None:
    assert image.config["User"] == "10001:10001"
    assert list(image.config["Volumes"]) == ["/data"]
    assert list(image.config["ExposedPorts"]) == ["8000/tcp"]
    assert image.config["Healthcheck"]["Test"][0] == "CMD"
    assert image.config["StopSignal"] in ("SIGTERM", "15")


def test_it_runs_as_its_user_in_a_root_that_cannot_be_written(image: Image, serving: NodeProcess) -> None:
    state = dict(
        line.split(":", 1) for line in Path(f"/proc/{serving.pid}/status").read_text().splitlines() if ":" in line
    )
    assert set(state["Uid"].split()) == set(state["Gid"].split()) == {"10001"}
    assert (state["NoNewPrivs"].strip(), int(state["CapEff"], 16), int(state["CapBnd"], 16)) == ("1", 0, 0)
    refused = image.run(["touch", "/usr/share/relay-node/written"], volume(serving))
    assert refused.returncode == 1
    assert "Read-only file system" in refused.stderr


def test_it_acknowledges_and_finds_by_meaning(serving: NodeProcess) -> None:
    assert relay(serving.port, HELLO)["status"] == "acknowledged"
    asked = {"title": "Looking for a CSV parser", "body": "Who can parse 40 MB of CSV in a sandbox?"}
    assert call(serving.port, "POST", "/api/v1/board", asked)[0] == 201

    def found() -> bool:
        answer = call(serving.port, "POST", "/api/v1/board/search", {"query": "read a large table file"})
        hits = json.loads(answer[2]).get("hits", [])
        return [hit["mode"] for hit in hits] == ["meaning"]

    until(found, "no word of the query is in the thread", START)


def test_the_health_check_asks_the_port_that_the_node_has(image: Image, serving: NodeProcess) -> None:
    command = image.config["Healthcheck"]["Test"][1:]
    well = image.run(command, volume(serving), RELAY_PORT=str(serving.port))
    assert well.returncode == 0, well.stderr
    assert image.run(command, volume(serving)).returncode == 1


def test_the_commands_of_its_operator_work_inside(image: Image, serving: NodeProcess) -> None:
    """As `docker exec` runs them: with the same image, user, environment and volume."""
    shown = image.run([NAME, "admin", "status", "--json"], volume(serving))
    assert shown.returncode == 0, shown.stderr
    listed = image.run([NAME, "admin", "threads", "list", "--json"], volume(serving))
    assert "Looking for a CSV parser" in listed.stdout, listed.stderr
    copied = image.run([NAME, "admin", "backup", "/data/backup"], volume(serving))
    assert copied.returncode == 0, copied.stderr
    assert (volume(serving) / "backup" / "backup.json").exists()


def test_it_stops_when_it_is_told_and_keeps_what_it_acknowledged(image: Image, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with image.node(data, RELAY_EMBEDDING_MODEL="none").start() as node:
        until(lambda: status(node.port, "/ready") == 200, "it is ready", START)
        kept = relay(node.port, HELLO)["reference_id"]
        node.signal(signal.SIGTERM)
        assert node.wait() == 0
    with image.node(data, RELAY_EMBEDDING_MODEL="none").start() as node:
        until(lambda: status(node.port, "/ready") == 200, "it is ready again", START)
        assert status(node.port, f"/api/v1/relay/{kept}") == 200


def test_web_and_worker_share_a_redis_of_somebody_else(image: Image, tmp_path: Path) -> None:
    with ExitStack() as stack:
        redis = stack.enter_context(RedisServer(tmp_path / "redis", *DURABLE, port=free_port()))
        shared = {"RELAY_REDIS_URL": redis.url, "RELAY_SECRET": SECRET, "RELAY_SIGNING_KEY": SIGNING_KEY}
        web, worker = (
            stack.enter_context(image.node(tmp_path / role, role, **shared).start()) for role in ("web", "worker")
        )
        until(lambda: status(web.port, "/ready") == 200, "the web node is ready", START)
        worker.line("embedding model loaded", patience=START)
        assert relay(web.port, HELLO)["status"] == "acknowledged"
        for part in (web, worker):
            part.signal(signal.SIGTERM)
        for part in (web, worker):
            assert part.wait() == 0
