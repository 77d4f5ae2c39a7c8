"""Traces of a whole node as an OpenTelemetry collector receives them."""

import asyncio
import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Awaitable, Iterator
from pathlib import Path
from typing import Any, Never, cast

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from node.callbacks.call import Caller
from node.callbacks.envelope import Envelope
from node.callbacks.owners import Requester
from node.callbacks.resolve import Resolver
from node.callbacks.target import TargetPolicy, parse
from node.config import ConfigError, Settings, load
from node.observe import tracing
from node.observe.spans import Tracing
from node.sign.node_key import NodeKey
from node.web.http import Receive, Scope, Send
from tests.callbacks.network import unlimited
from tests.observe.collectors import Collector, Receiver, attributes
from tests.support.http_scope import HOST, http_scope
from tests.support.lone_request import no_message
from tests.support.nodes import ROOT, NodeProcess
from tests.support.servers import PATIENCE, until

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
CALLER = "00f067aa0ba902b7"
WORDS = "how tall the old lighthouse is"


def post(node: NodeProcess, path: str, body: object, **headers: str) -> tuple[Any, str]:
    """Return the answer and its X-Request-Id."""
    given = {"Content-Type": "application/json", **headers}
    request = urllib.request.Request(f"{node.url}{path}", json.dumps(body).encode(), given)
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        return json.load(answer), answer.headers["X-Request-Id"]


Traced = tuple[NodeProcess, Collector, Receiver]


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Traced]:
    with Collector() as collector, Receiver() as receiver:
        node = NodeProcess(tmp_path_factory.mktemp("node"))
        with node.start(
            RELAY_TRACE_URL=collector.url,
            RELAY_CALLBACK_ALLOW_PRIVATE="1",
            RELAY_WORKERS="1",
            OTEL_BSP_SCHEDULE_DELAY="100",
        ):
            node.ready()
            yield node, collector, receiver


def found(collector: Collector, name: str, trace: str = "") -> Span:
    """Wait for a span with this name, and return the newest one."""

    def matching() -> list[Span]:
        return collector.find(lambda span: span.name == name and trace in ("", span.trace_id.hex()))

    until(matching, f"a span {name}")
    return matching()[-1]


def test_a_request_continues_the_trace_of_its_caller_down_to_redis(traced: Traced) -> None:
    node, collector, _ = traced
    message = {"message": f"Who knows {WORDS}?"}
    _, request_id = post(node, "/api/v1/relay", message, traceparent=f"00-{TRACE}-{CALLER}-01")
    server = found(collector, "POST /api/v1/relay", TRACE)
    assert (server.kind, server.parent_span_id.hex()) == (Span.SPAN_KIND_SERVER, CALLER)
    assert attributes(server) == {
        "http.request.method": "POST",
        "http.route": "/api/v1/relay",
        "http.response.status_code": 200,
        "relay.request_id": request_id,
        "url.scheme": "http",
    }
    calls = collector.find(lambda span: span.parent_span_id == server.span_id)
    assert [(call.kind, attributes(call)["db.system.name"]) for call in calls] == [(Span.SPAN_KIND_CLIENT, "redis")]
    assert server.start_time_unix_nano <= calls[0].start_time_unix_nano <= server.end_time_unix_nano


def test_what_a_request_sends_to_redis_and_does_not_wait_for_is_an_event_of_its_span(traced: Traced) -> None:
    node, collector, _ = traced
    trace = TRACE[::-1]
    thread = {"title": "Towers", "body": f"Who knows {WORDS}?"}
    posted, _ = post(node, "/api/v1/board", thread, traceparent=f"00-{trace}-{CALLER}-01")
    server = found(collector, "POST /api/v1/board", trace)
    assert [(event.name, attributes(event)) for event in server.events] == [
        # The note to the search, from a process that does not know yet whether this Redis has a query engine.
        ("sent", {"db.system.name": "redis", "db.operation.name": "doc_put"})
    ]
    # The list's update was sent as well, in one command with others.
    assert json.loads(node.get("/api/v1/board"))["threads"][0]["id"] == posted["id"]


def test_a_request_without_a_trace_begins_one_and_the_router_names_it_as_well(traced: Traced) -> None:
    node, collector, _ = traced
    node.get("/api/v1/board/schema")
    server = found(collector, "GET /api/v1/board/schema")
    assert server.parent_span_id == b""


def test_a_callback_is_a_span_of_the_worker_and_its_receiver_is_told_of_the_trace(traced: Traced) -> None:
    node, collector, receiver = traced
    thread = {"title": "Lighthouses", "body": f"Who knows {WORDS}?", "callback_url": f"{receiver.url}/hook"}
    created, _ = post(node, "/api/v1/board", thread)
    post(node, f"/api/v1/board/{created['id']}/replies", {"body": "It is forty metres tall, I think."})
    until(lambda: receiver.headers, "the callback is there")
    _, trace_id, span_id, _ = receiver.headers[0]["traceparent"].split("-")
    span = found(collector, "callback", trace_id)
    assert span.span_id.hex() == span_id
    assert attributes(span) == {"relay.callback.outcome": "delivered", "http.response.status_code": 200}
    assert [role for role, one in collector.spans if one.name == "callback"] == ["worker"]


def test_no_span_has_a_word_an_address_or_an_id_of_a_client(traced: Traced) -> None:
    node, collector, _ = traced
    created, _ = post(node, "/api/v1/sessions", {"label": "lighthouse"})
    post(node, f"/api/v1/sessions/{created['session_id']}/messages", {"body": WORDS})
    found(collector, "POST /api/v1/sessions/{id}/messages")
    with pytest.raises(urllib.error.HTTPError, match="405"):
        urllib.request.urlopen(urllib.request.Request(f"{node.url}/health", method="LIGHTSHIP"), timeout=PATIENCE)
    assert attributes(found(collector, "HTTP"))["http.request.method"] == "_OTHER"
    for secret in ("lighthouse", "LIGHTSHIP", created["session_id"], created["destroy_token"], "127.0.0.1", "/hook"):
        assert secret.encode() not in collector.raw, secret


async def test_a_failure_is_in_a_span_without_what_its_exception_quotes(monkeypatch: pytest.MonkeyPatch) -> None:
    exporter = InMemorySpanExporter()
    traces = Tracing(Settings(), "web", exporter)

    async def fail(*_: object) -> Never:
        raise ValueError(f"not a number: {WORDS!r}")

    caller = Caller(TargetPolicy(), cast("Resolver", fail), unlimited())
    monkeypatch.setattr(caller, "call", fail)
    sender = traces.sender(NodeKey.generate(), caller, "http://node.example")
    target = parse("https://hooks.example/hook", TargetPolicy())
    scope = http_scope("GET", "/api/v1/events", HOST)
    for failing in (traces.app(fail)(scope, fail, fail), sender.send(target, Envelope("msg_1", b"{}"), Requester())):
        with pytest.raises(ValueError, match="not a number"):
            await failing
    await traces.close()
    spans = exporter.get_finished_spans()
    assert [(span.name, span.status.status_code) for span in spans] == [
        ("GET", StatusCode.ERROR),
        ("callback", StatusCode.ERROR),
    ]
    assert all(WORDS not in span.to_json() for span in spans)


async def test_a_stream_sees_whether_its_connection_had_room_although_it_is_traced() -> None:
    traces = Tracing(Settings(), "web", InMemorySpanExporter())
    sent: list[Awaitable[None]] = []

    async def stream(_: Scope, __: Receive, send: Send) -> None:
        sent.append(send({"type": "http.response.body", "body": b"", "more_body": True}))

    taken = asyncio.get_running_loop().create_future()  # stands in for what the server returns
    await traces.app(stream)(http_scope("GET", "/api/v1/events", HOST), no_message, lambda _: taken)
    await traces.close()
    assert sent == [taken]


def test_an_idle_worker_makes_no_spans(traced: Traced) -> None:
    _, collector, _ = traced
    assert {span.name for role, span in collector.spans if role == "worker"} <= {"callback"}


def test_without_a_collector_nothing_of_opentelemetry_is_loaded() -> None:
    program = (
        "import sys, node.config, node.run.web, node.run.worker\n"
        "application = node.run.web.create(node.config.load())\n"
        "print(type(application).__name__, [name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    environment = {"RELAY_REDIS_URL": "redis://127.0.0.1:1", "PATH": ""}
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    assert ran.stdout == "WebApplication []\n"


def test_the_usual_variable_names_the_collector_unless_the_setting_does() -> None:
    usual = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://usual.example:4318"}
    assert load(usual).trace_url == "http://usual.example:4318"
    assert load({**usual, "RELAY_TRACE_URL": "http://own.example:4318"}).trace_url == "http://own.example:4318"
    assert load({}).trace_url == ""


def test_without_the_packages_the_node_says_how_to_get_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wanted = Settings(trace_url="http://localhost:4318", data_dir=tmp_path)
    tracing.check(wanted)
    monkeypatch.setattr(tracing, "PACKAGES", ("no_such_package.sdk",))
    with pytest.raises(ConfigError, match="relay-node\\[otel\\]"):
        tracing.check(wanted)
    tracing.check(Settings())
