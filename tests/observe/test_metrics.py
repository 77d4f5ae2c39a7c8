"""The metrics of a whole node are correct across its processes, whatever happens to one of them."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from node.observe.metrics.families import FAMILIES
from tests.artifacts.test_s3_tls import TLS, broken_service
from tests.observe.scrape import AdminPort, Scrape
from tests.support.nodes import ROOT, NodeProcess
from tests.support.servers import PATIENCE, RedisServer, free_port, until

SECRET_WORDS = "the colour of the third lighthouse"
DASHBOARD = ROOT / "deploy/grafana/relay-node.json"
RULES = ROOT / "deploy/prometheus/alerts.yml"
LINE_ROUTE = "/api/v1/sessions/{id}/messages"


def call(node: NodeProcess, method: str, path: str, body: object = None) -> tuple[int, Any]:
    """Return status and answer of one request."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{node.url}{path}", data, {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return answer.status, json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        return error.code, None


def started(folder: Path, role: str = "serve", **settings: str) -> tuple[NodeProcess, AdminPort]:
    port = free_port()
    node = NodeProcess(folder, (sys.executable, "-m", "node", role))
    return node.start(RELAY_ADMIN_PORT=str(port), **settings), AdminPort(port)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[NodeProcess, AdminPort]]:
    """A whole node with two web processes and a separate Redis for search. Counts accumulate over the tests."""
    with broken_service() as address, RedisServer(tmp_path_factory.mktemp("search")) as search:
        node, admin = started(
            tmp_path_factory.mktemp("node"),
            RELAY_SEARCH_URL=search.url,
            RELAY_LIMIT_RELAY="6/86400",
            RELAY_LOG="debug",
            RELAY_BASE_URL=address,
            SSL_CERT_FILE=str(TLS / "cert.pem"),
        )
        with node:
            node.ready()
            until(lambda: admin.answers("/ready", 200), "every process has been heard of")
            yield node, admin


def until_counted(admin: AdminPort, count: float, name: str, **labels: str) -> Scrape:
    """Return the first page on which the counter has reached this value."""
    until(lambda: admin.scrape().total(name, **labels) >= count, f"{name} {labels} is {count}")
    return admin.scrape()


@pytest.fixture(scope="module")
def page(served: tuple[NodeProcess, AdminPort]) -> Scrape:
    """The metrics after some traffic of every kind."""
    node, admin = served
    thread = {"title": "How do I measure a relay?", "body": "I would like to know how long its answers take."}
    for number in range(4):
        message = {"message": f"Who knows {SECRET_WORDS}, my friends?", "number": number}
        assert call(node, "POST", "/api/v1/relay", message)[0] == 200
    assert call(node, "POST", "/api/v1/relay", {"message": "Wer kennt die Farbe des dritten Leuchtturms?"})[0] == 400
    assert call(node, "POST", "/api/v1/board", thread)[0] == 201
    assert call(node, "GET", "/api/v1/board")[0] == 200
    session = call(node, "POST", "/api/v1/sessions", {"label": "measured"})[1]["session_id"]
    assert call(node, "POST", f"/api/v1/sessions/{session}/messages", {"body": SECRET_WORDS})[0] == 200
    assert call(node, "GET", f"/api/v1/sessions/{session}/messages?since_seq=0")[0] == 200
    assert call(node, "GET", "/api/v1/tasks/0193")[0] == 404
    assert call(node, "POST", "/api/v1/tasks/claim-next", {"assignee_id": "worker-1", "wait": 0.1})[0] == 204
    assert call(node, "POST", "/api/v1/tasks/claim-next", {"assignee_id": "worker-1"})[0] == 204
    backup = subprocess.run(
        [sys.executable, "-m", "node", "admin", "backup", f"{node.folder}-backup"],
        cwd=ROOT,
        env=os.environ | {"RELAY_DATA_DIR": str(node.folder)},
        capture_output=True,
        check=False,
    )
    assert backup.returncode == 0, backup.stderr
    assert call(node, "GET", f"/not-here/{session}")[0] == 404
    while call(node, "POST", "/api/v1/relay", {"message": "Is there still a place in my limit now?"})[0] != 429:
        pass
    found: list[Scrape] = []

    def all_told() -> bool:
        """Return whether both processes have written their counts. /health does not count, because others may ask for
        it at any time.
        """
        found.append(admin.scrape())
        counted = found[-1].total("relay_requests_total") - found[-1].total("relay_requests_total", route="/health")
        return counted == 16 and found[-1].value("relay_threads", state="open") == 6

    until(all_told, "all requests are counted, and the lists of threads are as they should be")
    assert session not in found[-1].text
    return found[-1]


def test_every_counter_that_an_alert_looks_at_is_there_before_it_counts(page: Scrape) -> None:
    """Prometheus sees no increase in a counter that appears with the value 1, so a node's first fault would go
    unnoticed.
    """
    selected = re.findall(r'(?:increase|rate)\((relay_\w+_total)\{(\w+)=~?"([^"]+)"\}', RULES.read_text())
    looked_at = [(name, label, value) for name, label, values in selected for value in values.split("|")]
    assert ("relay_refusals_total", "code", "server.bug") in looked_at
    assert ("relay_refusals_total", "code", "disk.low") in looked_at
    for name, label, value in looked_at:
        counts = [count for (found, has), count in page.values.items() if found == name and (label, value) in has]
        assert counts, f"{name}{{{label}={value}}}"
        assert not any(counts)


def test_answers_are_counted_by_operation_and_kind_of_status(page: Scrape) -> None:
    relay = {"method": "POST", "route": "/api/v1/relay"}
    assert page.value("relay_requests_total", status="2xx", **relay) == 5
    assert page.value("relay_requests_total", status="4xx", **relay) == 2  # one of them was refused by the gate
    assert page.value("relay_requests_total", method="POST", route=LINE_ROUTE, status="2xx") == 1
    assert page.value("relay_requests_total", method="GET", route="/api/v1/tasks/{id}", status="4xx") == 1
    assert page.value("relay_requests_total", method="(any)", route="(none)", status="4xx") == 1
    # The counter is shown before the first failure, which therefore is an increase.
    assert page.values["relay_requests_total", frozenset((relay | {"status": "5xx"}).items())] == 0


def test_an_acknowledgement_is_in_the_histogram_and_a_read_or_a_refusal_is_not(page: Scrape) -> None:
    relay = {"method": "POST", "route": "/api/v1/relay"}
    assert page.value("relay_ack_seconds_count", **relay) == 5
    assert page.value("relay_ack_seconds_bucket", le="+Inf", **relay) == 5
    assert 0 < page.value("relay_ack_seconds_sum", **relay) < 5 * 10
    assert page.total("relay_ack_seconds_count", method="GET") == 0


def test_a_write_that_waits_for_news_is_no_slow_acknowledgement(page: Scrape) -> None:
    route = {"method": "POST", "route": "/api/v1/tasks/claim-next"}
    assert page.value("relay_requests_total", status="2xx", **route) == 2
    assert page.value("relay_ack_seconds_count", **route) == 1


def test_the_gate_and_the_limits_are_counted_by_outcome(page: Scrape) -> None:
    assert page.value("relay_gate_verdicts_total", verdict="refused") == 1
    assert page.value("relay_gate_verdicts_total", verdict="passed") >= 7
    assert page.value("relay_limits_total", limit="relay", outcome="taken") == 6
    assert page.value("relay_limits_total", limit="relay", outcome="refused") == 1
    assert page.value("relay_refusals_total", code="language.not_english") == 1
    assert page.value("relay_refusals_total", code="limit.exceeded") == 1
    assert page.value("relay_refusals_total", code="task.unknown") == 1


def test_figures_of_the_whole_node_come_from_redis(page: Scrape) -> None:
    assert page.value("relay_store_up") == 1
    assert page.value("relay_threads", state="open") == 6
    assert page.value("relay_redis_memory_bytes", primary="0") > 100_000
    groups = {dict(labels)["group"] for name, labels in page.values if name == "relay_events_waiting"}
    assert groups == {"artifacts", "feed", "hooks", "index", "lists"}


def test_every_metric_has_a_value_and_only_the_labels_of_the_table(page: Scrape) -> None:
    for family in FAMILIES.values():
        name = f"{family.name}_count" if family.kind == "histogram" else family.name
        assert page.labels[name] == set(family.labels), name
    assert page.names == {name for name in page.names if re.sub("_(bucket|count|sum)$", "", name) in FAMILIES}


def test_no_word_or_address_of_a_client_is_in_the_page(page: Scrape) -> None:
    values = {value for _, labels in page.values for _, value in labels}
    for word in (*SECRET_WORDS.split()[1:], "127.0.0.1", "measured", "0193", "not-here"):
        assert not any(word in value.split("/") or word in value.split() for value in values), word


def test_the_page_passes_the_lint_of_prometheus(page: Scrape) -> None:
    said = subprocess.run(
        ["promtool", "check", "metrics"], input=page.text, capture_output=True, text=True, check=False
    )
    assert (said.returncode, said.stderr) == (0, "")


@pytest.mark.usefixtures("page")
def test_a_client_that_knows_openmetrics_gets_it(served: tuple[NodeProcess, AdminPort]) -> None:
    status, media_type, body = served[1].get("/metrics", Accept="application/openmetrics-text; version=1.0.0")
    assert (status, media_type.partition(";")[0]) == (200, "application/openmetrics-text")
    assert body.endswith(b"# EOF\n")


def test_the_dashboard_shows_all_that_a_node_counts() -> None:
    text = DASHBOARD.read_text()
    assert [name for name in FAMILIES if name not in text] == []


@pytest.mark.parametrize("path", [DASHBOARD, RULES], ids=lambda path: path.name)
def test_the_dashboard_and_the_alerts_ask_for_what_a_node_shows(path: Path, page: Scrape) -> None:
    """This covers names of metrics, and of labels in matchers and groupings."""
    text = path.read_text()
    asked = set(re.findall(r"\brelay_\w+", text))
    assert len(asked) > 10
    assert asked <= page.names
    for name, matchers in re.findall(r"\b(relay_\w+)\{([^}]*)\}", text):
        assert set(re.findall(r"(\w+)\s*(?:=|!)", matchers)) - {"instance", "job"} <= page.labels[name], name
    known = {label for labels in page.labels.values() for label in labels} | {"instance", "job"}
    grouped = {label.strip() for group in re.findall(r"\bby ?\(([^)]*)\)", text) for label in group.split(",")}
    assert grouped <= known


@pytest.mark.usefixtures("page")
def test_no_word_of_a_client_is_in_the_log(served: tuple[NodeProcess, AdminPort]) -> None:
    """This includes the most verbose log level, and requests that succeed as well as ones that fail."""
    node, admin = served
    link = f"http://169.254.169.254/{SECRET_WORDS.replace(' ', '-')}"
    refused = {"title": SECRET_WORDS, "body": f"Can you tell me {SECRET_WORDS}?", "callback_url": link}
    assert call(node, "POST", "/api/v1/board", refused)[0] == 422
    assert call(node, "POST", "/api/v1/tasks", {"title": [SECRET_WORDS]})[0] == 422
    assert call(node, "POST", "/api/v1/message:send", {"message": SECRET_WORDS})[0] == 400
    assert call(node, "POST", "/api/v1/board/search", {"query": SECRET_WORDS})[0] == 200
    os.kill(node.child("worker"), signal.SIGKILL)
    node.line("child ended", child="worker")  # everything logged before this line has been read
    text = json.dumps(node.lines) + node.words()
    assert "lighthouse" not in text
    assert "Leuchtturm" not in text
    until(lambda: admin.answers("/ready", 200), "another worker has begun")


@pytest.mark.usefixtures("page")
def test_counters_never_fall_when_a_web_process_dies(served: tuple[NodeProcess, AdminPort]) -> None:
    node, admin = served
    before = admin.scrape()
    os.kill(node.web_process(1), signal.SIGKILL)
    starts = before.value("relay_process_starts_total", role="web") + 1
    after = until_counted(admin, starts, "relay_process_starts_total", role="web")
    until(lambda: admin.scrape().value("relay_processes", role="web") == 2, "its place is taken")
    for role, died in (("web", 1), ("worker", 0)):
        deaths = before.value("relay_process_restarts_total", role=role)
        assert after.value("relay_process_restarts_total", role=role) == deaths + died
    for (name, labels), value in before.values.items():
        if name.endswith(("_total", "_count", "_bucket", "_sum")):
            assert after.values[name, labels] >= value, (name, labels)
    assert call(node, "GET", "/api/v1/board")[0] == 200
    threads = {"method": "GET", "route": "/api/v1/board", "status": "2xx"}
    until_counted(admin, before.value("relay_requests_total", **threads) + 1, "relay_requests_total", **threads)


@pytest.mark.usefixtures("page")
def test_without_redis_the_processes_still_report_and_the_node_is_live_but_not_ready(
    served: tuple[NodeProcess, AdminPort],
) -> None:
    node, admin = served
    os.kill(node.child("redis"), signal.SIGSTOP)
    try:
        until(lambda: admin.scrape().value("relay_store_up") == 0, "the scrape says that Redis is gone")
        found = admin.scrape()
        assert found.value("relay_requests_total", method="POST", route="/api/v1/relay", status="2xx") == 5
        assert found.total("relay_redis_keys") == 0
        status, said = admin.verdict("/ready")
        assert (status, said["ok"], said["reason"].partition(":")[0]) == (503, False, "store")
        live = (200, {"ok": True, "processes": {"web": 2, "worker": 1}})
        until(lambda: admin.verdict("/live") == live, "all of them report, one perhaps late on a busy machine")
    finally:
        os.kill(node.child("redis"), signal.SIGCONT)
    until(lambda: admin.answers("/ready", 200), "the node is ready again")
    assert admin.scrape().value("relay_store_up") == 1


def test_another_path_is_unknown(served: tuple[NodeProcess, AdminPort]) -> None:
    assert served[1].get("/")[0] == 404


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:9100", "10.244.1.7:9100", "[fd00::7]:9100", "web-1:9100"])
def test_whoever_watches_the_node_asks_by_address_or_by_a_name_of_the_machine(
    served: tuple[NodeProcess, AdminPort], host: str
) -> None:
    """Kubernetes uses the address of the pod; Prometheus under Docker Compose uses the name of the service."""
    for path in ("/metrics", "/live"):
        assert served[1].get(path, Host=host)[0] == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:9100", "127.0.0.1.evil.example", "evil.example.", "["])
def test_a_page_that_rebinds_its_name_to_the_port_reads_nothing(
    served: tuple[NodeProcess, AdminPort], host: str
) -> None:
    for path in ("/metrics", "/live", "/ready", "/"):
        status, _, body = served[1].get(path, Host=host)
        assert status == 421
        assert b"RELAY_ADMIN_NAMES" in body


def test_the_operator_may_name_the_port(tmp_path: Path, shared_redis: RedisServer) -> None:
    names = "node-1.relay.internal, metrics.example"
    node, admin = started(tmp_path, "worker", RELAY_REDIS_URL=shared_redis.url, RELAY_ADMIN_NAMES=names)
    with node:
        until(lambda: admin.answers("/live", 200), "the worker has been heard of")
        assert admin.get("/live", Host="Node-1.relay.internal:9100")[0] == 200
        assert admin.get("/live", Host="metrics.example")[0] == 200
        assert admin.get("/live", Host="relay.internal")[0] == 421


def test_the_web_processes_and_the_worker_each_report_for_themselves(tmp_path: Path, shared_redis: RedisServer) -> None:
    given = {"RELAY_REDIS_URL": shared_redis.url, "RELAY_DRAIN_SECONDS": "300"}
    web, web_admin = started(tmp_path / "web", "web", **given)
    worker, worker_admin = started(tmp_path / "worker", "worker", **given)
    with web, worker:
        until(lambda: web_admin.answers("/ready", 200), "the web processes are ready")
        until(lambda: worker_admin.answers("/ready", 200), "the worker is ready")
        until(lambda: web_admin.scrape().value("relay_processes", role="web") == 2, "both were heard of")
        assert web_admin.scrape().total("relay_processes", role="worker") == 0
        assert worker_admin.verdict("/live")[1]["processes"] == {"worker": 1}
        assert worker_admin.scrape().value("relay_callbacks_total", outcome="delivered") == 0
        web.signal(signal.SIGTERM)
        until(lambda: web_admin.verdict("/ready") == (503, {"ok": False, "reason": "draining"}), "it drains")
        web.signal(signal.SIGTERM)
        assert web.wait() == 0
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 0


def test_a_node_whose_admin_port_is_taken_does_not_start(served: tuple[NodeProcess, AdminPort], tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "RELAY_PORT": str(free_port()),
        "RELAY_ADMIN_PORT": str(served[1].port),
        "RELAY_DATA_DIR": str(tmp_path),
    }
    command = [sys.executable, "-m", "node", "serve"]
    ran = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert ran.returncode == os.EX_TEMPFAIL
    assert "RELAY_ADMIN_PORT" in ran.stderr
