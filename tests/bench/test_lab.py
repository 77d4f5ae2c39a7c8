"""How a scenario's measurements are taken, on servers that acknowledge everything."""

import pytest

from bench import lab
from bench.client import request
from bench.entities import in_turn
from bench.lab import Lab, Options
from bench.result import Results
from bench.server import given
from tests.bench.stand_in import stand_in


async def test_what_is_compared_runs_for_as_long_in_more_and_shorter_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    # Not shorter: a run in which a busy machine answered nothing is invalid.
    monkeypatch.setattr(lab, "COMPARED_SECONDS", 1.0)
    async with stand_in() as one, stand_in() as other:
        pairs = [(given(f"http://127.0.0.1:{server.port}"), in_turn([request("GET", "/")])) for server in (one, other)]
        options = Options(warmup=0, connections=2, seconds=2.0, runs=1)
        rows = await Lab("relay", options, Results(taken="today", arguments=[], machine={})).side_by_side(
            pairs, "ceiling"
        )
    assert [len(row.figures["requests_per_s"].runs) for row in rows] == [2, 2]
