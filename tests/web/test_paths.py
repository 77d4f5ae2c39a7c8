"""Which operations exist at a path, and how a path refuses others."""

from typing import cast

import pytest

from node.web.errors import response_to, sentence
from node.web.http import Fault, Handler, Request, Response
from node.web.paths import Paths
from node.web.route import Route

NOBODY = cast("Handler", None)


def own(_request: Request, _failure: Exception) -> Response:
    raise AssertionError


def other(_request: Request, _failure: Exception) -> Response:
    raise AssertionError


def route(method: str, path: str, fault: Fault | None = None, media_type: str = "application/json") -> Route:
    return Route(method=method, path=path, handler=NOBODY, summary="", tag="", fault=fault, media_type=media_type)


ROUTES = [
    route("GET", "/things"),
    route("POST", "/things", own),
    route("GET", "/things/{id}", own),
    route("POST", "/things/{id}:stop", other),
    route("GET", "/things/all"),
    route("GET", "/things/{id}/parts/{part}"),
    route("GET", "/api/v1/lists"),
    route("GET", "/page", own, "text/html"),
    Route(method="GET", path="/asset", handler=NOBODY, summary="", tag="", hidden=True),
]

PATHS = Paths(ROUTES)


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/things", "GET, HEAD, OPTIONS, POST"),
        ("/things/", "GET, HEAD, OPTIONS, POST"),
        ("/things/7", "GET, HEAD, OPTIONS"),
        ("/things/7:stop", "OPTIONS, POST"),
        ("/things/7:start", "GET, HEAD, OPTIONS"),
        ("/things/7/parts/8", "GET, HEAD, OPTIONS"),
        ("/others/7", "OPTIONS"),
        ("/nothing", "OPTIONS"),
        ("", "OPTIONS"),
        ("*", "GET, HEAD, OPTIONS, POST"),
    ],
)
def test_a_path_takes_the_methods_of_its_operations(path: str, allowed: str) -> None:
    assert PATHS.allowed(path) == allowed


def test_a_page_is_what_answers_with_html() -> None:
    assert [path for path in ("/page", "/page/", "/things", "/nothing") if PATHS.is_page(path)] == ["/page", "/page/"]


def test_a_constant_path_has_no_parameter() -> None:
    assert PATHS.constant == {b"/things", b"/things/all", b"/api/v1/lists", b"/page", b"/asset"}


@pytest.mark.parametrize(
    ("method", "path", "fault"),
    [
        ("GET", "/things", response_to),
        ("POST", "/things", own),
        ("DELETE", "/things", own),
        ("POST", "/things/7", own),
        ("GET", "/things/7:stop", other),
        ("DELETE", "/things/all", response_to),
        ("GET", "/page", response_to),
        ("GET", "/nothing", response_to),
    ],
)
def test_a_path_refuses_in_the_form_of_the_operation_or_else_of_another_one_there(
    method: str, path: str, fault: Fault
) -> None:
    assert PATHS.fault(method, path) is fault


@pytest.mark.parametrize(
    ("method", "path", "near"),
    [
        ("POST", "/parts/7", "GET /below/things/{id}/parts/{part} or "),
        ("GET", "/api/v1/stop", "POST /below/things/{id}:stop or "),
        ("GET", "/thing", "GET /below/things, GET /below/things/all, GET /below/things/{id} or "),
        ("POST", "/thing", "POST /below/things, POST /below/things/{id}:stop, GET /below/things or "),
        (
            "GET",
            "/all/parts/things/7",
            "GET /below/things/all, GET /below/things/{id}/parts/{part}, GET /below/things or ",
        ),
        ("GET", "/page/7", ""),
        ("GET", "/asset/7", ""),
        ("GET", "/{id}", ""),
        ("GET", "/v1/api", ""),
        ("GET", "/1/2/3/4/5/6/7/8/things", ""),
    ],
)
def test_the_refusal_of_an_unknown_path_names_the_operations_that_share_most_of_its_words(
    method: str, path: str, near: str
) -> None:
    paths = Paths(ROUTES, "/below")
    where = near + "the node's llms.txt, which lists the operations"
    assert sentence(paths.unknown(method, path)) == f"There is nothing at this path; look at {where}."
