"""The alert rules fire exactly when they should, as judged by Prometheus' own `promtool`."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from node.observe.metrics.families import FAMILIES
from tests.support.nodes import ROOT
from tests.support.servers import PATIENCE, free_port, until

RULES = ROOT / "deploy/prometheus/alerts.yml"
ALERTS = re.findall(r"- alert: (\w+)", RULES.read_text())
SEVERITIES = dict(re.findall(r"- alert: (\w+).+?severity: (\w+)", RULES.read_text(), re.DOTALL))
ALERTMANAGER = ROOT / "deploy/alertmanager/alertmanager.yml"
SAMPLES = {
    f"{name}_bucket" if family.kind == "histogram" else name: set(family.labels) for name, family in FAMILIES.items()
}
"""The metrics by the names used in expressions, and their labels."""

ACKS = 'relay_ack_seconds_bucket{le="%s"}'
MINUTES = 30

BUGS = 'relay_refusals_total{code="server.bug"}'


def disk(*, free: str, size: str, reserve: str) -> dict[str, str]:
    """Return the series of a disk that does not change."""
    figures = {"free_bytes": free, "bytes": size, "reserve_bytes": reserve}
    return {f'relay_disk_{name}{{use="redis"}}': f"{value}x30" for name, value in figures.items()}


# For each alert, its series with their values when all is well and when it is not, one sample a minute. `a+bxn` begins
# at a and grows by b, n times.
Story = dict[str, tuple[str, str]]
STORIES: dict[str, Story] = {
    "RelayInstanceDown": {'up{job="relay-node"}': ("1x30", "0x30")},
    "RelayStoreDown": {"relay_store_up": ("1x30", "0x30")},
    "RelayProxyDown": {'up{job="haproxy"}': ("1x30", "0x30")},
    "RelayNoNode": {'haproxy_backend_active_servers{proxy="nodes"}': ("1x30", "0x30")},
    "RelayProcessesGone": {'relay_processes{role="web"}': ("2x30", "0x30")},
    "RelayProcessesRestart": {'relay_process_restarts_total{role="web"}': ("2x30", "0+1x30")},
    "RelayTaskFails": {'relay_background_failures_total{task="leases"}': ("2x90", "0+1x90")},
    "RelayErrors": {
        'relay_requests_total{status="2xx"}': ("0+1000x30", "0+1000x30"),
        'relay_requests_total{status="5xx"}': ("0+1x30", "0+20x30"),
    },
    "RelayOverload": {'relay_refusals_total{code="node.overloaded"}': ("50x30", "0+600x30")},
    "RelayAgentsUnchecked": {
        "relay_agent_check_age_seconds": ("0+1x30", "3700+60x30"),
        "relay_agent_checks_due": ("3x30", "3x30"),
    },
    "RelayRefusing": {'relay_refusals_total{code="disk.low"}': ("3x30", "0+1x30")},
    "RelayBug": {'relay_refusals_total{code="server.bug"}': ("3x30", "0+1x30")},
    "RelayAcknowledgementsSlow": {
        ACKS % "0.02": ("0+999x30", "0+900x30"),
        ACKS % "0.05": ("0+1000x30", "0+1000x30"),
        ACKS % "+Inf": ("0+1000x30", "0+1000x30"),
    },
    "RelayEventLoopLate": {'relay_event_loop_lag_seconds{role="web"}': ("0.01x30", "0.4x30")},
    "RelayStoreQueueFull": {
        'relay_store_in_flight{role="web"}': ("100x30", "4000x30"),
        'relay_store_in_flight_limit{role="web"}': ("4096x30", "4096x30"),
    },
    "RelayStoreReconnects": {'relay_store_reconnects_total{role="web"}': ("7x30", "0+5x30")},
    "RelayRedisMemory": {
        'relay_redis_memory_bytes{primary="0"}': ("70x30", "85x30"),
        'relay_redis_memory_limit_bytes{primary="0"}': ("100x30", "100x30"),
    },
    "RelayRedisFull": {
        'relay_redis_memory_bytes{primary="0"}': ("85x30", "97x30"),
        'relay_redis_memory_limit_bytes{primary="0"}': ("100x30", "100x30"),
    },
    "RelaySearchStoreDown": {"relay_search_store_up": ("1x30", "0x30")},
    "RelaySearchStoreMemory": {
        "relay_search_memory_bytes": ("70x30", "85x30"),
        "relay_search_memory_limit_bytes": ("100x30", "100x30"),
    },
    "RelayNearlyFull": {
        'relay_kept{kind="session"}': ("80x30", "95x30"),
        'relay_kept_limit{kind="session"}': ("100x30", "100x30"),
    },
    "RelayDisk": {
        'relay_disk_free_bytes{use="redis"}': ("9e9x30", "3e8x30"),
        'relay_disk_bytes{use="redis"}': ("5e10x30", "5e10x30"),
        'relay_disk_reserve_bytes{use="redis"}': ("2.5e8x30", "0x30"),
    },
    "RelayBackupOld": {"relay_backup_age_seconds": ("90000x30", "110000+60x30")},
    "RelayCertificateEnds": {"relay_certificate_seconds": ("1e6x30", "5e5x30")},
    "RelayDurability": {"relay_durability_kept": ("1x30", "0x30")},
    "RelayClockSkew": {"relay_clock_skew_seconds": ("0.1x30", "3x30")},
    "RelayEventsLate": {'relay_events_oldest_seconds{group="index"}': ("2x30", "0+60x30")},
    "RelaySearchByTextOnly": {"relay_search_by_meaning": ("1x30", "0x30")},
    "RelaySearchQueueLong": {'relay_search_queue{queue="pending"}': ("10x30", "5000x30")},
    "RelayCallbacksDead": {'relay_callbacks_total{outcome="dead"}': ("0+0.1x30", "0+2x30")},
    "RelayCallbacksFail": {
        'relay_callbacks_total{outcome="retry"}': ("0+5x30", "0+5x30"),
        'relay_callbacks_total{outcome="delivered"}': ("0+0.1x30", "7x30"),
    },
    "RelayCallbacksLate": {"relay_callbacks_overdue_seconds": ("1x30", "130+60x30")},
    "RelayArtifactsRejected": {
        'relay_artifact_states_total{state="rejected"}': ("0+1x30", "0+5x30"),
        'relay_artifact_states_total{state="available"}': ("0+5x30", "0+1x30"),
    },
}

# Further cases: an alert, its series, and whether it fires after half an hour.
FURTHER: list[tuple[str, dict[str, str], bool]] = [
    # The first fault of a node ever. Prometheus cannot see it if the counter appears together with it.
    ("RelayBug", {BUGS: "0x24 1x60"}, True),
    ("RelayBug", {BUGS: "_x24 1x60"}, False),
    # A proxy that asks twice a second sees two nodes drain in turn, and there are few other requests.
    (
        "RelayErrors",
        {
            'relay_requests_total{route="/ready",status="2xx"}': "0+240x60",
            'relay_requests_total{route="/ready",status="5xx"}': "0x25 16x35",
            'relay_requests_total{route="/api/v1/relay",status="2xx"}': "0+3x60",
            'relay_requests_total{route="/api/v1/relay",status="5xx"}': "0x60",
        },
        False,
    ),
    # A single failure among few requests.
    (
        "RelayErrors",
        {'relay_requests_total{status="2xx"}': "0+3x60", 'relay_requests_total{status="5xx"}': "0x25 1x35"},
        False,
    ),
    # One or two receivers are gone, and no others are called.
    (
        "RelayCallbacksFail",
        {
            'relay_callbacks_total{outcome="retry"}': "0+1x60",
            'relay_callbacks_total{outcome="delivered"}': "7x60",
        },
        False,
    ),
    # No backup has ever been made here: the operator makes them in another way.
    ("RelayBackupOld", {"relay_store_up": "1x30"}, False),
    # A large reserve, and one that is not nearly reached.
    ("RelayDisk", disk(free="9e9", size="5e10", reserve="5e9"), True),
    ("RelayDisk", disk(free="1.1e10", size="5e10", reserve="5e9"), False),
    ("RelayDisk", disk(free="9e9", size="5e11", reserve="0"), True),
    # A proxy's backend of another kind, such as the one for certbot, does not count.
    ("RelayNoNode", {'haproxy_backend_active_servers{proxy="acme"}': "0x30"}, False),
]


def of(instance: str, story: Story, *, ill: bool) -> dict[str, str]:
    """Return the series of that instance."""
    return {
        (f'{series[:-1]},instance="{instance}"}}' if "{" in series else f'{series}{{instance="{instance}"}}'): values[
            ill
        ]
        for series, values in story.items()
    }


def promtool(folder: Path, tests: list[dict[str, Any]]) -> str:
    """Return the failures that promtool reports, if any. The file is JSON, which is also YAML."""
    file = folder / "rules_test.yml"
    file.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}))
    ran = subprocess.run(["promtool", "test", "rules", str(file)], capture_output=True, text=True, check=False)
    return "" if ran.returncode == 0 else ran.stdout + ran.stderr


def judged(name: str, story: dict[str, str], *, fires: bool) -> dict[str, Any]:
    """Return a promtool test: after half an hour of these series, the alert fires or does not."""
    return {
        "interval": "1m",
        "input_series": [{"series": series, "values": values} for series, values in story.items()],
        "promql_expr_test": [
            {
                "expr": f'count(ALERTS{{alertname="{name}",alertstate="firing"}}) or vector(0)',
                "eval_time": f"{MINUTES}m",
                "exp_samples": [{"labels": "{}", "value": int(fires)}],
            }
        ],
    }


@pytest.mark.parametrize("file", ["prometheus.yml", "alerts.yml"])
def test_prometheus_takes_the_files(file: str) -> None:
    kind = "rules" if file == "alerts.yml" else "config"
    ran = subprocess.run(
        ["promtool", "check", kind, str(RULES.parent / file)], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr


def test_alertmanager_takes_its_file_and_knows_the_labels_of_the_alerts() -> None:
    assert shutil.which("amtool"), "no amtool: run `make system`, or apt-get install prometheus-alertmanager"
    ran = subprocess.run(["amtool", "check-config", ALERTMANAGER], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    read: dict[str, Any] = yaml.safe_load(ALERTMANAGER.read_text())
    matchers = [one for rule in read["inhibit_rules"] for one in rule["source_matchers"] + rule["target_matchers"]]
    named = {name for one in matchers for name in re.findall(r'alertname!?="(\w+)"', one)}
    assert named
    assert named <= set(ALERTS)


def test_what_follows_from_a_lost_redis_is_not_told_but_all_else_is(tmp_path: Path) -> None:
    """Uses the real Alertmanager and two instances, the first of which does not reach its Redis."""
    address = f"127.0.0.1:{free_port()}"
    alerts = [
        {"labels": {"alertname": name, "severity": SEVERITIES[name], "instance": instance}}
        for instance, names in (
            ("first", ("RelayStoreDown", "RelayErrors", "RelayEventLoopLate", "RelayDisk")),
            ("second", ("RelayErrors", "RelayEventLoopLate")),
        )
        for name in names
    ]
    options = (f"--config.file={ALERTMANAGER}", f"--storage.path={tmp_path}", f"--web.listen-address={address}")
    command = ["prometheus-alertmanager", *options, "--cluster.listen-address="]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            until(lambda: answers(address), "Alertmanager is ready")
            httpx.post(f"http://{address}/api/v2/alerts", json=alerts, timeout=PATIENCE).raise_for_status()
            until(lambda: len(told(address)) == len(alerts), "it has all of them")
            silent = {alert for alert, is_told in told(address).items() if not is_told}
        finally:
            process.terminate()
    assert silent == {("first", "RelayErrors"), ("first", "RelayEventLoopLate")}


def answers(address: str) -> bool:
    try:
        return httpx.get(f"http://{address}/-/ready", timeout=PATIENCE).is_success
    except httpx.TransportError:
        return False


def told(address: str) -> dict[tuple[str, str], bool]:
    """Return whether Alertmanager notifies of each of its alerts, by instance and name."""
    shown = httpx.get(f"http://{address}/api/v2/alerts", timeout=PATIENCE).json()
    return {
        (alert["labels"]["instance"], alert["labels"]["alertname"]): not alert["status"]["inhibitedBy"]
        for alert in shown
    }


def test_what_an_alert_says_is_in_its_labels() -> None:
    """A label that the expression does not keep would be shown as an empty text."""
    for rule in yaml.safe_load(RULES.read_text())["groups"][0]["rules"]:
        said = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
        metrics = set(re.findall(r"\brelay_\w+", rule["expr"]))
        assert metrics <= SAMPLES.keys(), rule["alert"]
        kept = re.search(r"\bby \(([\w, ]+)\)", rule["expr"])
        has = set(kept[1].split(", ")) if kept else {"instance"}.union(*(SAMPLES[metric] for metric in metrics))
        assert said <= has, rule["alert"]
        of_a_metric = has - {"instance", "le"}
        assert all(of_a_metric <= SAMPLES[metric] for metric in metrics), rule["alert"]


def test_every_alert_has_a_story() -> None:
    assert sorted(ALERTS) == sorted(STORIES)


def test_an_alert_fires_when_something_is_wrong_and_only_then(tmp_path: Path) -> None:
    stories = [
        judged(name, {series: values[ill] for series, values in STORIES[name].items()}, fires=ill)
        for name in ALERTS
        for ill in (False, True)
    ]
    further = [judged(name, series, fires=fires) for name, series, fires in FURTHER]
    assert promtool(tmp_path, stories + further) == ""


def test_what_one_node_suffers_is_told_however_well_others_fare(tmp_path: Path) -> None:
    """The nodes share one Prometheus, and each has a Redis of its own."""
    well = ("second", "third", "fourth")
    stories = [
        judged(name, {k: v for i in ("first", *well) for k, v in of(i, story, ill=i == "first").items()}, fires=True)
        for name, story in STORIES.items()
    ]
    assert promtool(tmp_path, stories) == ""


DASHBOARD = ROOT / "deploy/grafana/relay-node.json"


def asked_by_the_dashboard() -> list[str]:
    """Return all expressions of the dashboard, for every instance."""
    board = json.loads(DASHBOARD.read_text())
    asked = [target["expr"] for panel in board["panels"] for target in panel.get("targets", [])]
    return [each.replace("$__rate_interval", "1m").replace("$instance", ".*") for each in asked]


def test_the_dashboard_shows_the_instances_that_are_chosen_and_no_others() -> None:
    """Each of several nodes in one Prometheus can be looked at separately."""
    asked = asked_by_the_dashboard()
    assert [each for each in asked if re.search(r"\brelay_\w+(?![\w{]|\{instance=~)", each)] == []


# By a metric of a panel: its series, with the value at an ill node and at a well one, and the labels and value that the
# panel shows. The well node may hold ten times as much.
ILL: dict[str, tuple[dict[str, tuple[int, int]], str, float]] = {
    "relay_search_by_meaning": ({"relay_search_by_meaning": (0, 1)}, "{}", 0),
    "relay_kept": (
        {'relay_kept{kind="session"}': (95, 800), 'relay_kept_limit{kind="session"}': (100, 1000)},
        '{kind="session"}',
        0.95,
    ),
    "relay_redis_memory_limit_bytes": (
        {
            'relay_redis_memory_bytes{primary="0"}': (97, 800),
            'relay_redis_memory_limit_bytes{primary="0"}': (100, 1000),
        },
        "{}",
        0.97,
    ),
}


@pytest.mark.parametrize("metric", ILL)
def test_on_the_dashboard_no_node_hides_what_another_one_suffers(tmp_path: Path, metric: str) -> None:
    """The two nodes share one Prometheus, and the first one is ill."""
    figures, labels, shown = ILL[metric]
    story = {series: (f"{ill}x30", f"{well}x30") for series, (ill, well) in figures.items()}
    both = of("first", story, ill=False) | of("second", story, ill=True)
    expr = next(each for each in asked_by_the_dashboard() if re.search(rf"\b{metric}\b", each))
    judgement = {
        "interval": "1m",
        "input_series": [{"series": series, "values": values} for series, values in both.items()],
        "promql_expr_test": [
            {"expr": expr, "eval_time": "10m", "exp_samples": [{"labels": labels, "value": shown}]},
        ],
    }
    assert promtool(tmp_path, [judgement]) == ""


def test_the_dashboard_is_provisioned_with_its_data_source() -> None:
    board = json.loads(DASHBOARD.read_text())
    assert board["uid"] == "relay-node"
    assert [variable["type"] for variable in board["templating"]["list"]] == ["datasource", "query"]
    asked = [target for panel in board["panels"] for target in panel.get("targets", [])]
    assert len(asked) > 20
    assert {target["datasource"]["uid"] for target in asked} == {"${datasource}"}
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in board["panels"]]
    assert len(set(places)) == len(places)


def test_prometheus_reads_every_expression_of_the_dashboard(tmp_path: Path) -> None:
    rules = [{"record": f"expression:{number}", "expr": expr} for number, expr in enumerate(asked_by_the_dashboard())]
    file = tmp_path / "rules.yml"
    file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    ran = subprocess.run(["promtool", "check", "rules", str(file)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
