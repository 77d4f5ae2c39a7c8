"""compose.yaml is consistent: with Compose's own schema, with the settings of the program, and in its own names."""

import http.client
import ipaddress
import os
import re
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from node.artifacts.blobs.s3 import S3Store
from node.config import Proxies, Settings, load
from node.run.blobs import blobs_of
from node.store.address import locate
from node.web.address import ClientAddress
from tests.deploy.composition import FILE, composition, environment, redis_servers, required, services
from tests.deploy.proxy import CONFIG, VARIABLES, Proxy
from tests.support.nodes import ROOT
from tests.support.servers import PATIENCE, free_port

NODES = ("web-1", "web-2", "worker")


def loaded(name: str) -> Settings:
    """Return the settings as the program reads them in that container, on top of those of the image."""
    return load({"RELAY_HOST": "0.0.0.0", "RELAY_PORT": "8000", "RELAY_DATA_DIR": "/data"} | environment(name))


def networks(name: str) -> set[str]:
    return set(services()[name].get("networks", ["default"]))


def seconds(duration: str) -> int:
    return int(duration.removesuffix("s"))


def test_the_schema_of_compose_finds_no_fault(tmp_path: Path) -> None:
    def verdict(path: Path) -> int:
        command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(path)]
        return subprocess.run(command, capture_output=True, check=False, timeout=PATIENCE).returncode

    assert verdict(FILE) == 0
    broken = tmp_path / "compose.yaml"
    broken.write_text(FILE.read_text().replace("healthcheck:", "healthchek:"))
    assert verdict(broken) == 1


def test_the_head_of_the_file_says_what_to_write_to_env() -> None:
    head = FILE.read_text().partition("\nname:")[0]
    assert required() == set(re.findall(r"^#   (\w+)=", head, re.MULTILINE))


def test_the_pages_run_commands_in_services_that_there_are() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    named = [name for page in pages for name in re.findall(r"docker compose exec ([\w-]+)", page.read_text())]
    assert named
    assert set(named) <= set(services())


@pytest.mark.parametrize("name", NODES)
def test_the_settings_of_a_node_are_settings_of_the_program(name: str) -> None:
    settings = loaded(name)
    assert settings.secret
    assert settings.signing_key
    assert isinstance(blobs_of(settings), S3Store)
    assert settings.aws["AWS_ACCESS_KEY_ID"] == environment("s3")["ROOT_ACCESS_KEY"]
    assert settings.aws["AWS_SECRET_ACCESS_KEY"] == environment("s3")["ROOT_SECRET_KEY"]


def test_all_nodes_have_the_same_settings() -> None:
    assert environment("web-1") == environment("web-2") == environment("worker")


def test_a_node_has_time_to_drain_and_stop() -> None:
    for name in NODES:
        assert seconds(services()[name]["stop_grace_period"]) >= loaded(name).drain_seconds + 10
    check = re.search(r"inter (\d+)ms fall (\d+)", CONFIG.read_text())
    assert check is not None
    assert loaded("web-1").drain_seconds >= 2 * int(check[1]) * int(check[2]) / 1000


def test_the_cluster_is_named_alike_everywhere() -> None:
    addresses = sorted(redis_servers().values())
    assert len(addresses) == 6
    place = locate(loaded("web-1").redis_url)
    assert place.cluster
    assert [str(server) for server in place.servers] == addresses
    assert services()["cluster-create"]["command"][1:] == addresses
    subnet = ipaddress.ip_network(composition()["networks"]["store"]["ipam"]["config"][0]["subnet"])
    assert all(ipaddress.ip_address(address.partition(":")[0]) in subnet for address in addresses)
    # A separate volume for each: two servers on one volume would destroy its data.
    assert len({services()[name]["volumes"][0] for name in redis_servers()}) == 6


def test_only_the_load_balancer_is_believed() -> None:
    """If the load balancer shared a second network with a web node, the node might see it under an untrusted address,
    and take all clients for one.
    """
    for name in ("web-1", "web-2"):
        assert networks("balancer") & networks(name) == {"edge"}
    edge = composition()["networks"]["edge"]["ipam"]["config"][0]["subnet"]
    assert str(loaded("web-1").trusted_proxies) == edge
    assert {name for name in services() if "edge" in networks(name)} == {"balancer", "web-1", "web-2"}
    addresses = ClientAddress(Proxies.parse(edge))
    inside = str(next(ipaddress.ip_network(edge).hosts()))
    scope = {"client": (inside, 1), "headers": [(b"x-forwarded-for", b"198.51.100.1")]}
    assert addresses.of(scope) == "198.51.100.1"


def test_the_redis_servers_are_reached_by_the_nodes_only() -> None:
    assert composition()["networks"]["store"]["internal"] is True
    for name in (*redis_servers(), "search"):
        assert networks(name) == {"store"}
        assert "ports" not in services()[name]
    assert {name for name in services() if networks(name) >= {"store", "outside"}} == set(NODES)


def test_who_is_reached_from_outside() -> None:
    published = {name: service["ports"] for name, service in services().items() if "ports" in service}
    assert published == {
        "balancer": ["443:8443", "80:8080"],
        "s3": ["9000:9000"],
        "alertmanager": ["127.0.0.1:9093:9093"],
        "grafana": ["127.0.0.1:3000:3000"],
    }
    inside = {name for name, network in composition()["networks"].items() if network and network.get("internal")}
    assert inside == {"edge", "store"}
    for name in published:  # the ports of a container that has only internal networks are not published
        assert networks(name) - inside, name


def test_no_service_can_fill_the_memory_or_the_disk_with_its_log() -> None:
    for name, service in services().items():
        assert re.fullmatch(r"\d+[mg]", service["mem_limit"]), name
        assert service["logging"] == {"driver": "local", "options": {"max-size": "20m", "max-file": "5"}}, name


def test_a_redis_may_have_twice_what_it_keeps() -> None:
    for name in (*redis_servers(), "search"):
        command = services()[name]["command"]
        kept = int(command[command.index("--maxmemory") + 1].removesuffix("gb"))
        assert services()[name]["mem_limit"] == f"{2 * kept}g"


def test_the_load_balancer_has_every_variable_of_its_configuration() -> None:
    given = environment("balancer")
    uncommented = re.sub(r"^\s*#.*$", "", CONFIG.read_text(), flags=re.MULTILINE)
    assert set(re.findall(r"\$\{(\w+)", uncommented)) == set(VARIABLES)
    assert set(given) == set(VARIABLES) - {"ACME", "RUN_AS"}  # the image runs as a user of its own
    for number in (1, 2):
        name, _, port = given[f"NODE_{number}"].partition(":")
        assert name in services()
        assert int(port) == loaded(name).port
    tls, plain = (published.partition(":")[2] for published in services()["balancer"]["ports"])
    assert given["LISTEN"].startswith(f":{tls} ssl crt ")
    assert given["PLAIN"] == f":{plain}"


def test_the_certificate_of_the_head_is_the_one_that_the_load_balancer_reads(tmp_path: Path) -> None:
    head = FILE.read_text().partition("\nname:")[0].replace("\n#", "\n")
    made = re.search(r"mkdir tls && .+?tls/relay\.pem\n +chmod \d+ \S+", head, re.DOTALL)
    assert made is not None
    subprocess.run(["sh", "-euc", made[0]], cwd=tmp_path, check=True, capture_output=True, timeout=PATIENCE)
    mounted = dict(volume.split(":")[:2] for volume in services()["balancer"]["volumes"])
    certificate = re.search(r"ssl crt (\S+)", environment("balancer")["LISTEN"])
    assert certificate is not None
    here = certificate[1].replace(mounted["./tls"], str(tmp_path / "tls"))
    with Proxy(tmp_path, free_port(), tls=Path(here)) as proxy:
        context = ssl.create_default_context(cafile=str(tmp_path / "tls" / "relay.pem"))
        link = http.client.HTTPSConnection("localhost", proxy.port, context=context, timeout=PATIENCE)
        link.request("GET", "/health")
        assert link.getresponse().status == 503  # no node runs
        link.close()


def test_clients_reach_the_s3_store_under_the_name_that_nodes_sign() -> None:
    endpoint = loaded("web-1").aws["AWS_ENDPOINT_URL_S3"]
    host, _, port = endpoint.removeprefix("http://").partition(":")
    assert services()["s3"]["networks"]["outside"]["aliases"] == [host]
    assert services()["s3"]["ports"] == [f"{port}:{port}"]
    assert environment("s3")["VGW_PORT"] == f":{port}"
    assert environment("s3")["VGW_REGION"] == loaded("web-1").aws["AWS_REGION"]
    folder = services()["s3"]["command"][-1]
    assert services()["bucket-create"]["entrypoint"] == ["mkdir", "-p", f"{folder}/relay-artifacts"]
    assert loaded("web-1").blob_url == "s3://relay-artifacts"


def test_everything_that_is_mounted_is_there() -> None:
    declared = set(composition()["volumes"])
    mounted: set[str] = set()
    for service in services().values():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            if source.startswith("./"):
                assert (ROOT / source).exists() or source == "./tls", source
                assert volume.endswith(":ro")
            else:
                mounted.add(source)
    assert mounted == declared


def test_every_image_is_of_a_stated_version() -> None:
    for name, service in services().items():
        assert re.fullmatch(r"[a-z0-9/-]+:v?\d+\.\d+[\w.-]*(@sha256:[0-9a-f]{64})?", service["image"]), name


def test_an_image_has_one_name_and_the_base_of_the_node_is_that_of_the_dockerfile() -> None:
    named = re.findall(r"\$\{(\w+_IMAGE):-([^}]+)\}", FILE.read_text())
    assert len({name for name, _ in named}) == len(set(named)) == 7
    assert f"ARG PYTHON_IMAGE={dict(named)['PYTHON_IMAGE']}\n" in (ROOT / "Dockerfile").read_text()
    ours = {service["image"] for service in services().values() if "build" in service}
    assert {service["image"] for service in services().values()} - ours == {
        image for name, image in named if name != "PYTHON_IMAGE"
    }


def test_images_are_pinned_by_the_digests_that_a_registry_tells(tmp_path: Path) -> None:
    """No registry is contacted: a fake docker answers in its place."""
    digest = f"sha256:{'0123456789abcdef' * 4}"
    docker = tmp_path / "docker"
    docker.write_text(f'#!/bin/sh\n[ "$1 $2 $3" = "buildx imagetools inspect" ] && echo {digest}\n')
    docker.chmod(0o755)
    command = ["sh", str(ROOT / "deploy" / "image-digests.sh")]
    path = f"{tmp_path}:{os.environ['PATH']}"
    told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30, env={"PATH": path}).stdout
    lines = told.splitlines()
    assert f"REDIS_IMAGE=redis:8.2@{digest}" in lines
    assert f"PYTHON_IMAGE=python:3.11-slim@{digest}" in lines
    assert len(lines) == 7
    docker.write_text("#!/bin/sh\nexit 1\n")
    assert subprocess.run(command, capture_output=True, check=False, timeout=30, env={"PATH": path}).returncode == 1


def test_a_service_waits_only_for_services_that_there_are() -> None:
    for service in services().values():
        for name, condition in service.get("depends_on", {}).items():
            assert services()[name]["restart"] == "no"
            assert condition == {"condition": "service_completed_successfully"}


def test_prometheus_reads_where_the_nodes_and_the_balancer_report() -> None:
    jobs: list[dict[str, Any]] = yaml.safe_load((ROOT / "deploy" / "prometheus" / "prometheus.yml").read_text())[
        "scrape_configs"
    ]
    targets = {target for job in jobs for some in job.get("static_configs", []) for target in some["targets"]}
    targets |= {
        f"{name}:{some['port']}" for job in jobs for some in job.get("dns_sd_configs", []) for name in some["names"]
    }
    assert {f"{name}:{loaded(name).admin_port}" for name in NODES} <= targets
    assert f"balancer{environment('balancer')['METRICS']}" in targets
    assert f"alertmanager:{services()['alertmanager']['ports'][0].rpartition(':')[2]}" in targets
    for target in targets - {"localhost:9090"}:
        assert networks(target.partition(":")[0]) & networks("prometheus"), target
    assert networks("grafana") & networks("prometheus")
    assert {loaded(name).admin_host for name in NODES} == {"0.0.0.0"}
