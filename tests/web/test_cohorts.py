"""Requests in step with each other are answered as those that come one by one."""

import asyncio
from typing import Any, cast

import pytest

from node.common import cohort
from node.common.cohort import COHORT, MIN_COHORT, STAGES
from node.config import Limit, Limits
from tests.support.answers import json_of
from tests.support.node_under_test import NodeUnderTest

CLIENTS = 8
WRITES: dict[str, tuple[str, dict[str, Any], int]] = {
    "relay": ("/api/v1/relay", {"message": "The night train is late again."}, 200),
    "wire": ("/api/v1/wire/stream", {"message": "The night train is late again."}, 200),
    "board": ("/api/v1/board", {"title": "The night train", "body": "It is late again."}, 201),
    "message": (
        "/api/v1/message:send",
        {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "The night train is late."}]}},
        200,
    ),
    "task": ("/api/v1/tasks", {"publisher_id": "agent-1", "title": "Translate a memo"}, 201),
}


def shape(value: object) -> object:
    """Return a value with the names of its types in place of what differs between two equal requests."""
    match value:
        case dict():
            return {name: shape(each) for name, each in cast("dict[str, object]", value).items()}
        case list():
            return [shape(each) for each in cast("list[object]", value)]
        case _:
            return type(value).__name__


@pytest.mark.parametrize("write", WRITES)
async def test_each_of_a_cohort_is_answered_like_a_request_that_comes_alone(node: NodeUnderTest, write: str) -> None:
    path, body, status = WRITES[write]
    alone = json_of(await node.client.post(path, json=body), status)
    COHORT.begin(MIN_COHORT)
    clients = [node.client_at(f"198.51.100.{number}") for number in range(CLIENTS)]
    answers = await asyncio.gather(*(client.post(path, json=body) for client in clients))
    found = [json_of(answer, status) for answer in answers]
    assert [shape(answer) for answer in found] == [shape(alone)] * CLIENTS
    assert len({str(answer) for answer in found}) == CLIENTS
    assert len({answer.headers["x-request-id"] for answer in answers}) == CLIENTS


class Passes:
    """A cohort in step that counts how often a request waits for the others."""

    waits = 0

    @property
    def in_step(self) -> bool:
        self.waits += 1
        return True


@pytest.mark.parametrize(
    ("write", "stages"), [("relay", STAGES), ("board", STAGES), ("message", STAGES), ("task", STAGES - 1)]
)
async def test_a_request_waits_after_each_of_its_stages(
    node: NodeUnderTest, monkeypatch: pytest.MonkeyPatch, write: str, stages: int
) -> None:
    passes = Passes()
    monkeypatch.setattr(cohort, "COHORT", passes)
    path, body, status = WRITES[write]
    json_of(await node.client.post(path, json=body), status)
    assert passes.waits == stages


async def test_each_of_a_cohort_is_judged_for_itself(node: NodeUnderTest) -> None:
    COHORT.begin(MIN_COHORT)
    texts = ["The night train is late again.", "Der Nachtzug hat wieder einmal Verspätung."] * 3
    clients = [node.client_at(f"198.51.100.{number}") for number in range(len(texts))]
    answers = await asyncio.gather(
        *(client.post("/api/v1/relay", json={"message": text}) for client, text in zip(clients, texts, strict=True))
    )
    assert [answer.status_code for answer in answers] == [200, 400] * 3
    assert {answer.headers.get("x-error-code") for answer in answers} == {None, "language.not_english"}


@pytest.mark.settings(limits=Limits(relay=Limit(3, 60)))
async def test_a_cohort_of_one_client_gets_as_many_answers_as_its_limit(node: NodeUnderTest) -> None:
    COHORT.begin(MIN_COHORT)
    answers = await asyncio.gather(
        *(node.client.post("/api/v1/relay", json={"message": f"Train number {n} is late."}) for n in range(CLIENTS))
    )
    assert sorted(answer.status_code for answer in answers) == [200] * 3 + [429] * (CLIENTS - 3)
