"""What a process counts between two reports."""

import pytest

from node.common import counters


def test_refused_requests_are_counted_of_so_many_clients_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counters, "REFUSED_CLIENTS", {})
    monkeypatch.setattr(counters, "MAX_REFUSED_CLIENTS", 2)
    for client in ("ann", "bob", "eve", "ann"):
        counters.count_refused(client)
    assert counters.REFUSED_CLIENTS == {"ann": 2, "bob": 1}
