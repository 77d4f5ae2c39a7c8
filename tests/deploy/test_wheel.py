"""The wheel is complete: installed in an empty environment, it serves from any directory."""

import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.deploy.processes import HELLO, call, relay
from tests.support.nodes import ROOT, NodeProcess
from tests.support.servers import PATIENCE, free_port

PRINT_PLACES = "import node, node.store.scripts as s; print(node.__file__, s.FOLDER)"


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of an environment that has the wheel, and uses the dependencies of this environment."""
    return install(wheel, tmp_path_factory.mktemp("environment"), Path(sysconfig.get_path("purelib")))


def install(wheel: Path, place: Path, dependencies: Path) -> Path:
    """Install the wheel in a new environment at `place`, with a folder of dependencies. Returns its folder of
    programs.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True, timeout=PATIENCE)
    python = place / "bin" / "python"
    command = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index", wheel]
    subprocess.run(command, check=True, timeout=PATIENCE, capture_output=True)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(place), "platbase": str(place)}))
    (packages / "dependencies.pth").write_text(f"{dependencies}\n")
    return place / "bin"


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Path]:
    """A directory unrelated to the source, and an environment without any of our variables."""
    for name in [name for name in os.environ if name.startswith("RELAY_") or name == "PYTHONPATH"]:
        monkeypatch.delenv(name)
    (tmp_path / "node.py").write_text("raise SystemExit('somebody else')")  # a module name that could be taken for ours
    monkeypatch.chdir(tmp_path)
    yield tmp_path


def test_every_file_of_the_program_is_in_the_wheel(wheel: Path) -> None:
    sources = [path for folder in ("node", "lua") for path in (ROOT / folder).rglob("*")]
    files = {str(path.relative_to(ROOT)) for path in sources if path.is_file() and "__pycache__" not in path.parts}
    wanted = {f"node/{name}" if name.startswith("lua/") else name for name in files}
    assert len(wanted) > 150
    assert wanted - set(zipfile.ZipFile(wheel).namelist()) == set()


def test_the_wheel_holds_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0].partition("-")[0] for name in names} == {"node", "relay_node"}
    assert not [name for name in names if "__pycache__" in name or name.startswith("node/tests")]


def test_an_installed_node_uses_its_own_files(installed: Path, elsewhere: Path) -> None:
    said = subprocess.run([installed / "python", "-P", "-c", PRINT_PLACES], check=True, capture_output=True, text=True)
    for place in said.stdout.split():
        assert place.startswith(str(installed.parent))


def test_an_installed_node_finds_nothing_missing(installed: Path, elsewhere: Path) -> None:
    checked = subprocess.run([installed / "relay-node", "check"], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "missing" not in checked.stdout


def test_an_installed_node_serves_from_any_directory(installed: Path, elsewhere: Path) -> None:
    port = free_port()
    with NodeProcess(elsewhere / "data", [str(installed / "relay-node"), "serve"], cwd=elsewhere) as node:
        node.port, node.url = port, f"http://127.0.0.1:{port}"
        node.start(RELAY_WORKERS="1", RELAY_EMBEDDING_MODEL="none").ready()
        kept = relay(port, HELLO)["reference_id"]
        assert json.loads(call(port, "GET", f"/api/v1/relay/{kept}")[2])["payload"]["message"] == HELLO
        number, headers, page = call(port, "GET", "/", headers={"accept": "text/html"})
        assert (number, headers["content-type"].partition(";")[0]) == (200, "text/html")
        assert b"<html" in page
        node.signal(15)
        assert node.wait() == 0


def test_a_node_without_the_extra_of_the_worker_says_what_to_install(
    wheel: Path, tmp_path: Path, elsewhere: Path
) -> None:
    dependencies = tmp_path / "dependencies"
    dependencies.mkdir()
    for package in Path(sysconfig.get_path("purelib")).iterdir():
        if not package.name.startswith("numpy"):
            (dependencies / package.name).symlink_to(package)
    programs = install(wheel, tmp_path / "environment", dependencies)
    with NodeProcess(elsewhere / "data", [str(programs / "relay-node"), "serve"], cwd=elsewhere) as node:
        node.start(RELAY_WORKERS="1")
        assert node.wait() == 2
        assert f"{programs / 'python'} -m pip install 'relay-node[worker]'" in node.words()
