"""Feedback over HTTP, on a real Redis (SPEC 4.7)."""

from typing import Any

import pytest

from node.feedback.service import Feedback
from node.feedback.store import FeedbackStore
from node.share.site import SITE_SHARE
from tests.support.node_under_test import NodeUnderTest

FEEDBACK = "/api/v1/feedback"
REPORT = {"feedback_text": "The search finds my threads quickly. Thank you.", "category": "general"}


async def test_a_report_is_received(node: NodeUnderTest) -> None:
    response = await node.client.post(FEEDBACK, json=REPORT | {"contact_channel": "ops@example.org"})
    assert response.status_code == 200
    assert response.json()["status"] == "received"
    assert response.json()["feedback_id"]


@pytest.mark.parametrize("length", [10, 2000])
async def test_a_report_has_ten_to_two_thousand_characters(node: NodeUnderTest, length: int) -> None:
    text = ("Good work. " * 200)[:length]
    assert (await node.client.post(FEEDBACK, json={"feedback_text": text})).status_code == 200


@pytest.mark.parametrize(
    "contact",
    [
        "https://agent.example/replies",
        "@planner on the board",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFdq planner",
        "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAJrQLj5P/89iXES9+vFgrIy29clF9CC8=\n-----END PUBLIC KEY-----\n",
        "-----BEGIN PUBLIC KEY-----\r\nMCowBQYDK2VwAyEA\r\n-----END PUBLIC KEY-----\r\n",
        "-----BEGIN PUBLIC KEY-----\n" + 12 * f"{64 * 'A'}\n" + "-----END PUBLIC KEY-----\n",
    ],
)
async def test_the_operators_can_answer_by_any_of_the_channels(node: NodeUnderTest, contact: str) -> None:
    response = await node.client.post(FEEDBACK, json=REPORT | {"contact_channel": contact})
    assert response.status_code == 200
    [kept] = [report async for report in Feedback(FeedbackStore(node.store, 60)).reports()]
    assert kept.contact_channel == contact


async def test_a_second_report_within_the_hour_is_refused(node: NodeUnderTest) -> None:
    await node.client.post(FEEDBACK, json=REPORT)
    response = await node.client.post(FEEDBACK, json=REPORT)
    assert response.status_code == 429
    assert 3000 <= int(response.headers["retry-after"]) <= 3600
    other = await node.client_at("203.0.113.99").post(FEEDBACK, json=REPORT)
    assert other.status_code == 200


async def test_one_site_does_not_push_out_the_reports_of_others(node: NodeUnderTest) -> None:
    clients = [node.client_at(f"2001:db8:1:{number:x}::1") for number in range(SITE_SHARE + 2)]
    answers = [await each.post(FEEDBACK, json=REPORT) for each in clients]
    assert [answer.status_code for answer in answers] == [200] * SITE_SHARE + [429] * 2
    assert 3000 <= int(answers[-1].headers["retry-after"]) <= 3600
    assert (await node.client_at("2001:db8:2::1").post(FEEDBACK, json=REPORT)).status_code == 200


async def test_all_that_is_wrong_is_told_at_once(node: NodeUnderTest) -> None:
    wrong = {"feedback_text": "Hola, necesito ayuda con este documento", "contact_channel": "two\rlines"}
    response = await node.client.post(FEEDBACK, json=wrong)
    assert response.status_code == 422
    assert {issue["loc"][1] for issue in response.json()["detail"]} == set(wrong)


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"feedback_text": "too short"}, "feedback_text"),
        ({"feedback_text": "short" + "\u200b" * 9}, "feedback_text"),
        ({"feedback_text": "short" + " " * 9}, "feedback_text"),
        ({"feedback_text": "x" * 2001}, "feedback_text"),
        ({"feedback_text": "\u200b" * 10}, "feedback_text"),
        ({"contact_channel": "ops\u200b@example.org"}, "contact_channel"),
        ({"category": "praise"}, "category"),
        ({"contact_channel": 5}, "contact_channel"),
    ],
)
async def test_a_bad_field_is_named_and_costs_nothing(node: NodeUnderTest, changed: dict[str, Any], field: str) -> None:
    response = await node.client.post(FEEDBACK, json=REPORT | changed)
    assert response.status_code == 422
    assert response.json()["detail"][0]["loc"] == ["body", field]
    assert (await node.client.post(FEEDBACK, json=REPORT)).status_code == 200


async def test_a_report_that_is_not_english_is_refused(node: NodeUnderTest) -> None:
    text = "La recherche est très rapide, merci beaucoup à toute l'équipe."
    response = await node.client.post(FEEDBACK, json={"feedback_text": text})
    assert response.status_code == 400


async def test_a_retried_report_is_kept_once_within_the_limit(node: NodeUnderTest) -> None:
    key = {"idempotency-key": "report"}
    first = await node.client.post(FEEDBACK, json=REPORT, headers=key)
    again = await node.client.post(FEEDBACK, json=REPORT, headers=key)
    assert again.json() == first.json()
    assert again.headers["idempotency-replayed"] == "true"


async def test_a_retried_report_is_answered_while_another_is_refused(node: NodeUnderTest) -> None:
    key = {"idempotency-key": "report"}
    first = await node.client.post(FEEDBACK, json=REPORT, headers=key)
    assert (await node.client.post(FEEDBACK, json=REPORT)).status_code == 429
    again = await node.client.post(FEEDBACK, json=REPORT, headers=key)
    assert (again.status_code, again.json()) == (200, first.json())
    other = await node.client.post(FEEDBACK, json=REPORT | {"category": "bug"}, headers=key)
    assert (other.status_code, other.json()["detail"][0]["loc"]) == (422, ["header", "Idempotency-Key"])
