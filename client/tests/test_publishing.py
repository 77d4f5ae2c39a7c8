"""A publisher follows an offer with the command `relay`."""

import json
from collections.abc import Callable

import pytest
from tests.support.nodes import NodeProcess

from relay_client import Relay
from relay_client.command import main

Said = tuple[int, str]
Told = Callable[..., Said]


@pytest.fixture
def told(served: NodeProcess, capsys: pytest.CaptureFixture[str]) -> Told:
    """Runs the command and returns its exit code and standard output."""

    def run(*words: str) -> Said:
        code = main([*words, "--node", served.url])
        return code, capsys.readouterr().out

    return run


def test_a_publisher_reviews_a_result(told: Told, served: NodeProcess) -> None:
    offered = json.loads(told("task", "offer", "Count the apples", "--review", "600", "--json")[1])
    proof = (offered["id"], "--token", offered["publisher_token"])
    assert told("task", "result", offered["id"]) == (5, "")
    with Relay(served.url) as worker:
        token = worker.tasks.claim(offered["id"], "counter")["claim_token"]
        worker.tasks.complete(offered["id"], token, {"apples": 2})
        assert told("task", "result", offered["id"], "--wait", "30") == (0, '{"apples": 2}\n')
        assert told("task", "reject", *proof, "Count them all.") == (0, "in_progress\n")
        assert worker.tasks.get(offered["id"]).get("rejection") == "Count them all."
        worker.tasks.complete(offered["id"], token, {"apples": 3})
    assert told("task", "accept", *proof) == (0, "completed\n")
    assert told("task", "result", offered["id"]) == (0, '{"apples": 3}\n')


def test_a_publisher_calls_a_contract_off(told: Told) -> None:
    offered = json.loads(told("task", "offer", "Count the pears", "--json")[1])
    assert told("task", "cancel", offered["id"], "--token", "of-another") == (1, "")
    assert told("task", "cancel", offered["id"], "--token", offered["publisher_token"]) == (0, "canceled\n")
    assert told("task", "result", offered["id"]) == (1, "canceled\n")
