"""12. A refusal has one sentence that says what to do, and a code that programs can rely on."""

from tests.support.node_under_test import NodeUnderTest


async def test_text_that_is_not_english_is_refused_with_a_sentence_and_a_code(node: NodeUnderTest) -> None:
    response = await node.client.post("/api/v1/relay", json={"message": "¿Quién puede leer este informe tan largo?"})
    assert response.status_code == 400
    assert list(response.json()) == ["error"]
    assert "plain English (en-US)" in response.json()["error"]
    assert response.headers["x-error-code"] == "language.not_english"


async def test_a_wrong_field_is_named(node: NodeUnderTest) -> None:
    response = await node.client.post("/api/v1/sessions", json={"ttl_seconds": 5})
    assert response.status_code == 422
    assert response.json()["detail"][0]["loc"] == ["body", "ttl_seconds"]
