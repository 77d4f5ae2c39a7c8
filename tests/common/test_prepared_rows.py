"""Rows are encoded once for as long as their source stays the same."""

from node.common.prepared_rows import OVERHEAD, PreparedRows


class Shown:
    """Records which rows it has encoded."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str]] = []

    def __call__(self, entity_id: str, source: str) -> str:
        self.rows.append((entity_id, source))
        return source


def test_a_row_that_is_read_as_before_is_not_encoded_again() -> None:
    shown = Shown()
    rows = PreparedRows(shown)
    assert [bytes(rows.of("a", "one")) for _ in range(3)] == [b'"one"'] * 3
    assert shown.rows == [("a", "one")]


def test_a_row_that_has_changed_is_encoded_again() -> None:
    rows = PreparedRows(Shown())
    assert bytes(rows.of("a", "one")) == b'"one"'
    assert bytes(rows.of("a", "two")) == b'"two"'
    assert bytes(rows.of("a", "one")) == b'"one"'
    assert rows.size == 2 * len(b'"one"') + OVERHEAD


def test_the_rows_that_were_not_asked_for_longest_go_first() -> None:
    shown = Shown()
    rows = PreparedRows(shown, most=2 * (2 * 3 + OVERHEAD))
    for name in ("a", "b", "a", "c"):
        rows.of(name, "x")
    assert rows.size <= 2 * (2 * 3 + OVERHEAD)
    rows.of("a", "x")
    rows.of("b", "x")
    assert [name for name, _ in shown.rows] == ["a", "b", "c", "b"]


def test_a_row_larger_than_all_that_is_kept_is_answered_and_not_kept() -> None:
    rows = PreparedRows(Shown(), most=OVERHEAD)
    assert bytes(rows.of("a", "x" * OVERHEAD)) == f'"{"x" * OVERHEAD}"'.encode()
    assert rows.size == 0
