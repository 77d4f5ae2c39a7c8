"""Targets computed from rows, and the report that shows them."""

from pathlib import Path

import msgspec

from bench import report
from bench.goals import verdicts
from bench.result import Point, Results, Row, Spread, Table, merged
from bench.scenarios import claim, relay


def results_with(node_us: float, winners: int = 14) -> Results:
    rows = [
        Row(
            scenario="relay",
            subject=subject,
            what=relay.CEILING,
            figures={
                "web_cpu_us": Spread.of([cpu]),
                "requests_per_s": Spread.of([1e6 / cpu]),
                "late_share": Spread.of([0.02]),
            },
            statuses={"200": 9, "503": 1},
            settings={"part": "web"},
        )
        for subject, cpu in (("relay-node", node_us), ("bare granian", 35))
    ]
    points = [Point("claim", "relay-node", claim.WON, winners, "races")]
    return Results(taken="today", arguments=["relay"], machine={"memory": "1 GiB"}, rows=rows, points=points)


def test_a_ratio_is_taken_within_the_run_and_held_against_its_bound() -> None:
    met, missed = verdicts(results_with(60)), verdicts(results_with(90))
    assert [(round(v.value, 2), v.met) for v in met if v.goal.against == "bare Granian"] == [(1.71, True), (0.58, True)]
    assert [v.met for v in missed if v.goal.against == "bare Granian"] == [False, True]


def test_a_goal_without_its_figures_has_no_verdict() -> None:
    assert not any(v.goal.against == "Webdis" for v in verdicts(results_with(60)))


def test_one_race_with_two_winners_is_a_miss() -> None:
    assert [v.met for v in verdicts(results_with(60, winners=13)) if "winner" in v.goal.what] == [False]


def test_a_spread_is_the_median_and_the_span_of_its_runs() -> None:
    assert Spread.of([3, 1, 2]) == Spread(2, 1, 3, [3, 1, 2])


def test_answers_that_never_came_are_told_in_words() -> None:
    assert merged([{200: 3, 1: 1}, {200: 2, 2: 4}]) == {"200": 5, "closed": 1, "timed out": 4}


def test_the_report_names_targets_misses_other_answers_and_a_late_generator() -> None:
    text = report.markdown(results_with(90))
    assert "per request, at the ceiling | bare Granian | at most 2.5 times |" in text
    assert "**missed**" in text
    assert "503: 1" in text
    assert "2.0% late" in text


def test_a_table_stands_for_the_rows_that_it_sums_up() -> None:
    results = results_with(60)
    results.rows[1].shown = False
    results.tables.append(Table("relay", "Both side by side", ["server", "µs"], [["a peer", 1234.5], ["us", 12.3]]))
    text = report.markdown(results)
    assert "Both side by side:\n\n| server | µs |\n| --- | --- |\n| a peer | 1,234 |\n| us | 12.3 |" in text
    assert "| relay-node |" in text
    assert "| bare granian | ceiling" not in text


def test_a_run_is_written_as_json_that_reads_back(tmp_path: Path) -> None:
    results = results_with(60)
    report.write(results, tmp_path)
    assert msgspec.json.decode((tmp_path / "results.json").read_bytes(), type=Results) == results
    assert (tmp_path / "report.md").read_text().startswith("# Benchmark of today")


def test_publishing_replaces_the_last_report_and_nothing_else(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text("# Method\n<!-- results -->\nold figures\n<!-- end of results -->\nThe end.\n")
    front = tmp_path / "front.md"
    front.write_text("# Node\n<!-- results -->\n<!-- end of results -->\n")
    for _ in range(2):
        report.publish(results_with(60), readme, front)
    assert front.read_text().startswith("# Node\n<!-- results -->\n| What | Against | Target | Measured |")
    text = readme.read_text()
    assert text.startswith("# Method\n<!-- results -->\nTaken today.")
    assert text.endswith("<!-- end of results -->\nThe end.\n")
    assert "old figures" not in text
    assert text.count("### Targets") == 1
    assert "![peers.png](results/peers.png)" in text
    assert (tmp_path / "results" / "peers.png").read_bytes().startswith(b"\x89PNG")
