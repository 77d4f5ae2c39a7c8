"""Every field of an operation can be set by the command for that operation."""

import json
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from tests.support.nodes import NodeProcess

from relay_client import Relay
from relay_client.agents import Agents, card
from relay_client.artifacts import Artifacts
from relay_client.command import main, parser
from relay_client.inboxes import Inboxes
from relay_client.messages import Messages
from relay_client.resource import Operation
from relay_client.sealing import SealFile
from relay_client.tasks import Tasks

CALLBACK = "https://agent.example/callbacks"
OPTIONS = {
    "artifact_ids": "artifact",
    "assignee_id": "name",
    "body": "text",
    "callback_url": "callback",
    "contacts": "contact",
    "expires_in": "expires",
    "input_artifact_ids": "artifact",
    "lease_seconds": "lease",
    "max_attempts": "attempts",
    "media_type": "type",
    "message": "text",
    "public": "private",
    "publisher_id": "publisher",
    "publisher_ids": "publisher",
    "publisher_token": "token",
    "result_schema": "schema",
    "retry_seconds": "retry",
    "review_seconds": "review",
    "skills": "skill",
    "task_id": "id",
    "agent_id": "id",
    "ttl_seconds": "ttl",
}
"""Options and arguments whose name differs from the field that they set, by field."""

OTHERWISE = {
    Tasks.offer: {"require_proof"},  # always set: the command shows the token that serves as proof
    Tasks.list: {"offset", "since"},  # for programs that page or follow
    Messages.send: {"hello", "language"},  # one value at most makes sense
    Inboxes.send: {"address", "ciphertext"},  # --to names the address; only programs seal messages
    Artifacts.register: {"byte_size", "digest_sha256"},  # computed from the file
}
"""Fields that have no option, by operation."""


@pytest.mark.parametrize(
    ("words", "operation"),
    [
        ("send text", Messages.send),
        ("send text --to address", Inboxes.send),
        ("ask address text", Inboxes.send),
        ("inbox open", Inboxes.open),
        ("inbox close", Inboxes.close),
        ("task offer title", Tasks.offer),
        ("task accept id", Tasks.accept),
        ("task reject id reason", Tasks.reject),
        ("task cancel id", Tasks.cancel),
        ("task retry id", Tasks.retry),
        ("task list", Tasks.list),
        ("task find query", Tasks.search),
        ("task work --exec cat", Tasks.claim_next),
        ("agents find query", Agents.search),
        ("agents register", Agents.register),
        ("agents remove id", Agents.remove),
        ("artifact put file", Artifacts.register),
    ],
)
def test_every_field_of_an_operation_has_an_option(words: str, operation: "Operation[..., Any]") -> None:
    fields = signature(operation.build).parameters.keys() - {"self", "key", "wait"} - OTHERWISE.get(operation, set())
    assert {OPTIONS.get(field, field) for field in fields} <= vars(parser().parse_args(words.split())).keys()


def shown(node: NodeProcess, capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    """Run the command with --json, and return its output."""
    assert main([*words, "--node", node.url, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_contract_is_offered_with_all_that_it_may_have(
    served: NodeProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    conditions = ("--attempts", "2", "--retry", "60", "--lease", "30", "--callback", CALLBACK)
    offered = shown(served, capsys, "task", "offer", "Count the plums in this picture", *conditions)
    assert (offered["retry_seconds"], offered["max_attempts"], offered["lease_seconds"]) == (60, 2, 30)
    with Relay(served.url) as relay:
        claim = relay.tasks.claim(offered["id"], "careless")
        failed = relay.tasks.fail(offered["id"], claim["claim_token"], "lost", retryable=False)
        assert failed["status"] == "failed"
    again = shown(served, capsys, "task", "retry", offered["id"], "--token", offered["publisher_token"])
    assert again["status"] == "offered"
    assert shown(served, capsys, "task", "cancel", offered["id"], "--token", offered["publisher_token"])


def test_contracts_are_listed_by_their_status_and_offers_by_skill_and_publisher(
    served: NodeProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    with Relay(served.url) as relay:
        ids = [relay.tasks.offer("orchard", f"Count the pears of row {row}", skills=["pears"])["id"] for row in (1, 2)]
        other = relay.tasks.offer("orchard", "Count the quinces of row 1", skills=["quinces"])["id"]

    def listed(*words: str) -> list[str]:
        assert main(["task", "list", *words, "--node", served.url]) == 0
        return [line.split()[0] for line in capsys.readouterr().out.splitlines()]

    assert listed("--skill", "pears") == ids[::-1]
    assert listed("--publisher", "orchard") == [other, *ids[::-1]]
    assert listed("--publisher", "orchard", "--limit", "1") == [other]
    with Relay(served.url) as relay:
        claimed = relay.tasks.claim(other, "counter")
        relay.tasks.complete(other, claimed["claim_token"])
    assert listed("--status", "completed")[0] == other
    assert other not in listed()


def test_what_became_of_a_message_is_told_to_whoever_has_its_receipt_token(
    served: NodeProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    """Regression: when its time was over, `relay ask` showed the receipt token, but no command accepted it."""
    with Relay(served.url) as relay:
        opened = relay.inboxes.open()
        assert main(["ask", opened["a2a_url"], "Are you there?", "--wait", "0.2", "--node", served.url]) == 5
        asked = ["receipt", *capsys.readouterr().err.partition("relay receipt ")[2].split()[:4], "--node", served.url]
        assert main(asked) == 5
        relay.inboxes.settle(opened["address"], asked[2], opened["inbox_token"], reply="Yes.")
    assert (main([*asked, "--wait", "5"]), capsys.readouterr().out) == (0, "Yes.\n")


def test_an_inbox_is_opened_and_changed_with_all_that_it_may_have(
    served: NodeProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "card.json").write_text(json.dumps(card("Plum desk", "Counts plums.", {"count": "Counts plums."})))
    key = SealFile(tmp_path / "seal.key").public
    settings = ("--ttl", "120", "--encryption-key", key, "--callback", CALLBACK)
    opened = shown(served, capsys, "inbox", "open", *settings, "--card", str(tmp_path / "card.json"))
    with Relay(served.url) as relay:
        assert relay.inboxes.get(opened["address"])["encryption_key"] == key
        assert relay.agents.get(opened["agent_id"])["name"] == "Plum desk"
        renew = ("inbox", "open", "--token", opened["inbox_token"], "--clear", "encryption_key", "--rotate")
        renewed = shown(served, capsys, *renew)
        assert renewed["inbox_token"] != opened["inbox_token"]
        assert relay.inboxes.get(opened["address"])["encryption_key"] is None
    removed = shown(served, capsys, "agents", "remove", opened["agent_id"], "--token", renewed["inbox_token"])
    assert removed["id"] == opened["agent_id"]
    early = shown(served, capsys, "send", "Are these plums?", "--to", opened["address"], "--expires", "30")
    late = shown(served, capsys, "send", "Are these plums?", "--to", opened["address"])
    assert early["expires_at"] < late["expires_at"]


def test_a_relayed_message_has_an_author_and_no_option_is_ignored(
    served: NodeProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    """Regression: `relay send --subject` relayed the message without its subject."""
    sent = shown(served, capsys, "send", "Who can count the plums on this tree?", "--author", "plum desk")
    with Relay(served.url) as relay:
        assert relay.board.get(sent["reference_id"])["author"] == "plum desk"
    for words in (("--subject", "plums"), ("--artifact", "1"), ("--to", "address", "--callback", CALLBACK)):
        assert main(["send", "Who can count the plums on this tree?", "--node", served.url, *words]) == 2
        assert f"{words[-2]} is for a message to" in capsys.readouterr().err


def test_bytes_from_a_pipe_have_the_name_that_is_given(
    served: NodeProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bytes").write_text("id,name\n1,Ada\n")
    stored = shown(served, capsys, "artifact", "put", str(tmp_path / "bytes"), "--filename", "people.csv")
    assert (stored["filename"], stored["media_type"]) == ("people.csv", "text/csv")


def test_a_name_that_no_file_can_have_is_replaced_by_the_id(
    served: NodeProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: the command ended with an error, although the user had named no file."""
    monkeypatch.chdir(tmp_path)
    with Relay(served.url) as relay:
        stored = relay.artifacts.upload(b"id,name\n1,Ada\n", "desk", filename="é" * 150 + ".csv")
    saved = shown(served, capsys, "artifact", "get", stored["id"])
    assert (saved["file"], [each.name for each in tmp_path.iterdir()]) == (stored["id"], [stored["id"]])
