"""How many contracts a client may offer in all. Requests that offered nothing do not count."""

from typing import Any

import pytest

from node.config import Limit, Limits
from tests.support.answers import refused
from tests.support.node_under_test import NodeUnderTest
from tests.tasks.calls import OFFER, TASKS

FOREIGN = "Bitte fasse diesen Bericht über Solaranlagen auf einer Seite zusammen."
BY_MESSAGE = "/api/v1/a2a/tasks"


pytestmark = pytest.mark.settings(client_tasks=2, client_bytes=20_000, limits=Limits(task=Limit(9, 60)))


def message(text: str = "Translate this memo into plain words.", **fields: Any) -> dict[str, Any]:
    return {"message": {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": text}]} | fields}


OFFERS = {
    TASKS: [
        OFFER,
        {"title": "No publisher"},
        OFFER | {"title": FOREIGN},
        OFFER | {"callback_url": "http://127.0.0.1/"},
        OFFER | {"description": "a word " * 2857},
    ],
    BY_MESSAGE: [
        message(),
        {},
        message(FOREIGN),
        message(metadata={"title": "two\nlines"}),
        message("a word " * 2857),
    ],
}
"""An offer, followed by some that are refused; the last one for its size."""


@pytest.mark.parametrize("path", OFFERS)
async def test_offers_that_are_refused_leave_the_total_as_it_was(node: NodeUnderTest, path: str) -> None:
    good, *bad = OFFERS[path]
    for body in bad:
        assert (await node.client.post(path, json=body)).status_code in {400, 422, 429}
    offered = [await node.client.post(path, json=good) for _ in range(3)]
    assert [response.status_code // 100 for response in offered] == [2, 2, 4]
    assert (await node.client.post(TASKS, json=OFFER)).headers["x-error-code"] == "quota.task"


@pytest.mark.parametrize("path", OFFERS)
async def test_an_offer_that_is_answered_again_counts_once(node: NodeUnderTest, path: str) -> None:
    key = {"idempotency-key": "k"}
    first = await node.client.post(path, json=OFFERS[path][0], headers=key)
    again = await node.client.post(path, json=OFFERS[path][0], headers=key)
    assert (again.json(), again.headers["idempotency-replayed"]) == (first.json(), "true")
    assert (await node.client.post(TASKS, json=OFFER)).status_code == 201
    assert refused(await node.client.post(TASKS, json=OFFER)) == (429, "quota.task")


async def test_an_offer_that_is_refused_keeps_its_place_in_the_rate(node: NodeUnderTest) -> None:
    answers = [await node.client.post(TASKS, json={}) for _ in range(10)]
    assert [response.status_code for response in answers] == [422] * 9 + [429]
    assert refused(answers[-1]) == (429, "limit.exceeded")
