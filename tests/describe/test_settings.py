"""docs/settings.md lists every setting of the program, with what an operator has to know to set it."""

import re
from typing import Literal, get_args, get_origin, get_type_hints

from node.config import Settings, load
from node.describe.settings import page, table
from tests.support.nodes import ROOT


def test_the_page_in_the_documents_is_the_one_that_the_program_prints() -> None:
    assert (ROOT / "docs" / "settings.md").read_text() == page(), "run: relay-node config --markdown >docs/settings.md"


def test_the_table_has_every_setting_once_with_a_default_that_reads_back() -> None:
    rows = table()
    names = [row.name for row in rows]
    assert len(names) == len(set(names))
    fields = [*Settings.__struct_fields__, *(f"limit_{name}" for name in Settings().limits.__struct_fields__)]
    assert names == [f"RELAY_{name.upper()}" for name in fields if name not in {"limits", "aws"}]
    assert all(row.meaning and row.subject and row.type for row in rows)
    assert load({row.name: row.default for row in rows}) == Settings()


def test_a_row_has_a_cell_for_each_column() -> None:
    rows = re.findall(r"^\| `(\w+)` \|(.+)\|$", page(), re.MULTILINE)
    assert [name for name, _ in rows] == [row.name for row in table()]
    assert {cells.count(" | ") for _, cells in rows} == {3}


def test_what_a_page_would_take_for_a_tag_is_in_code() -> None:
    assert "<" not in re.sub(r"`[^`\n]*`", "", page())


def test_a_setting_that_is_an_amount_of_something_measured_has_its_unit() -> None:
    measured = [row for row in table() if re.search(r"_(SECONDS|BYTES|DAYS|PERCENT|TTL)$", row.name)]
    assert len(measured) > 10
    assert [row.name for row in measured if not row.unit] == []


def test_a_choice_is_shown_with_all_that_can_be_chosen() -> None:
    types = {row.name: row.type for row in table()}
    for field, hint in get_type_hints(Settings).items():
        if get_origin(hint) is Literal:
            assert re.findall(r"`([\w-]+)`", types[f"RELAY_{field.upper()}"]) == list(get_args(hint))
