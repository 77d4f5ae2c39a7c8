"""The resources: recipes for agent frameworks, and live views of the node (SPEC 4.9)."""

import msgspec

from node.mcp.json_rpc import INTERNAL_ERROR, INVALID_PARAMS, RESOURCE_NOT_FOUND, Raw, RpcError
from node.mcp.markdown import MarkdownFile, load
from node.mcp.operations import Operations
from node.mcp.tool_result import sentence
from node.web.http import Request

RECIPES = ("http-curl", "python", "typescript", "langgraph", "crewai", "autogen", "openai-agents", "claude-mcp-config")
RECIPE_URI = "node://recipes/{name}.md"
MARKDOWN = "text/markdown"
JSON = "application/json"

STABLE_MS = 300_000
"""How long a client may keep what only changes with a new version of the node."""


class Live(msgspec.Struct, frozen=True):
    """A resource that is read through an operation each time."""

    uri: str
    name: str
    title: str
    description: str
    path: str
    query: str = ""


LIVE = (
    Live(
        "node://board/offered-tasks.json",
        "offered-tasks",
        "Offered tasks",
        "Work contracts that nobody has claimed yet, newest first",
        "/api/v1/tasks",
        "status=offered",
    ),
    Live(
        "node://board/open-threads.json",
        "open-threads",
        "Open threads",
        "Open board threads, newest activity first",
        "/api/v1/board",
    ),
    Live("node://health.json", "health", "Health", "Whether the node serves, and what it can do", "/health"),
)

TEMPLATES = [
    {
        "uriTemplate": RECIPE_URI,
        "name": "recipes",
        "title": "Recipes",
        "description": "How to use this node from an agent framework: " + ", ".join(RECIPES),
        "mimeType": MARKDOWN,
    }
]


class ReadParams(msgspec.Struct):
    """The params of resources/read."""

    uri: str


_params = msgspec.json.Decoder(ReadParams)
_encode = msgspec.json.Encoder().encode


class Resources:
    """The resources of one node."""

    def __init__(self, base_url: str, operations: Operations) -> None:
        self._operations = operations
        self._recipes: dict[str, MarkdownFile] = {
            RECIPE_URI.format(name=name): load("recipes", name, base_url) for name in RECIPES
        }
        self._live = {live.uri: live for live in LIVE}

    def listed(self) -> list[dict[str, object]]:
        """As resources/list shows them."""
        recipes: list[dict[str, object]] = [
            {"uri": uri, "name": text.name, "title": text.title, "description": text.description, "mimeType": MARKDOWN}
            for uri, text in self._recipes.items()
        ]
        live: list[dict[str, object]] = [
            {
                "uri": each.uri,
                "name": each.name,
                "title": each.title,
                "description": each.description,
                "mimeType": JSON,
            }
            for each in LIVE
        ]
        return [*recipes, *live]

    async def read(self, params: Raw, request: Request) -> tuple[bytes, int]:
        """The members of a ReadResourceResult, and for how many ms it holds. Raises RpcError."""
        try:
            uri = _params.decode(params).uri
        except msgspec.ValidationError as error:
            raise RpcError(INVALID_PARAMS, f"Invalid params: {error}") from None
        if (recipe := self._recipes.get(uri)) is not None:
            return _contents(uri, MARKDOWN, recipe.body), STABLE_MS
        if (live := self._live.get(uri)) is not None:
            return _contents(uri, JSON, await self._read(live, request)), 0
        raise RpcError(RESOURCE_NOT_FOUND, "Resource not found", {"uri": uri})

    async def _read(self, live: Live, request: Request) -> str:
        route = self._operations.find("GET", live.path)
        if route is None:
            raise RpcError(RESOURCE_NOT_FOUND, "Resource not found", {"uri": live.uri})
        response = await self._operations.call(request, route, query=live.query)
        if response.status >= 400:
            raise RpcError(INTERNAL_ERROR, sentence(response.body))
        return response.body.decode()


def _contents(uri: str, media_type: str, text: str) -> bytes:
    return b'"contents":%b' % _encode([{"uri": uri, "mimeType": media_type, "text": text}])
