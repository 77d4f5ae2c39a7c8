"""Times as they appear in answers."""

from node.common.timestamps import LAST_MS, milliseconds, timestamp


def test_a_time_is_read_as_it_was_written() -> None:
    assert milliseconds(timestamp(1_795_416_370_997)) == 1_795_416_370_997


def test_a_time_that_cannot_be_written_does_not_keep_others_from_being_shown() -> None:
    assert timestamp(LAST_MS) == "9999-12-31T23:59:59.999Z"
    assert {timestamp(LAST_MS + later) for later in (1, 86_400_000, 10**20)} == {timestamp(LAST_MS)}
