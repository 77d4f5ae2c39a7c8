"""The resources: recipes for agent frameworks, live views of the node, and single entities (SPEC 4.9)."""

from http import HTTPStatus

import msgspec
from msgspec import Raw

from node.mcp.json_rpc import INTERNAL_ERROR, LIMIT_EXCEEDED, RESOURCE_NOT_FOUND, RpcError, read_params
from node.mcp.json_text import with_text
from node.mcp.operations import Operations, call_operation
from node.mcp.tool_result import failure_of, sentence
from node.recipes.markdown import RECIPES, MarkdownFile, recipes
from node.web.http import Request

SCHEME = "node://"
RECIPE_URI = "node://recipes/{name}.md"
MARKDOWN = "text/markdown"
JSON = "application/json"

CONSTANT_TTL_MS = 300_000
"""How long a client may cache content that changes only with the node's version, in milliseconds."""

MAX_ID_LENGTH = 1024
"""Maximum length of an id that is looked up, in characters. Real ids have less than a tenth of that; escaping an id of
a mebibyte takes 0.1 s."""


class LiveView(msgspec.Struct, frozen=True):
    """A resource whose content is the current answer of an operation."""

    uri: str
    name: str
    title: str
    description: str
    operation: str
    query: str = ""


LIVE_VIEWS = (
    LiveView(
        "node://board/offered-tasks.json",
        "offered-tasks",
        "Offered tasks",
        "Work contracts that nobody has claimed yet, newest first",
        "GET /api/v1/tasks",
        "status=offered",
    ),
    LiveView(
        "node://board/open-threads.json",
        "open-threads",
        "Open threads",
        "Open board threads, newest activity first",
        "GET /api/v1/board",
    ),
    LiveView(
        "node://health.json",
        "health",
        "Health",
        "Whether the node is in service, and which capabilities it has",
        "GET /health",
    ),
)

ENTITIES = {
    "tasks": (
        "GET /api/v1/tasks/{id}",
        "A work contract, with its result once it has one; or the A2A task of a message",
    ),
    "threads": ("GET /api/v1/board/threads/{id}", "A board thread with its first 100 replies"),
    "artifacts": ("GET /api/v1/artifacts/{id}", "The manifest of an artifact, without its bytes"),
}
"""Entities that can be read at `node://<name>/<id>`: the operation that reads them, and a description."""

TEMPLATES = [
    {
        "uriTemplate": RECIPE_URI,
        "name": "recipes",
        "title": "Recipes",
        "description": "How to use this node from an agent framework: " + ", ".join(RECIPES),
        "mimeType": MARKDOWN,
    },
    *(
        {
            "uriTemplate": f"node://{name}/{{id}}",
            "name": name,
            "title": name.capitalize(),
            "description": description,
            "mimeType": JSON,
        }
        for name, (_, description) in ENTITIES.items()
    ),
]


class ReadParams(msgspec.Struct):
    """The params of resources/read."""

    uri: str


_params = msgspec.json.Decoder(ReadParams)


class Resources:
    """The recipes, live views and entities that clients can read as resources."""

    def __init__(self, base_url: str, operations: Operations) -> None:
        self._operations = operations
        self._recipes: dict[str, MarkdownFile] = {RECIPE_URI.format(name=each.name): each for each in recipes(base_url)}
        self._live: dict[str, LiveView] = {view.uri: view for view in LIVE_VIEWS}

    def listed(self) -> list[dict[str, object]]:
        """Return the recipes and live views as resources/list shows them."""
        return [
            {"uri": uri, "name": one.name, "title": one.title, "description": one.description, "mimeType": media_type}
            for media_type, group in ((MARKDOWN, self._recipes), (JSON, self._live))
            for uri, one in group.items()
        ]

    async def read(self, params: Raw, request: Request) -> tuple[bytes, int]:
        """Return the members of a ReadResourceResult, and for how many ms a client may cache it. Raises RpcError."""
        uri = read_params(_params, params).uri
        if (recipe := self._recipes.get(uri)) is not None:
            return await _contents(uri, MARKDOWN, recipe.body.encode()), CONSTANT_TTL_MS
        view = self._live.get(uri)
        name, _, entity = uri.removeprefix(SCHEME).partition("/")
        if view:
            response = await call_operation(request, self._operations[view.operation], query=view.query)
        elif uri.startswith(SCHEME) and name in ENTITIES and len(entity) <= MAX_ID_LENGTH:
            operation, _ = ENTITIES[name]
            response = await call_operation(request, self._operations[operation], params={"id": entity})
        else:
            raise RpcError(RESOURCE_NOT_FOUND, "Resource not found", {"uri": uri})
        if response.status == HTTPStatus.NOT_FOUND:
            raise RpcError(RESOURCE_NOT_FOUND, sentence(response.body), {"uri": uri})
        if response.status >= 400:
            failed = failure_of(response)
            code = LIMIT_EXCEEDED if failed.status == HTTPStatus.TOO_MANY_REQUESTS else INTERNAL_ERROR
            raise RpcError(code, failed.error, failed)
        return await _contents(uri, JSON, response.body), 0


async def _contents(uri: str, media_type: str, document: bytes) -> bytes:
    before = b'"contents":[%b,"text":' % msgspec.json.encode({"uri": uri, "mimeType": media_type})[:-1]
    return await with_text(before, document, b"}]")
