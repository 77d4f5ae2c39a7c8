"""Requests that can be copied: curl lines made from a route."""

import shlex

import msgspec

from node.describe.openapi import PARAMETER, takes_json
from node.describe.sample import answer_of, sample
from node.web.json_schema import Schemas
from node.web.route import Route

TEXT_EXAMPLE = "Hello from one agent to another."


def curl(route: Route, base: str) -> list[str]:
    """The parts of a curl command for the operation. Path parameters are shell variables: `$ID`."""
    words = ["curl -sS "]
    takes_body = takes_json(route) or route.text_body
    if route.method not in {"GET", "POST"} or (route.method == "POST" and not takes_body):
        words[0] += f"-X {route.method} "
    url = base + PARAMETER.sub(lambda match: "$" + match[1].upper(), route.path)
    words[0] += f'"{url}?{route.asks}"' if route.asks else url
    words += [f"-H {shlex.quote(f'{needed.name}: {needed.example}')}" for needed in route.needs]
    if takes_json(route):
        words += ["-H 'Content-Type: application/json'", f"-d {shlex.quote(body_text(route))}"]
    elif route.text_body:
        words += ["-H 'Content-Type: text/plain'", f"-d {shlex.quote(TEXT_EXAMPLE)}"]
    return words


def body_text(route: Route) -> str:
    """The example body on one line; made from the schema where the route names none."""
    example = route.example
    if example is None:
        schemas = Schemas([route.body])
        example = sample(schemas.use(route.body), schemas, full=False)
    return msgspec.json.encode(example).decode()


def answer_text(route: Route, schemas: Schemas, base: str) -> str | None:
    """The shape of the answer on one line; None where it is not JSON."""
    if route.answers is None:
        return None
    return msgspec.json.encode(answer_of(route, schemas, base)).decode()
