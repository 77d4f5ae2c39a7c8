"""docs/one-machine.md, command by command, on a Debian booted by systemd: `make one-machine-test`.

It takes some ten minutes and a gigabyte of packages, so it is not part of `make test`. Commands that need a certificate
authority are not run; the self-signed certificate that the page lets the machine make stands in for the real one.
"""

import json
import os
from collections.abc import Generator

import pytest

from tests.deploy.debian import Debian
from tests.deploy.one_machine import FETCHES, blocks

pytestmark = pytest.mark.skipif(os.environ.get("MACHINE") != "boot", reason="`make one-machine-test` boots a Debian")

UPGRADE = "Upgrading, and going back"
LOST = "When the machine is lost"
CURL = "curl --silent --show-error --cacert /etc/haproxy/relay.crt --resolve relay.example:443:127.0.0.1"
MESSAGE = '{"message":"Hello, is anybody there who can read this?","public":false}'


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Generator[Debian]:
    """A bare machine on which the page's packages have been fetched."""
    if os.geteuid() != 0:
        pytest.fail("a machine is booted as root here: run `sudo make one-machine-test`")
    debian = Debian(tmp_path_factory.mktemp("machine"))
    debian.make()
    for block in blocks():
        if FETCHES in block.script:
            debian.fetch(block.script)
    debian.fetch_wheels()
    with debian:
        yield debian
    debian.remove()


def run(machine: Debian, *headings: str) -> list[str]:
    """Run the blocks below these headings; by default, all but those of the page's upgrade and of a lost machine."""
    wanted = [
        block
        for block in blocks()
        if block.is_run
        and FETCHES not in block.script
        and (block.heading in headings if headings else block.heading not in (UPGRADE, LOST))
    ]
    assert wanted
    return [machine.run(block.script) for block in wanted]


def status(machine: Debian, path: str) -> int:
    """Return the status that a client gets in the end.

    The request is retried, because the proxy learns a moment later that the node is ready, and because HAProxy's old
    process still answers with the old certificate while it reloads.
    """
    again = "--retry 20 --retry-delay 1 --retry-all-errors"
    answered = machine.run(f"{CURL} {again} --write-out '\n%{{http_code}}' https://relay.example{path}")
    return int(answered.splitlines()[-1])


def test_the_page_makes_a_node_that_outlives_an_upgrade_and_its_machine(machine: Debian) -> None:
    *_, posted = run(machine)
    assert json.loads(posted)["status"] == "acknowledged"
    assert json.loads(posted)["post_url"].startswith("https://relay.example/")

    # The proxy reports the client's address, and the node trusts the proxy.
    assert "127.0.0.1" in machine.run("grep TRUSTED /etc/relay-node.env")
    told = machine.run(
        f"{CURL} --include -H 'content-type: application/json' -d '{MESSAGE}' https://relay.example/api/v1/relay"
    )
    assert "ratelimit:" in told.lower()
    kept = json.loads(told.splitlines()[-1])["reference_id"]

    # Requests without TLS are redirected, and those of the certificate authority are passed on (to nobody, here).
    plain = "curl --silent --output /dev/null --write-out '%{http_code}' --resolve relay.example:80:127.0.0.1 http://relay.example"
    assert machine.run(f"{plain}/health") == "308"
    assert machine.run(f"{plain}/.well-known/acme-challenge/x") == "503"

    # A renewed certificate, as certbot passes it on.
    machine.run(
        "mkdir -p /tmp/renewed && openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=relay.example "
        "-addext subjectAltName=DNS:relay.example -keyout /tmp/renewed/privkey.pem -out /tmp/renewed/fullchain.pem && "
        "RENEWED_LINEAGE=/tmp/renewed /usr/local/sbin/relay-node-certificate && "
        "cp /tmp/renewed/fullchain.pem /etc/haproxy/relay.crt"
    )
    assert status(machine, "/health") == 200

    # Prometheus reads the node and the proxy, with the rules; the firewall is active; the timer is set.
    machine.run("curl --silent --fail --retry 20 --retry-all-errors --retry-delay 1 'http://127.0.0.1:9090/-/ready'")
    rules = machine.run("curl --silent --fail http://127.0.0.1:9090/api/v1/rules")
    assert "RelayStoreDown" in rules
    assert "policy drop" in machine.run("nft list ruleset")
    assert "relay-node-backup.timer" in machine.run("systemctl list-timers --no-pager")
    assert machine.run("systemctl --failed --no-legend --plain") == ""

    first = machine.run("readlink /opt/relay-node")
    run(machine, UPGRADE)
    assert machine.run("readlink /opt/relay-node") == first
    assert status(machine, f"/api/v1/relay/{kept}") == 200
    run(machine, LOST)
    assert status(machine, f"/api/v1/relay/{kept}") == 200
