"""`relay-node verify` trusts a proof, and no node."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from node.admin.verify import verdict_of
from node.cli import main
from node.sign.keys import PublicKey
from node.sign.proof import proof_of
from node.sign.request import Verified
from node.sign.signature_base import PublicAddress
from tests.board.signed_posts import BOARD, OFFER, OTHER_KEY, QUESTION, TASKS, send, signed
from tests.sign.signing import COVERED, PUBLIC, Signed, sign
from tests.support.node_under_test import NodeUnderTest, until


async def verified(record: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, Any]:
    """Return exit status and verdicts for a record in a file."""
    file = tmp_path / "record.json"
    file.write_text(json.dumps(record))
    capsys.readouterr()
    status = await asyncio.to_thread(main, ["verify", str(file), "--json"])
    return status, json.loads(capsys.readouterr().out)


async def thread_with_replies(node: NodeUnderTest) -> dict[str, Any]:
    """Return a signed thread with two replies: one signed by another key, one unsigned."""
    body = QUESTION | {"body": "Who can parse 40 MB of CSV\u202e in a sandbox?"}
    thread = (await send(node, signed(BOARD, body))).json()
    replies = f"{BOARD}/{thread['id']}/replies"
    await send(node, signed(replies, {"body": "I can help you", "author": ""}, OTHER_KEY))
    await node.client.post(replies, json={"body": "So can I, for a price"})
    return (await node.client.get(f"{BOARD}/threads/{thread['id']}")).json()


async def test_each_post_of_a_thread_gets_its_verdict(
    node: NodeUnderTest, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    thread = await thread_with_replies(node)
    status, verdicts = await verified(thread, tmp_path, capsys)
    assert status == 0
    assert [(each["kind"], each["outcome"]) for each in verdicts] == [
        ("thread", "signed"),
        ("reply", "signed"),
        ("reply", "unsigned"),
    ]
    assert (verdicts[0]["thumbprint"], verdicts[0]["did"]) == (PUBLIC.thumbprint, PUBLIC.did)
    assert verdicts[0]["sent_to"] == f"node.example{BOARD}"
    assert verdicts[1]["thumbprint"] != PUBLIC.thumbprint


async def test_people_read_a_line_for_each_post(
    node: NodeUnderTest, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    thread = await thread_with_replies(node)
    thread["replies"][0]["body"] += " not"
    file = tmp_path / "thread.json"
    file.write_text(json.dumps(thread))
    assert await asyncio.to_thread(main, ["verify", str(file)]) == 1
    post, first, second = capsys.readouterr().out.splitlines()
    assert post.startswith(f"thread {thread['id']}: signed by {PUBLIC.thumbprint} (did:key:z6Mk")
    assert first == f"reply {thread['replies'][0]['id']}: NOT what was signed: the body is not what was signed"
    assert second.endswith(": unsigned")


OBEYED = [*map(chr, (*range(0x20), *range(0x7F, 0xA0))), *"\u061c\u200e\u200f\u202a\u202e\u2066\u2069\u2028\u2029"]
"""Characters that could control a terminal: the control characters of both sets, direction marks, line separators."""


@pytest.mark.parametrize("outcome", ["unsigned", "false", "signed"])
async def test_nothing_that_another_node_says_moves_a_terminal(
    node: NodeUnderTest, tmp_path: Path, capsys: pytest.CaptureFixture[str], outcome: str
) -> None:
    said = "before" + "".join(OBEYED) + "\x1b]0;title\x07after"
    record: dict[str, Any] = {"id": said, "title": said, "body": said, "author": said}
    if outcome == "false":
        record |= {"signature": {said: said, "key": said, "input": said, "base": said}, "is_signed": True}
    if outcome == "signed":
        record = (await send(node, signed(BOARD, QUESTION))).json() | {"id": said}
    status, (verdict,) = await verified(record, tmp_path, capsys)
    assert (verdict["id"], verdict["outcome"]) == (said, outcome)
    file = str(tmp_path / "record.json")
    for form in ([file, "--json"], [file]):
        assert await asyncio.to_thread(main, ["verify", *form]) == status
        shown = capsys.readouterr().out
        assert [character for character in OBEYED if character in shown.replace("\n", "")] == []
    assert shown.count("\n") == 1
    assert shown.startswith("thread before")


async def test_what_a_node_changed_is_found_out(node: NodeUnderTest) -> None:
    thread = await thread_with_replies(node)
    reply = thread["replies"][0]
    unsigned = thread["replies"][1]
    for changed in (
        thread | {"title": "Looking for a TSV parser"},
        thread | {"author": None},
        thread | {"author": "tsv"},
        thread | {"is_signed": False},
        thread | {"signature": None},
        thread | {"signature": reply["signature"]},
        thread | {"signature": {"key": 7}},
        thread | {"signature": "nonsense"},
    ):
        assert verdict_of("thread", changed).outcome == "false", changed
    for changed in (
        reply | {"thread_id": unsigned["id"]},  # shown under another thread than the one it was signed for
        reply | {"author": "somebody"},
        unsigned | {"signature": reply["signature"], "is_signed": True},
        unsigned | {"is_signed": True},
    ):
        assert verdict_of("reply", changed).outcome == "false", changed
    assert verdict_of("reply", reply).outcome == "signed"


async def test_a_reply_that_was_moved_to_another_thread_is_found_out(
    node: NodeUnderTest, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = await thread_with_replies(node), await thread_with_replies(node)
    status, verdicts = await verified(second | {"replies": first["replies"]}, tmp_path, capsys)
    assert (status, [each["outcome"] for each in verdicts]) == (1, ["signed", "false", "unsigned"])


async def test_a_false_post_counts_more_than_one_that_cannot_be_checked(
    node: NodeUnderTest, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = await thread_with_replies(node)
    del record["replies"][0]["signature"]["signed_body"]
    status, verdicts = await verified(record, tmp_path, capsys)
    assert (status, [each["outcome"] for each in verdicts]) == (3, ["signed", "withheld", "unsigned"])
    status, verdicts = await verified(record | {"title": "Another"}, tmp_path, capsys)
    assert (status, [each["outcome"] for each in verdicts]) == (1, ["false", "withheld", "unsigned"])


async def test_a_post_whose_body_is_not_public_can_neither_be_shown_true_nor_false(
    node: NodeUnderTest, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    task = (await send(node, signed(TASKS, OFFER | {"idempotency_key": "secret"}))).json()
    assert (task["is_signed"], "signed_body" in task["signature"]) == (True, False)
    status, (verdict,) = await verified(task, tmp_path, capsys)
    assert (status, verdict["outcome"], verdict["thumbprint"]) == (3, "withheld", PUBLIC.thumbprint)
    assert await asyncio.to_thread(main, ["verify", str(tmp_path / "record.json")]) == 3
    assert capsys.readouterr().out == (
        f"task {task['id']}: cannot be checked: "
        "the node withholds the signed body, as it contains a callback address or a key\n"
    )


async def test_a_post_whose_signature_is_not_public_cannot_be_checked(
    node: NodeUnderTest, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = "a-long-secret-of-the-author"
    request = signed("/api/v1/board", QUESTION, more={"idempotency-key": key})
    status, (verdict,) = await verified((await send(node, request)).json(), tmp_path, capsys)
    assert (status, verdict["outcome"]) == (3, "withheld")
    assert "header" in verdict["reason"]


async def test_without_its_body_a_proof_is_still_that_of_its_path_and_key(
    node: NodeUnderTest, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    thread = await thread_with_replies(node)
    for record in (thread, thread["replies"][0]):
        del record["signature"]["signed_body"]
    assert verdict_of("thread", thread).outcome == "withheld"
    assert verdict_of("reply", thread["replies"][0]).outcome == "withheld"
    for changed in (
        {"is_signed": False},
        {"signature": thread["replies"][0]["signature"]},
        {"signature": thread["signature"] | {"key": PublicKey(bytes(OTHER_KEY.verify_key)).x}},
    ):
        assert verdict_of("thread", thread | changed).outcome == "false", changed
    thread["replies"][0]["thread_id"] = "another"
    status, verdicts = await verified(thread["replies"][0], tmp_path, capsys)
    assert (status, [each["outcome"] for each in verdicts]) == (1, ["false"])


async def test_a_signature_that_covers_no_body_proves_no_post(node: NodeUnderTest) -> None:
    thread = await thread_with_replies(node)
    bare = sign(("@method", "@authority", "@path", "signature-key"), request=Signed(body=b"")).judged()
    assert isinstance(bare, Verified)
    proof = msgspec.to_builtins(proof_of(bare, b"", ()))
    assert verdict_of("thread", thread | {"signature": proof}).outcome == "false"


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"description": None},
        {"title": "  Parse a table "},
        {"lease_seconds": 60, "require_proof": True},
        {"skills": []},
    ],
    ids=["plain", "without description", "padded title", "with lease", "without skills"],
)
async def test_a_task_is_verified(node: NodeUnderTest, changed: dict[str, Any]) -> None:
    task = (await send(node, signed(TASKS, OFFER | changed))).json()
    stored = (await node.client.get(f"{TASKS}/{task['id']}")).json()
    assert verdict_of("task", stored).outcome == "signed"
    assert verdict_of("task", stored | {"publisher_id": "other"}).outcome == "false"
    assert verdict_of("task", stored | {"lease_seconds": 3600}).outcome == "false"


async def test_what_a_node_changed_of_the_conditions_of_a_task_is_found_out(node: NodeUnderTest) -> None:
    conditions = {
        "skills": ["writing", "speaking", "writing"],
        "max_attempts": 3,
        "retry_seconds": 60,
        "deadline": "2099-12-31T23:59:59.9996+01:00",
        "review_seconds": 3600,
        "result_schema": {"type": "object", "required": ["memo"]},
    }
    task = (await send(node, signed(TASKS, OFFER | conditions))).json()
    assert verdict_of("task", task).outcome == "signed"
    for name in conditions.keys() - {"result_schema"}:
        assert verdict_of("task", {key: task[key] for key in task if key != name}).outcome == "false", name
    for changed in (
        {"skills": ["writing"]},
        {"max_attempts": 1},
        {"retry_seconds": 61},
        {"deadline": "2098-12-31T23:00:00.000Z"},
        {"review_seconds": 1},
        {"result_schema": {"type": "object"}},
    ):
        assert verdict_of("task", task | changed).outcome == "false", changed


@pytest.mark.parametrize(
    "odd",
    [{"skills": [{"a": 1}]}, {"skills": [1, "a"]}, {"deadline": "0001-01-01T00:00:00"}, {"deadline": 7}],
    ids=["no words", "mixed", "before all time", "no text"],
)
def test_what_no_node_takes_may_have_been_signed(odd: dict[str, Any]) -> None:
    record = record_of(OFFER | odd)
    assert verdict_of("task", record).outcome == "signed"
    assert verdict_of("task", record | dict.fromkeys(odd)).outcome == "false"


def test_the_inputs_of_a_task_are_those_that_were_signed() -> None:
    record = record_of(OFFER | {"input_artifact_ids": ["a", "b"]})
    assert verdict_of("task", record).outcome == "signed"
    assert verdict_of("task", record | {"input_artifact_ids": ["a", "c"]}).outcome == "false"


def test_a_signature_of_the_whole_address_says_where_and_when_a_post_was_sent() -> None:
    covered = ("@method", "@target-uri", *COVERED[3:])
    verdict = verdict_of("task", record_of(OFFER, covered))
    assert (verdict.outcome, verdict.reason, verdict.sent_to) == ("signed", "", f"https://node.example{TASKS}")
    assert verdict.signed_at == "2026-01-01T00:00:00.000Z"
    assert verdict_of("task", record_of(OFFER, covered, path=BOARD)).outcome == "false"


def test_a_post_that_was_signed_for_no_address_is_false() -> None:
    """One record that cannot be judged must not hide the verdicts on the other posts."""
    record = record_of(OFFER, ("@method", "@target-uri", *COVERED[3:]), host="[")
    verdict = verdict_of("task", record)
    assert (verdict.outcome, verdict.reason) == ("false", "it was signed for an address that cannot be read")


def record_of(
    offer: dict[str, Any], covered: Sequence[str] = COVERED, path: str = TASKS, host: str = "node.example"
) -> dict[str, Any]:
    """Return the record that a node without any rules would make of a signed offer."""
    request = sign(covered, request=Signed(path=path, body=json.dumps(offer).encode()), extra={"host": host})
    found = request.judged(address=PublicAddress.parse(f"https://{host}"))
    assert found
    proof: dict[str, Any] = msgspec.to_builtins(proof_of(found, request.body, offer))
    return {"input_artifact_ids": [], **offer, "id": "t", "is_signed": True, "signature": proof}


async def test_a_task_in_a_list_lacks_a_condition_and_is_not_called_false(node: NodeUnderTest) -> None:
    task = (await send(node, signed(TASKS, OFFER | {"result_schema": {"type": "object"}}))).json()

    async def listed() -> list[dict[str, Any]]:
        return (await node.client.get(TASKS, params={"status": "offered"})).json()["tasks"]

    await until(listed)
    [record] = await listed()
    assert (record["id"], "result_schema" in record) == (task["id"], False)
    verdict = verdict_of("task", record)
    assert (verdict.kind, verdict.id, verdict.outcome) == ("task", task["id"], "withheld")
    assert verdict.reason == "the record has no result_schema, as in a list of tasks"


def test_verify_needs_no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RELAY_PORT", "eighty")
    file = tmp_path / "thread.json"
    file.write_text('{"id": "t", "title": "t", "is_signed": false, "signature": null}')
    assert main(["verify", str(file)]) == 0
