"""The documents that describe the node exist, are true, and are not sent again if unchanged."""

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV30SpecValidator

from node.config import Limit, Limits, Settings
from node.describe import discovery
from node.describe.discovery import LISTED
from node.describe.examples import body_of
from node.describe.implied import described, types_of
from node.describe.operations import limits
from node.sign.node_key import NodeKey
from node.text.payload import payload_is_english
from node.web.errors import CATALOGUE
from node.web.json_schema import Schemas
from tests.describe.routes import feature_routes
from tests.support.node_under_test import NodeUnderTest

PATHS = [path for path, _, _ in LISTED]
SETTINGS = Settings(base_url="http://node.example")


@pytest.fixture
def overrides(tmp_path: Path) -> dict[str, Any]:
    """Keep the bytes of artifacts in a data directory of the test's own."""
    return {"data_dir": tmp_path, "blob_reserve": 0}


async def text_of(node: NodeUnderTest, path: str) -> str:
    answer = await node.client.get(path)
    assert answer.status_code == 200
    return answer.text


def full_text(settings: Settings = SETTINGS) -> str:
    return discovery.full_text(described(feature_routes()), settings)


async def test_a_document_is_sent_once_and_then_confirmed(node: NodeUnderTest) -> None:
    for path in PATHS:
        first = await node.client.get(path)
        assert first.status_code == 200, path
        assert "max-age" in first.headers["cache-control"], path
        again = await node.client.get(path, headers={"if-none-match": f'"other", W/{first.headers["etag"]}'})
        assert (again.status_code, again.content) == (304, b""), path
        assert again.headers["etag"] == first.headers["etag"], path
        changed = await node.client.get(path, headers={"if-none-match": '"other"'})
        assert changed.content == first.content, path


async def test_the_description_says_which_answers_are_not_sent_twice(node: NodeUnderTest) -> None:
    paths = (await node.client.get("/openapi.json")).json()["paths"]
    inbox = (await node.client.post("/api/v1/inboxes")).json()
    ids = {"{name}": "worker", "{address}": inbox["address"]}
    told, sent = set[str](), set[str]()
    for path, methods in paths.items():
        found = methods.get("get")
        if found is None or "text/event-stream" in str(found["responses"]):  # a stream has no end
            continue
        if "304" in found["responses"]:
            told.add(path)
            assert {"$ref": "#/components/parameters/If-None-Match"} in found["parameters"]
            assert "ETag" in found["responses"]["200"]["headers"]
        answer = await node.client.get(re.sub(r"{\w+}", lambda name: ids.get(name[0], "none"), path))
        if answer.status_code == 200 and "etag" in answer.headers:
            sent.add(path)
            for status in ("200", "304"):
                described_date = "Last-Modified" in found["responses"][status]["headers"]
                assert described_date == ("last-modified" in answer.headers), path
        elif answer.status_code == 200 or "{" not in path:
            assert path not in told
    assert sent <= told
    assert {
        "/board",
        "/recipes/{name}",
        "/api/v1/a2a/card",
        "/api/v1/inboxes/{address}/a2a/.well-known/agent-card.json",
    } <= sent


async def test_the_description_says_on_which_pages_searches_are_limited(node: NodeUnderTest) -> None:
    paths = (await node.client.get("/openapi.json")).json()["paths"]
    for path in ("/board", "/agents", "/tasks"):
        counted = {"ratelimit", "ratelimit-policy"} <= (await node.client.get(f"{path}?q=bread")).headers.keys()
        for status in ("200", "304", "default"):
            told = {"RateLimit", "RateLimit-Policy"} <= paths[path]["get"]["responses"][status]["headers"].keys()
            assert told == counted == (path != "/tasks")


async def test_head_tells_of_a_document_without_sending_it(node: NodeUnderTest) -> None:
    for path in PATHS:
        got, head = await node.client.get(path), await node.client.head(path)
        assert (head.status_code, head.content) == (200, b""), path
        assert head.headers["content-type"] == got.headers["content-type"], path


async def test_the_whole_nodes_openapi_document_is_valid(node: NodeUnderTest) -> None:
    document = json.loads(await text_of(node, "/openapi.json"))
    OpenAPIV30SpecValidator(document).validate()
    assert document["openapi"] == "3.0.3"
    assert document["servers"] == [{"url": "http://node.example"}]
    assert await text_of(node, "/openapi-3.0.json") == await text_of(node, "/openapi.json")


async def test_every_described_operation_is_served(node: NodeUnderTest) -> None:
    document = json.loads(await text_of(node, "/openapi.json"))
    for path, methods in document["paths"].items():
        answer = await node.client.patch(re.sub(r"\{\w+\}", "x", path))
        assert answer.status_code == 405
        assert {method.upper() for method in methods} <= set(answer.headers["allow"].split(", ")), path


async def test_schema_json_is_json_schema_of_2020_12(node: NodeUnderTest) -> None:
    document = json.loads(await text_of(node, "/schema.json"))
    Draft202012Validator.check_schema(document)
    thread: Any = Draft202012Validator({"$ref": "#/$defs/NewThread", "$defs": document["$defs"]})
    assert thread.is_valid({"title": "A title", "body": "A body"})
    assert not thread.is_valid({"title": "A title"})
    offer: Any = Draft202012Validator({"$ref": "#/$defs/NewTask", "$defs": document["$defs"]})
    assert offer.is_valid({"publisher_id": "p", "title": "A title", "require_proof": None})


async def test_every_example_of_a_member_fits_its_schema(node: NodeUnderTest) -> None:
    document = json.loads(await text_of(node, "/schema.json"))
    members = [
        (f"{title}.{name}", member)
        for title, definition in document["$defs"].items()
        for name, member in definition.get("properties", {}).items()
        if "examples" in json.dumps(member)
    ]
    assert members
    for place, member in members:
        validator: Any = Draft202012Validator({**member, "$defs": document["$defs"]})
        for variant in (member, *member.get("anyOf", [])):
            assert all(validator.is_valid(example) for example in variant.get("examples", [])), place


async def test_llms_txt_has_the_form_of_llmstxt_org(node: NodeUnderTest) -> None:
    lines = (await text_of(node, "/llms.txt")).splitlines()
    assert lines[0].startswith("# ")
    assert next(line for line in lines[1:] if line).startswith("> ")
    headings = [line for line in lines if line.startswith("#")]
    assert [heading[:3] for heading in headings[1:]] == ["## "] * (len(headings) - 1)
    after = "\n".join(lines).partition("\n## ")[2].splitlines()
    links = [line for line in after if line.startswith("- ")]
    assert links
    for line in links:
        assert re.match(r"- \[[^]]+\]\(http://node\.example/[^)]*\)(: .+)?$", line), line


async def test_every_link_of_llms_txt_leads_somewhere(node: NodeUnderTest) -> None:
    links = set(re.findall(r"\]\(http://node\.example([^)]*)\)", await text_of(node, "/llms.txt")))
    for link in links - {"/mcp/sse"}:  # a stream, which never ends
        answer = await node.client.get(link)
        assert answer.status_code in {200, 405}, link


async def test_the_texts_for_agents_and_for_people_have_every_operation(node: NodeUnderTest) -> None:
    """This includes groups of operations without a title, such as the events."""
    document = json.loads(await text_of(node, "/openapi.json"))
    text = await text_of(node, "/llms-full.txt")
    reference = "".join([await text_of(node, f"/reference/{tag['name']}") for tag in document["tags"]])
    for path, methods in document["paths"].items():
        for verb in map(str.upper, methods):
            assert re.search(rf"^(####|-) {verb} {re.escape(path)}(:|$)", text, re.MULTILINE), (verb, path)
            assert f'<span class="verb">{verb}</span> {path}<' in reference, (verb, path)


def test_llms_full_names_every_operation_with_a_request() -> None:
    text = full_text()
    for route in feature_routes():
        assert f"#### {route.method} {route.path}\n" in text
    assert "curl -sS http://node.example/api/v1/relay -H 'Content-Type: application/json' -d '" in text


async def test_an_operation_names_each_of_its_errors_once(node: NodeUnderTest) -> None:
    lines = [line for line in (await text_of(node, "/llms-full.txt")).splitlines() if line.startswith("Errors: ")]
    assert lines
    for line in lines:
        named = line.removeprefix("Errors: ").removesuffix(".").split(", ")
        assert len(set(named)) == len(named), line


def test_llms_full_lists_the_whole_catalogue_of_errors() -> None:
    errors = full_text().partition("\n## Errors\n")[2].partition("\n## ")[0]
    for code, entry in CATALOGUE.items():
        assert f"| {entry.status} | `{code}` |" in errors


def test_llms_full_tells_the_limits_that_are_set() -> None:
    text = full_text(Settings(limits=Limits(relay=Limit(3, 7), search=Limit(0, 1))))
    assert "| relay | relay messages (POST /api/v1/relay and /api/v1/wire/stream) | 3 in 7 s |" in text
    assert "| search | searches of the board, of contracts and of agents | none |" in text
    assert [row[0] for row in limits(Limits())] == list(Limits.__struct_fields__)


async def test_the_texts_are_tidy(node: NodeUnderTest) -> None:
    for path in ("/llms.txt", "/llms-full.txt", "/robots.txt"):
        text = await text_of(node, path)
        assert "\n\n\n" not in re.sub(r"```.*?```", "code", text, flags=re.DOTALL), path
        assert not re.search(r"[ \t]+$", text, re.MULTILINE), path
        assert "None" not in text, path


async def test_the_requests_of_llms_full_work_as_they_stand(node: NodeUnderTest) -> None:
    for route in feature_routes():
        example = body_of(route, Schemas(types_of([route])))
        if route.method == "POST" and example is not None and "{" not in route.path:
            headers = {header.name: header.example for header in route.required_headers}
            answer = await node.client.post(route.path, json=example, headers=headers)
            assert answer.status_code == route.status, answer.text
            assert answer.headers["content-type"] == "application/json"


async def test_the_bytes_of_the_artifact_example_are_uploaded_as_it_says(node: NodeUnderTest) -> None:
    section = full_text().partition("#### POST /api/v1/artifacts\n")[2]
    register = next(line for line in section.splitlines() if line.startswith("curl "))
    headers = dict(value.split(": ", 1) for value in re.findall(r"-H '([^']+)'", register))
    body = register.partition(" -d '")[2].removesuffix("'")
    artifact = (await node.client.post("/api/v1/artifacts", content=body, headers=headers)).json()
    printf, put, complete = full_text().partition("\n## Artifacts\n")[2].partition("```\n")[2].splitlines()[:3]
    data = printf.partition("'")[2].partition("'")[0].encode().decode("unicode_escape").encode()
    sent = dict([re.findall(r"-H '([^']+)'", put)[0].split(": ", 1)])
    assert sent == artifact["upload_headers"]
    assert (await node.client.put(artifact["upload_url"], content=data, headers=sent)).status_code == 200
    assert "$ID/complete" in complete
    assert (await node.client.post(f"/api/v1/artifacts/{artifact['id']}/complete")).status_code == 202


def test_variables_of_the_shell_stand_where_the_shell_reads_them() -> None:
    for line in full_text().splitlines():
        if line.startswith("curl "):
            assert "$" not in "".join(line.split("'")[1::2]), line


def test_example_answers_show_what_the_operation_answers() -> None:
    def answer(operation: str) -> dict[str, Any]:
        section = full_text().partition(f"#### {operation}\n")[2]
        return json.loads(section.partition("```json\n")[2].partition("\n")[0])

    assert not {"replies", "next_since_seq"} & answer("POST /api/v1/board").keys()
    assert (answer("POST /api/v1/board/{id}/close")["status"], answer("GET /api/v1/board/threads/{id}")["status"]) == (
        "closed",
        "open",
    )
    assert "post_url" not in answer("POST /api/v1/wire/stream")
    assert "post_url" in answer("POST /api/v1/relay")
    assert answer("POST /api/v1/artifacts")["upload_headers"] == {"Content-Type": "text/csv"}


async def test_the_rule_of_other_origins_names_what_it_does_not_hold_for(node: NodeUnderTest) -> None:
    (rule,) = [line for line in (await text_of(node, "/llms-full.txt")).splitlines() if "Cross-origin" in line]
    assert "except to MCP" in rule
    foreign = {"origin": "https://elsewhere.example"}
    assert (await node.client.get("/api/v1/board", headers=foreign)).headers["access-control-allow-origin"] == "*"
    refused = await node.client.post("/api/v1/mcp", json={}, headers=foreign)
    assert (refused.status_code, refused.headers["x-error-code"]) == (403, "origin.refused")


def test_the_rule_of_payloads_names_the_fields_that_are_judged_one_by_one() -> None:
    (rule,) = [line for line in full_text().splitlines() if line.startswith("- In a relay payload")]
    german = "Bitte sehr schnell antworten"
    english = {"remark": "This is a long sentence in English that says nothing of importance to anybody at all. " * 5}
    named = re.findall(r"`(\w+)`", rule.partition(" are judged one by one")[0])
    assert len(named) > 20
    assert [name for name in named if payload_is_english({name: german} | english)] == []
    for other in ("remark_too", "id"):
        assert f"`{other}`" not in rule.partition(" are judged one by one")[0]
        assert payload_is_english({other: german} | english)


def test_the_lines_that_verify_a_callback_verify_it() -> None:
    section = full_text().partition("\n## Callbacks\n")[2]
    scope: dict[str, Any] = {}
    exec(section.partition("```python\n")[2].partition("```")[0], scope)
    key = NodeKey.generate()
    now = int(time.time())
    headers = {
        "webhook-id": "msg_1",
        "webhook-timestamp": str(now),
        "webhook-signature": f"v1,bm90IG91cnM= {key.sign_webhook('msg_1', now, b'{}')}",
    }
    assert scope["verify"](headers, b"{}", key.public.whpk) is True
    assert scope["verify"](headers, b"{ }", key.public.whpk) is False
    assert scope["verify"](headers, b"{}", NodeKey.generate().public.whpk) is False
    assert scope["verify"](headers | {"webhook-timestamp": str(now - 301)}, b"{}", key.public.whpk) is False


async def test_robots_txt_names_the_sitemap(node: NodeUnderTest) -> None:
    assert "Sitemap: http://node.example/sitemap.xml" in await text_of(node, "/robots.txt")


async def test_the_capability_index_names_each_group_of_operations(node: NodeUnderTest) -> None:
    """Including the events."""
    tags = {tag["name"] for tag in json.loads(await text_of(node, "/openapi.json"))["tags"]}
    index = json.loads(await text_of(node, "/.well-known/agent.json"))
    assert tags - {"utility", "pages", "discovery"} <= set(index["endpoints"])
    assert index["capabilities"]["events"] is True
