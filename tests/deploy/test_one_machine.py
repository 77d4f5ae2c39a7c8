"""docs/one-machine.md is consistent: what it installs exists, and the programs accept the files that it writes.

`make one-machine-test` runs the page itself (test_one_machine_run.py).
"""

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from node.config import load
from tests.deploy.one_machine import PAGE, blocks, written
from tests.deploy.proxy import CONFIG, VARIABLES, haproxy
from tests.support.nodes import ROOT
from tests.support.servers import PATIENCE

SCRIPTS = ("deploy/install.sh", "deploy/systemd/relay-node.sh", "deploy/haproxy/certificate.sh")


@pytest.mark.parametrize("block", blocks(), ids=lambda block: block.heading.replace(" ", "-"))
def test_a_shell_can_read_a_block(block: tuple[str, str, bool]) -> None:
    assert subprocess.run(["sh", "-n", "-c", block[1]], check=False, timeout=PATIENCE).returncode == 0


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_shell_can_read_a_script_that_is_on_the_page(script: str) -> None:
    assert script in PAGE.read_text()
    assert subprocess.run(["sh", "-n", ROOT / script], check=False, timeout=PATIENCE).returncode == 0


def test_only_what_needs_the_certificate_authority_is_not_run() -> None:
    left = [block.script for block in blocks() if not block.is_run]
    assert len(left) == 1
    assert left[0].startswith("certbot certonly")


def test_every_file_that_the_page_installs_is_there() -> None:
    named = {name for block in blocks() for name in re.findall(r"(?<![\w/])deploy/[\w./-]+", block.script)}
    assert len(named) > 6
    for name in named:
        assert (ROOT / name).is_file(), name


def test_the_node_believes_the_proxy_and_prometheus_asks_where_it_answers() -> None:
    settings = load(dict(line.split("=", 1) for line in written("/etc/relay-node.env").splitlines()))
    assert [str(network) for network in settings.trusted_proxies.networks] == ["127.0.0.1/32"]
    targets = re.findall(r'targets: \["([\d.:]+)"\]', written("/etc/prometheus/prometheus.yml"))
    assert f"{settings.admin_host}:{settings.admin_port}" in targets
    balancer = proxy_settings()
    assert balancer["NODE_1"] == f"{settings.host}:{settings.port}"
    assert balancer["METRICS"] in targets
    challenge = re.search(r"--http-01-address (\S+) --http-01-port (\d+)", PAGE.read_text())
    assert challenge is not None
    assert balancer["ACME"] == ":".join(challenge.groups())


def test_the_certificates_of_the_node_are_given_to_the_proxy_and_no_others() -> None:
    """Certbot 2.1 runs a --deploy-hook for the first certificate and its renewals, but the scripts in
    renewal-hooks/deploy for the renewals of any certificate.
    """
    (first,) = [block.script for block in blocks() if "certbot certonly" in block.script]
    command = shlex.split(first.partition("\ncurl")[0])
    hook = command[command.index("--deploy-hook") + 1]
    (placed,) = [line.split() for block in blocks() for line in block.script.splitlines() if line.endswith(hook)][:1]
    assert placed[-2:] == ["deploy/haproxy/certificate.sh", hook]
    assert not hook.startswith("/etc/letsencrypt/renewal-hooks")


def proxy_settings() -> dict[str, str]:
    pairs = (line.split("=", 1) for line in written("/etc/default/haproxy").splitlines())
    return {name: value.strip('"') for name, value in pairs}


def test_haproxy_takes_its_settings(tmp_path: Path) -> None:
    given = proxy_settings()
    assert set(given) == set(VARIABLES) - {"NODE_2"}
    certificate = tmp_path / "relay.pem"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=relay.example"]
    subprocess.run([*made, "-keyout", certificate, "-out", tmp_path / "crt"], check=True, capture_output=True)
    certificate.write_text(certificate.read_text() + (tmp_path / "crt").read_text())
    here = {name: value.replace("/etc/haproxy/relay.pem", str(certificate)) for name, value in given.items()}
    checked = subprocess.run(
        [haproxy(), "-c", "-f", CONFIG], env=os.environ | here, capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stderr


def test_prometheus_takes_its_configuration(tmp_path: Path) -> None:
    (tmp_path / "prometheus.yml").write_text(written("/etc/prometheus/prometheus.yml"))
    shutil.copy(ROOT / "deploy" / "prometheus" / "alerts.yml", tmp_path)
    command = ["promtool", "check", "config", tmp_path / "prometheus.yml"]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr


def test_going_back_without_a_former_version_changes_nothing() -> None:
    """The script's links are all below /opt, so it is run only where /opt has no former version."""
    if Path("/opt/relay-node-former").is_symlink():
        pytest.skip("this machine has a former version")
    ran = subprocess.run(
        ["sh", ROOT / "deploy/install.sh", "--back"], capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert (ran.returncode, ran.stderr) == (1, "there is no former version to go back to\n")
    assert not Path("/opt/relay-node").is_symlink()


@pytest.mark.parametrize("words", [["--bakc"], ["back"], ["--back", "now"], ["--help"]], ids=" ".join)
def test_the_installer_does_nothing_with_words_that_it_does_not_know(words: list[str], tmp_path: Path) -> None:
    """The installer must not ignore unknown words and install. The test's PATH has nothing to install with."""
    for program in ("dirname", "sh"):
        (tmp_path / program).symlink_to(str(shutil.which(program)))
    ran = subprocess.run(
        ["sh", ROOT / "deploy/install.sh", *words],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (2, "", "usage: sh deploy/install.sh [--back]\n")
