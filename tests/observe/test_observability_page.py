"""docs/observability.md describes exactly the metrics and alerts that exist."""

import re

from node.observe.metrics.families import FAMILIES
from tests.observe.test_alerts import ALERTS
from tests.support.nodes import ROOT

PAGE = (ROOT / "docs/observability.md").read_text()


def test_the_table_of_metrics_is_that_of_the_program() -> None:
    rows = re.findall(r"^\| `(relay_\w+)` \| (\w+) \| (.*?) \| (.+) \|$", PAGE, re.MULTILINE)
    told = {name: (kind, tuple(re.findall(r"`(\w+)`", labels)), meaning) for name, kind, labels, meaning in rows}
    assert told == {name: (family.kind, family.labels, family.meaning) for name, family in FAMILIES.items()}


def test_what_else_it_names_exists() -> None:
    assert set(re.findall(r"\brelay_[a-z]\w+", PAGE)) <= FAMILIES.keys()


def test_it_says_what_to_do_about_every_alert() -> None:
    assert re.findall(r"^\| `(Relay\w+)` \| \S", PAGE, re.MULTILINE) == ALERTS
