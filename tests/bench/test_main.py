"""The command line, on a server that is already running."""

from pathlib import Path

import msgspec
import pytest

from bench.__main__ import chosen, main, parser
from bench.result import Results
from bench.scenarios import ALL
from bench.server import Unfit, given
from tests.bench.stand_in import stand_in_beside


def test_one_second_of_load_on_a_given_server_leaves_a_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with stand_in_beside() as server:
        words = ["relay", "--rate", "100", "--seconds", "1", "--warmup", "0", "--out", str(tmp_path)]
        assert main([*words, "--url", f"http://127.0.0.1:{server.port}"]) == 0
    results = msgspec.json.decode((tmp_path / "results.json").read_bytes(), type=Results)
    [row] = results.rows
    assert (row.rate, row.statuses, row.figures["failed"].median) == (100, {"200": 100}, 0)
    assert server.requests == 100
    assert "### relay" in capsys.readouterr().out


def test_a_server_elsewhere_is_not_loaded(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["relay", "--url", "http://192.0.2.1:8000"]) == 2
    assert "127.0.0.0/8" in capsys.readouterr().err


@pytest.mark.parametrize("url", ["https://127.0.0.1:1", "http://example.org", "127.0.0.1:80", "http://[::1]:80"])
def test_only_plain_http_on_ipv4_loopback_is_spoken(url: str) -> None:
    with pytest.raises(Unfit):
        given(url)


def test_a_nonsensical_rate_is_refused_before_anything_is_sent(capsys: pytest.CaptureFixture[str]) -> None:
    with stand_in_beside() as server:
        assert main(["relay", "--rate", "-5", "--url", f"http://127.0.0.1:{server.port}"]) == 2
    assert server.requests == 0
    assert "at most" in capsys.readouterr().err


def test_each_scenario_has_a_name_and_a_sentence() -> None:
    assert len({scenario.name for scenario in ALL}) == len(ALL)
    assert all(scenario.about for scenario in ALL)


def test_without_a_name_everything_but_the_long_ones_is_chosen() -> None:
    assert parser().parse_args([]).scenario == []
    assert [s.name for s in chosen([], full=False)] == [s.name for s in ALL if s.name not in {"growth", "neighbours"}]
    assert chosen(["all"], full=True) == list(ALL)
    assert [s.name for s in chosen(["growth", "claim"], full=False)] == ["claim", "growth"]


def test_a_name_that_is_no_scenario_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(["relais"])
    assert "'relais' is no scenario" in capsys.readouterr().err
