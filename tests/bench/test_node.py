"""What a report says about a node under measurement."""

from pathlib import Path

from bench.node import NEVER_REACHED, reported, settings


def test_a_report_has_the_settings_and_nothing_of_the_machine(tmp_path: Path) -> None:
    environment = settings(
        tmp_path, 1234, {"RELAY_REDIS_URL": f"unix://{tmp_path}/redis.sock", "RELAY_VECTOR_INDEX": "flat"}
    )
    shown = reported(environment)
    assert shown["RELAY_WORKERS"] == "1"
    assert shown["RELAY_VECTOR_INDEX"] == "flat"
    assert shown["RELAY_LIMIT_*"] == NEVER_REACHED
    assert [name for name, value in shown.items() if "/" in value.replace("/60", "") or value == "1234"] == []
