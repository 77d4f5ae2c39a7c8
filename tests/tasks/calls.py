"""Calls and shortcuts that the contract tests share, over HTTP and past it."""

import time
from collections.abc import Sequence
from itertools import count
from typing import Any

import msgspec
from nacl.signing import SigningKey

from node.callbacks.target_check import TargetCheck
from node.common.own_terms import TextIndex
from node.common.tokens import Tokens
from node.config import Settings
from node.run.corpora import corpora_of
from node.search.service import Search, SearchTurns
from node.search.store import SearchStore
from node.sign.keys import PublicKey
from node.store import Store, keys
from node.store.limits import LimitStore
from node.tasks.offers.feed import OfferFeed
from node.tasks.offers.search import OfferSearch
from node.tasks.service import Tasks
from node.tasks.store import TaskStore
from tests.board.signed_posts import send
from tests.sign.signing import KEY, Signed, sign
from tests.support.answers import json_of
from tests.support.no_index import NoIndex
from tests.support.node_under_test import SECRET, NodeUnderTest

TASKS = "/api/v1/tasks"
OFFER = {"publisher_id": "report-desk", "title": "Summarise a report about solar panels"}
UNKNOWN_ID = "01a1fbd5-10f1-7326-b473-b7b7836b6ce8"

_nonces = count()


async def offered(node: NodeUnderTest, **changed: Any) -> dict[str, Any]:
    """Offer a contract, and return it with its publisher_token."""
    return json_of(await node.client.post(TASKS, json=OFFER | changed), 201)


async def claimed(node: NodeUnderTest, **changed: Any) -> dict[str, Any]:
    """Return a contract that `summary-agent` has claimed, with its claim_token."""
    task = await offered(node, **changed)
    response = await act(node, task, "claim", assignee_id="summary-agent")
    assert response.status_code == 200, response.text
    return {"publisher_token": task["publisher_token"]} | response.json()


async def act(node: NodeUnderTest, task: dict[str, Any], what: str, **body: Any) -> Any:
    """Return the response to one step on a contract."""
    return await node.client.post(f"{TASKS}/{task['id']}/{what}", json=body)


async def signed(node: NodeUnderTest, path: str, body: dict[str, Any], key: SigningKey = KEY, **headers: str) -> Any:
    """Return the response to a request that is signed with a new nonce."""
    return await send(node, signed_request(path, body, key), **headers)


def signed_request(
    path: str, body: dict[str, Any], key: SigningKey = KEY, nonce: str = "", **covered_too: str
) -> Signed:
    """Return a signed request that can be sent repeatedly. The headers in `covered_too` are signed as well."""
    params = f';created={int(time.time())};nonce="{nonce or f"n{next(_nonces)}"}"'
    did = f'{params};keyid="{_did(key)}"'
    more = {name.replace("_", "-"): value for name, value in covered_too.items()}
    covered = ("@method", "@authority", "@path", "content-type", "content-digest", *more)
    request = Signed(path=path, body=msgspec.json.encode(body))
    return sign(covered, did, signature_key=None, request=request, key=key, extra=more)


async def read(node: NodeUnderTest, task: dict[str, Any], **query: Any) -> dict[str, Any]:
    """Return a contract in its current state."""
    return json_of(await node.client.get(f"{TASKS}/{task['id']}", params=query))


def uncharged(amount: int) -> None:
    """Charge nothing: for what is on nobody's account."""


async def let_end(store: Store, task_id: str, field: str = "lease_expires_at") -> None:
    """Let a time of a contract, by default the end of its lease, be long over without anybody having noticed."""
    await store.command("HSET", keys.task(task_id), field, 1)
    await store.command("ZADD", keys.leases_of(task_id), 1, task_id)


async def told(store: Store, task_id: str) -> list[dict[str, str]]:
    """Return the events about a contract, in order."""
    entries: Any = await store.command("XRANGE", keys.events_of(task_id), "-", "+")
    found = [dict(zip(*[iter(map(bytes.decode, fields))] * 2, strict=True)) for _, fields in entries]
    return [fields for fields in found if fields["id"] == task_id]


def tasks_on(store: Store, *artifacts: str, through: TaskStore | None = None, index: TextIndex | None = None) -> Tasks:
    """Return the contract service on a store, in a node that holds these artifacts."""

    async def statuses(ids: Sequence[str]) -> dict[str, str]:
        return {artifact: "available" for artifact in ids if artifact in artifacts}

    settings = Settings(secret=SECRET, base_url="http://node.example")
    return Tasks(
        through or TaskStore(store, settings.idempotency_ttl),
        settings,
        Tokens(SECRET),
        TargetCheck(settings, LimitStore(store).is_known),
        statuses,
        OfferFeed(store),
        index or NoIndex(),
    )


def search_on(store: Store, tasks: Tasks) -> OfferSearch:
    """Return the search over the offers of these contracts."""
    corpus = next(corpus for corpus in corpora_of(store) if corpus.name == "tasks")
    return OfferSearch(tasks, Search(SearchStore(store, store, corpus), SearchTurns()), OfferFeed(store))


def _did(key: SigningKey) -> str:
    return PublicKey(bytes(key.verify_key)).did
