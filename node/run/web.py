"""Composes a web process: the services on its store, their operations, and the background tasks.

Granian calls `create` in each web process. Everything is composed once the event loop runs, so that the store's
connections belong to it.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from node.a2a.api import A2AApi
from node.a2a.card import CardApi
from node.a2a.inboxes.api import InboxAgentApi
from node.a2a.inboxes.calls import InboxCalls
from node.a2a.inboxes.card import InboxCardApi
from node.a2a.inboxes.pushes import PushConfigService
from node.a2a.inboxes.rpc import InboxRpcApi
from node.a2a.tasks_api import SharedTasksApi
from node.agents.api import AgentsApi
from node.agents.inbox_cards import InboxCards
from node.artifacts.api import ArtifactsApi
from node.artifacts.blobs.disk import PREFIX, DiskStore
from node.artifacts.blobs.disk_app import DiskApp
from node.board.api import BoardApi
from node.callbacks import owners
from node.common import process
from node.common.background import Background, CoroutineFunction, report_every
from node.config import CurrentSettings, Settings
from node.describe.discovery import discovery_routes
from node.describe.identity import IdentityApi, card_extensions
from node.events.api import EventsApi
from node.events.deliveries import DeliveriesApi
from node.feedback.api import FeedbackApi
from node.inbox.api import InboxApi
from node.mcp.routes import McpRoutes
from node.observe.health import HealthApi
from node.observe.memory import MemoryAlarm
from node.observe.metrics.meter import Meter, of_web
from node.observe.tracing import tracing_of
from node.overload import intake
from node.overload.admission import Admission
from node.relay.api import RelayApi
from node.run.reload import on_hangup
from node.run.services import Services, Stores
from node.search.api import SearchApi
from node.sessions.api import SessionsApi
from node.share.capacity import Capacity
from node.site.page import Pages
from node.site.pages import SiteApi
from node.store.activity import ActivityStore
from node.store.blocked import Blocklist
from node.store.limits import LimitStore
from node.store.work import WorkStore
from node.tasks.api import TasksApi
from node.tasks.offers.api import OffersApi
from node.text import english
from node.web import activity
from node.web.address import ClientAddress
from node.web.application import WebApplication
from node.web.blocklist import BlockedClients
from node.web.deadline import Deadlines
from node.web.errors import HELP
from node.web.http import ASGIApp, ASGIMessage, Request, Response, Scope
from node.web.limits import Limiter, PermitOf, quotas_of
from node.web.origin import CORS_OPEN, VARY, OriginPolicy
from node.web.paths import Paths
from node.web.route import Route
from node.web.router import Router
from node.web.signature import Signatures
from node.web.throughput import Throughput
from node.web.turn import ClientTurns, RequestTurn
from node.web.unread import UnreadAnswers
from node.web.usage import REPORT_SECONDS
from node.web.work import WorkLimit

if TYPE_CHECKING:
    from node.observe.spans import Tracing


def create(settings: Settings) -> ASGIApp:
    """Return the ASGI application."""
    tracing = tracing_of(settings, "web")

    addresses = ClientAddress(settings.trusted_proxies, settings.forwarded_header)

    async def compose() -> "WebNode":
        node = await WebNode.start(settings, tracing)
        node.intake.client_of = addresses.of
        node.intake.application = application
        intake.install(node.intake)

        def take(changed: Settings) -> None:
            node.change(changed)
            addresses.trust(changed.trusted_proxies)

        on_hangup(settings, take, logs=False)
        return node

    application: ASGIApp = WebApplication(compose, addresses)
    if tracing:
        application = tracing.app(application)
    return application


class WebNode:
    """Everything that one web process serves."""

    services_of: type[Services] = Services

    def __init__(self, settings: Settings, stores: Stores, tracing: "Tracing | None" = None) -> None:
        store = stores.main
        HELP.lead_below(settings.public_path)
        self._stores = stores
        self._tracing = tracing
        self._services = self.services_of(settings, stores)
        capacity = Capacity(settings.client_bytes)
        self._limiter = Limiter(settings.limits, LimitStore(store), quotas_of(settings), capacity)
        characters = settings.limits.search_characters
        self._search_work = WorkLimit("search_characters", characters, "characters searched", WorkStore(store))
        search = partial(self._limiter.permit, kind="search", work=self._search_work)
        self._blocked = BlockedClients(Blocklist(store))
        self._health = HealthApi(store, settings, capacity)
        self._current = CurrentSettings(settings)
        refuses_key = self._blocked.refuses_key
        operations = operations_of(self._current, self._services, self._limiter, self._health, search, refuses_key)
        self.origins = OriginPolicy(settings)
        self.throughput = Throughput(settings.client_throughput)
        # MCP's tools call these operations. The documents describe them and MCP's own routes.
        self._mcp = McpRoutes(operations, self._limiter, self.throughput, store, self.origins, settings.public_url)
        described = [*operations, *self._mcp.routes]
        self.routes = [*described, *discovery_routes(described, self._current)]
        served = [tracing.route(route) for route in self.routes] if tracing else self.routes
        self.hot = [route for route in served if route.hot]
        self.paths = Paths(self.routes, settings.public_path)
        self.router = Router(served, self.paths, Pages(settings).missing)
        self.intake = self._make_intake()
        blobs = self._services.blobs
        self.mounted = {PREFIX: DiskApp(blobs, self.intake.client)} if isinstance(blobs, DiskStore) else {}
        self._background = Background()
        for name, work in self._works(settings, capacity).items():  # last: nobody ends them if `__init__` fails
            self._background.start(name, work)

    def _make_intake(self) -> intake.Intake:
        stats = self._stores.main.stats
        made = intake.Intake(
            Admission(),
            store_load=lambda: (stats.in_flight, stats.calls - stats.in_flight),
            cors=(CORS_OPEN,) if self.origins.is_open else (VARY,),
        )
        made.answer_as(refusals_of(self.routes))
        return made

    def _works(self, settings: Settings, capacity: Capacity) -> dict[str, CoroutineFunction]:
        """Return the background tasks, by name."""
        store, usage = self._stores.main, self._limiter.usage
        figures = of_web(self.routes, store, self._services.events.followers)
        works: dict[str, CoroutineFunction] = {
            "memory": MemoryAlarm(store, settings, capacity).run,
            "usage": partial(report_every, REPORT_SECONDS, usage.report),
            "blocklist": self._blocked.run,
            "suffixes": owners.preload,
            "metrics": Meter(settings, "web", store, figures).run,
        }
        if settings.provenance_days:
            report = partial(activity.report, ActivityStore(store, settings.provenance_days), usage)
            works["activity"] = partial(report_every, activity.REPORT_SECONDS, report)
        return works

    @classmethod
    async def start(cls, settings: Settings, tracing: "Tracing | None" = None) -> "WebNode":
        """Connect and compose everything. Does not wait for Redis: until it answers, requests get 503."""
        english.preload(settings.secret)
        stores = await Stores.open(settings)
        if tracing:
            stores = stores.wrapped_by(tracing.store)
        stores.main.wakeups.waiters.most = settings.max_waiting
        try:
            node = cls(settings, stores, tracing)
        except BaseException:
            await stores.close()
            raise
        process.freeze()  # without it the 99th percentile of acknowledgements is 40 ms
        return node

    def refuses(self, client: str) -> bool:
        """Return whether the operator has blocked a client."""
        return client in self._blocked

    def change(self, settings: Settings) -> None:
        """Take over what may change while the process runs: limits, and networks that must not be called."""
        self._current.now = settings
        self._limiter.change(settings.limits)
        self._search_work.change(settings.limits.search_characters)
        self._services.targets.change(settings)

    def drain(self) -> None:
        """Tell load balancers to send requests elsewhere."""
        self._health.draining = True

    def release(self) -> None:
        """Answer waiting requests, and drop clients that do not read their answers, so that the process can stop."""
        self._stores.main.wakeups.waiters.release()
        self._mcp.end_streams()
        self._services.events.end()
        self._background.start("unread", UnreadAnswers(self._current.now.port).run)

    async def close(self) -> None:
        """End the background tasks, and close all connections."""
        await self._mcp.close()
        await self._background.close()
        await self._search_work.settled()
        await self._services.close()
        await self._stores.close()
        if self._tracing:
            await self._tracing.close()


def refusals_of(routes: list[Route]) -> dict[str, Response]:
    """Return the refusals for overload, by path, for protocols that have their own form of errors."""

    async def no_body() -> ASGIMessage:
        return {"type": "http.disconnect"}

    own: dict[str, Response] = {}
    for route in routes:
        if route.fault is not None and route.media_type == "application/json" and "{" not in route.path:
            scope: Scope = {"method": route.method, "path": route.path, "headers": [], "query_string": b""}
            request = Request(scope, no_body, "", "", Deadlines(), RequestTurn(ClientTurns(Throughput(0)), "", scope))
            own[route.path] = route.fault(request, intake.overloaded())
    return own


def operations_of(
    current: CurrentSettings,
    services: Services,
    limiter: Limiter,
    health: HealthApi,
    search: PermitOf,
    refuses_key: Callable[[str], bool],
) -> list[Route]:
    """Return every operation of the services, and the pages."""
    settings = current.now
    signatures = Signatures(settings.public_url, refuses_key)
    deliveries = DeliveriesApi(
        services.tasks, services.sessions, services.board, services.inboxes, services.deliveries, signatures
    )
    agents = services.inbox_agents
    pushes = PushConfigService(services.pushes)
    calls = InboxCalls(agents, pushes, services.targets, limiter, signatures)
    contracts = TasksApi(services.tasks, limiter, signatures).routes()
    return [
        *RelayApi(services.relay, limiter).routes(),
        *BoardApi(services.board, limiter, signatures).routes(),
        *SearchApi(services.search, search, f"{settings.public_url}/board/").routes(),
        *SharedTasksApi(services.messages, services.tasks, contracts, limiter, signatures).routes(),
        *OffersApi(services.offers, services.claims, limiter, search).routes(),
        *A2AApi(services.messages, limiter).routes(),
        *CardApi(settings, card_extensions(settings)).routes(),
        *IdentityApi(current).routes(),
        *SessionsApi(services.sessions, limiter).routes(),
        *ArtifactsApi(services.artifacts, limiter).routes(),
        *InboxApi(services.inboxes, limiter, signatures, InboxCards(services.agents)).routes(),
        *AgentsApi(services.agents, limiter, search, signatures).routes(),
        *InboxCardApi(services.inboxes, settings.public_url).routes(),
        *InboxAgentApi(pushes, calls).routes(),
        *InboxRpcApi(pushes, calls).routes(),
        *EventsApi(services.events, limiter, signatures).routes(),
        *deliveries.routes(),
        *FeedbackApi(services.feedback, limiter).routes(),
        *health.routes(),
        *SiteApi(
            current,
            services.board,
            services.tasks,
            services.inboxes,
            services.agents,
            services.events,
            services.search,
            search,
        ).routes(),
    ]
