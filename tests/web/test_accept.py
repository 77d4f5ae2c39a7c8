"""Which of several media types a client prefers (RFC 9110 §12.5.1)."""

import pytest

from node.web.accept import MAX_ACCEPT_CHARACTERS, preferred, weights

JSON, EVENTS, LINES = OFFERED = ("application/json", "text/event-stream", "application/x-ndjson")


@pytest.mark.parametrize(
    ("accept", "chosen"),
    [
        (None, JSON),
        ("", JSON),
        ("*/*", JSON),
        ("application/*", JSON),
        ("text/*", EVENTS),
        ("text/event-stream", EVENTS),
        ("Text/Event-Stream;charset=utf-8", EVENTS),
        ("application/x-ndjson, */*", LINES),
        ("application/json, text/event-stream", JSON),
        ("text/event-stream, application/json", EVENTS),
        ("application/json, text/event-stream;q=0.9", JSON),
        ("application/json;q=0.5, text/event-stream;q=0.9", EVENTS),
        ("text/event-stream;q=0.1, application/x-ndjson ; Q = 0.2", LINES),
        ("text/event-stream;q=0, application/x-ndjson;q=0.001", LINES),
        ("text/event-stream;q=0.5, */*;q=0.1", EVENTS),
        ("*/*, application/json;q=0", EVENTS),
        ("text/html,application/xhtml+xml,*/*;q=0.8", JSON),
        ("text/event-stream;q=0", JSON),
        ("image/png", JSON),
        ("*/*;q=0", JSON),
        ("text/event-streams, text/event-stream-x", JSON),
    ],
)
def test_the_highest_weight_is_preferred_and_of_equal_ones_what_is_named_first(accept: str | None, chosen: str) -> None:
    assert preferred(accept, *OFFERED) == chosen


def test_what_is_no_weight_counts_as_none() -> None:
    assert weights("a;q=x, b;q=-1, c;q=, d;q=nan, e;quality=0, f;q=7, g;;q=0.") == {
        **dict.fromkeys("abcdef", 1.0),
        "g": 0,
    }


def test_of_a_long_header_the_beginning_is_read() -> None:
    assert list(weights("a," + "," * MAX_ACCEPT_CHARACTERS + "b")) == ["a"]
