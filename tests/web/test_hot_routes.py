"""Paths served without the router."""

import pytest

from node.web.http import Request, Response
from node.web.route import Route
from tests.support.one_route import client_of, front_of

PATHS = (
    *("/relay", "/api/v1/things", "/api/v1/things/find", "/api/v1/things/{id}", "/api/v1/things/{id}/parts"),
    *("/api/v1/board/threads/{id}", "/api/v1/board/threads/{id}/replies", "/api/v1/things/{id}/parts/{part}/end"),
)
ROUTED = Response(299, b"")


async def told(request: Request) -> Response:
    """Answer with the path parameters."""
    return Response(200, repr(request.params).encode())


async def routed(request: Request) -> Response:
    return ROUTED


def route(path: str, method: str = "GET") -> Route:
    return Route(method=method, path=path, handler=told, summary="Hot", tag="tasks", hot=True)


@pytest.mark.parametrize(
    ("path", "params"),
    [
        ("/relay", {}),
        ("/api/v1/things", {}),
        ("/api/v1/things/find", {}),
        ("/api/v1/things/17", {"id": "17"}),
        ("/api/v1/things/find/parts", {"id": "find"}),
        ("/api/v1/board/threads/17", {"id": "17"}),
        ("/api/v1/board/threads/17/replies", {"id": "17"}),
        ("/api/v1/things/17/parts/4/end", {"id": "17", "part": "4"}),
    ],
)
async def test_each_form_of_a_path_is_found_with_its_parameters(path: str, params: dict[str, str]) -> None:
    app = await front_of(*map(route, PATHS))
    async with client_of(app) as client:
        answer = await client.get(path)
    assert (answer.status_code, answer.text) == (200, repr(params))


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/api/v1/things/17"),
        ("POST", "/api/v1/things/find"),
        ("GET", "/api/v1/things/17/others"),
        ("GET", "/api/v1/things/17/parts/4"),
        ("GET", "/api/v1/board/others/17"),
        ("GET", "/relay/17"),
    ],
)
async def test_a_path_like_no_hot_route_goes_to_the_router(method: str, path: str) -> None:
    other = Route(method=method, path=path, handler=routed, summary="Others", tag="tasks")
    app = await front_of(*map(route, PATHS), others=[other])
    async with client_of(app) as client:
        assert (await client.request(method, path)).status_code == 299


async def test_a_constant_path_is_no_parameter_for_another_method() -> None:
    other = Route(method="GET", path="/api/v1/things/find", handler=routed, summary="Others", tag="tasks")
    app = await front_of(route("/api/v1/things/find", "POST"), route("/api/v1/things/{id}"), others=[other])
    async with client_of(app) as client:
        assert (await client.get("/api/v1/things/find")).status_code == 299
        assert (await client.post("/api/v1/things/find")).status_code == 200


@pytest.mark.parametrize("path", ["/api/v1/things/", "/api/v1/things//parts", "/api/v1/board/threads//replies"])
async def test_no_parameter_is_empty(path: str) -> None:
    app = await front_of(*map(route, PATHS))
    async with client_of(app) as client:
        assert (await client.get(path)).headers["x-error-code"] == "path.spelling"
