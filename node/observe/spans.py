"""The spans of traces. Names and attributes follow OpenTelemetry's semantic conventions for HTTP and databases.

No span has a path, an address, an id of an entity or anything that a client wrote. An operation is named by its route,
a request by its X-Request-Id.
"""

import asyncio
from collections.abc import Awaitable, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Any, TypedDict, TypeVar, cast

import httpcore2
import msgspec
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from node import VERSION
from node.callbacks.attempt import (
    AttemptResult,
    Delivered,
    Later,
    ReceiverGone,
    Rejected,
    Retry,
    TargetForbidden,
    Throttled,
    Unreachable,
)
from node.callbacks.call import Caller
from node.callbacks.envelope import Envelope
from node.callbacks.owners import Requester
from node.callbacks.sender import Sender
from node.callbacks.target import Target
from node.config import Settings
from node.sign.node_key import NodeKey
from node.store import Arg, RedisReply, Store, StoreUnavailable
from node.store.steps import Step
from node.store.store import Wanted
from node.web.http import ASGIApp, ASGIMessage, Receive, Request, Response, Scope, Send
from node.web.route import Route

EXPORT_TIMEOUT = 2.0
"""Longest time that the collector may take for a batch, in seconds: a stopping node must end in time."""

METHODS = frozenset({"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"})
"""Methods by which spans are named. Any other method is chosen by the client, and may be 32 kB long."""
OTHER = "_OTHER"
"""The name of any other method in OpenTelemetry's semantic conventions."""

CONTEXT_HEADERS = (b"traceparent", b"tracestate")


class Unquoted(TypedDict):
    """Arguments that keep the text of exceptions out of a span: it may quote what a client or a receiver wrote."""

    record_exception: bool
    set_status_on_exception: bool


UNQUOTED = Unquoted(record_exception=False, set_status_on_exception=False)

OUTCOMES: dict[type[AttemptResult], str] = {
    Delivered: "delivered",
    ReceiverGone: "gone",
    Rejected: "failed",
    Retry: "retry",
    Throttled: "throttled",
    Unreachable: "unreachable",
    Later: "later",
    TargetForbidden: "refused",
}
"""The values of the attribute `relay.callback.outcome`."""

T = TypeVar("T")

_propagator = TraceContextTextMapPropagator()


def exporter_to(url: str) -> SpanExporter:
    """Return an exporter to the OTLP collector at this base address, over HTTP."""
    return OTLPSpanExporter(endpoint=f"{url.rstrip('/')}/v1/traces", timeout=EXPORT_TIMEOUT)


class Tracing:
    """Wraps the parts of a process so that they make spans. OTEL_* variables decide which spans are sampled."""

    def __init__(self, settings: Settings, role: str, exporter: SpanExporter) -> None:
        ours = {"service.name": "relay-node", "service.version": VERSION, "relay.node_id": settings.node_id}
        resource = Resource({**ours, "relay.role": role}).merge(OTELResourceDetector().detect())
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self.tracer = self._provider.get_tracer("relay-node", VERSION)

    def app(self, app: ASGIApp) -> ASGIApp:
        """Return the application with a span for each request, which continues a caller's trace (W3C Trace Context)."""

        async def traced(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                return await app(scope, receive, send)
            method: str = scope["method"] if scope["method"] in METHODS else OTHER
            name = "HTTP" if method == OTHER else method
            known = {"http.request.method": method, "url.scheme": str(scope.get("scheme", "http"))}
            span = self.tracer.start_span(name, _context_of(scope), SpanKind.SERVER, known)

            def send_on(message: ASGIMessage) -> Awaitable[None]:
                if message["type"] == "http.response.start":
                    _set_response(span, message)
                return send(message)  # not awaited here: its type says whether the connection had room (`BodySender`)

            with trace.use_span(span, end_on_exit=True, **UNQUOTED), _noting_failure(span):
                await app(scope, receive, send_on)
            return None

        return traced

    def route(self, route: Route) -> Route:
        """Return the route with a handler that names the span of its request after the route."""
        handle, name = route.handler, f"{route.method} {route.path}"

        async def handler(request: Request) -> Response:
            span = trace.get_current_span()
            span.update_name(name)
            span.set_attribute("http.route", route.path)
            return await handle(request)

        return msgspec.structs.replace(route, handler=handler)

    def store(self, store: Store) -> Store:
        """Return the store with a span for each call that a request or a callback makes."""
        return cast("Store", TracedStore(store, self.tracer))

    def sender(self, key: NodeKey, caller: Caller, public_url: str) -> Sender:
        """Return a sender that makes a span for each attempt. The receiver gets the trace's context."""
        return TracedSender(self.tracer, key, caller, public_url)

    async def close(self) -> None:
        """Export the remaining spans."""
        await asyncio.to_thread(self._provider.shutdown)


class TracedStore:
    """A store whose calls are spans. Calls outside any span make none: workers poll hundreds of times a second."""

    def __init__(self, store: Store, tracer: Tracer) -> None:
        self._store = store
        self._tracer = tracer

    def __getattr__(self, name: str) -> Any:
        """Return everything else from the store itself."""
        return getattr(self._store, name)

    async def run(self, step: Step) -> RedisReply:
        return await self._in_span(step.script.name, self._store.run(step))

    def send(self, wanted: Wanted) -> None:
        self._store.send(wanted)
        # Nobody waits for its reply, so it is an event, not a span.
        if trace.get_current_span().is_recording():
            trace.get_current_span().add_event("sent", _operation(_name_of([wanted])))

    async def run_all(self, many: Iterable[Wanted]) -> list[RedisReply]:
        wanted = list(many)
        return await self._in_span(_name_of(wanted), self._store.run_all(wanted)) if wanted else []

    async def run_reachable(self, many: Iterable[Wanted]) -> list[RedisReply | StoreUnavailable]:
        wanted = list(many)
        return await self._in_span(_name_of(wanted), self._store.run_reachable(wanted)) if wanted else []

    async def command(self, *args: Arg, key: Arg | None = None) -> RedisReply:
        return await self._in_span(str(args[0]), self._store.command(*args, key=key))

    async def _in_span(self, name: str, call: Awaitable[T]) -> T:
        if not trace.get_current_span().is_recording():
            return await call
        known = _operation(name)
        with self._tracer.start_as_current_span(name, kind=SpanKind.CLIENT, attributes=known, **UNQUOTED):
            return await call


def _name_of(wanted: Sequence[Wanted]) -> str:
    """Return the name of the first step's script, of a single plain command, or PIPELINE for several commands."""
    first = wanted[0]
    if isinstance(first, Step):
        return first.script.name
    return str(first[0]) if len(wanted) == 1 else "PIPELINE"


class TracedSender(Sender):
    """A sender whose attempts are spans, and whose messages carry `traceparent`."""

    def __init__(self, tracer: Tracer, key: NodeKey, caller: Caller, public_url: str) -> None:
        super().__init__(key, caller, public_url)
        self._tracer = tracer

    async def send(self, target: Target, envelope: Envelope, requester: Requester) -> AttemptResult:
        with (
            self._tracer.start_as_current_span("callback", kind=SpanKind.CLIENT, **UNQUOTED) as span,
            _noting_failure(span),
        ):
            outcome = await super().send(target, envelope, requester)
            span.set_attribute("relay.callback.outcome", OUTCOMES[type(outcome)])
            if isinstance(outcome, Delivered):
                span.set_attribute("http.response.status_code", outcome.status)
            elif not isinstance(outcome, Later):
                span.set_status(StatusCode.ERROR)
            return outcome

    def _request(self, target: Target, envelope: Envelope) -> httpcore2.Request:
        request = super()._request(target, envelope)
        carrier: dict[str, str] = {}
        _propagator.inject(carrier)
        request.headers += [(name.encode(), value.encode()) for name, value in carrier.items()]
        return request


@contextmanager
def _noting_failure(span: Span) -> Generator[None]:
    """Mark the span as failed if the block raises."""
    try:
        yield
    except Exception:
        span.set_status(StatusCode.ERROR)
        raise


def _operation(name: str) -> dict[str, str]:
    return {"db.system.name": "redis", "db.operation.name": name}


def _context_of(scope: Scope) -> Any:
    carrier = {name.decode(): value.decode("latin-1") for name, value in scope["headers"] if name in CONTEXT_HEADERS}
    return _propagator.extract(carrier)


def _set_response(span: Span, message: ASGIMessage) -> None:
    status: int = message["status"]
    span.set_attribute("http.response.status_code", status)
    for name, value in message["headers"]:
        if name == b"x-request-id":
            span.set_attribute("relay.request_id", value.decode("latin-1"))
    if status >= 500:
        span.set_status(StatusCode.ERROR)
