"""The node's route tables without services, for tests of the documents that are made from them."""

from typing import Any, cast

from node.a2a.tasks_api import SharedTasksApi
from node.artifacts.api import ArtifactsApi
from node.board.api import BoardApi
from node.feedback.api import FeedbackApi
from node.observe.health import HealthApi
from node.relay.api import RelayApi
from node.sessions.api import SessionsApi
from node.tasks.api import TasksApi
from node.tasks.offers.api import OffersApi
from node.web.route import Route

NOBODY = cast("Any", None)
"""Stands in for every service: creating a route table calls none."""


def feature_routes() -> list[Route]:
    """Return the operations of all capabilities except board search, A2A messages and MCP."""
    contracts = TasksApi(NOBODY, NOBODY, NOBODY).routes()
    return [
        *RelayApi(NOBODY, NOBODY).routes(),
        *BoardApi(NOBODY, NOBODY, NOBODY).routes(),
        *SharedTasksApi(NOBODY, NOBODY, contracts, NOBODY, NOBODY).routes(),
        *OffersApi(NOBODY, NOBODY, NOBODY, NOBODY).routes(),
        *SessionsApi(NOBODY, NOBODY).routes(),
        *ArtifactsApi(NOBODY, NOBODY).routes(),
        *FeedbackApi(NOBODY, NOBODY).routes(),
        *HealthApi(NOBODY, NOBODY, NOBODY).routes(),
    ]
