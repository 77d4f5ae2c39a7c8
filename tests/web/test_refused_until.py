"""What a process remembers about clients that are over a limit."""

import pytest

from node.web.refused_until import RefusedUntil


def test_a_client_is_refused_for_so_long_and_forgotten_then() -> None:
    refused = RefusedUntil[str]()
    refused.remember("over", 60.0)
    refused.remember("again within it", 0.0)
    assert 30 < refused.wait("over") <= 60
    assert refused.wait("again within it") == refused.wait("never over") == 0
    assert list(refused) == ["over"]


def test_a_flood_of_clients_takes_no_more_memory_than_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("node.web.refused_until.MAX_REFUSED_CLIENTS", 2)
    refused = RefusedUntil[int]()
    for client in range(3):
        refused.remember(client, 60.0)
    assert list(refused) == [2]
