"""The answer to a request repeated with its Idempotency-Key, wherever its callback_url leads by then."""

from typing import Any

import msgspec
import pytest

from node.config import Networks
from tests.board.calls import BOARD, QUESTION
from tests.support.node_under_test import NodeUnderTest, running
from tests.tasks.calls import OFFER, TASKS

WATCHED = {"callback_url": "https://93.184.216.34/hook"}


@pytest.mark.parametrize(
    ("path", "body"),
    [(BOARD, QUESTION), (TASKS, OFFER), ("/api/v1/sessions", {}), ("/api/v1/inboxes", {})],
)
async def test_a_receiver_that_may_not_be_called_any_more_changes_no_answer(
    node: NodeUnderTest, path: str, body: dict[str, Any]
) -> None:
    key = {"idempotency-key": "a-key-of-some-length"}
    first = await node.client.post(path, json=body | WATCHED, headers=key)
    assert first.status_code == 201, first.text
    networks = Networks.parse("93.184.216.0/24")
    async with running(msgspec.structs.replace(node.settings, callback_refused_networks=networks)) as stricter:
        again = await stricter.client.post(path, json=body | WATCHED, headers=key)
        assert (again.status_code, again.json()) == (201, first.json())
        assert again.headers["idempotency-replayed"] == "true"
        for other in ({}, {"idempotency-key": "another-key-of-some-length"}):
            refused = await stricter.client.post(path, json=body | WATCHED, headers=other)
            assert refused.json()["detail"][0]["type"] == "callback_private"
