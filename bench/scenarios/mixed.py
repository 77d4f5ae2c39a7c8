"""A mixed day: the requests of agents in fixed shares, 2 % of them hostile, on a whole node."""

import itertools
from collections.abc import Callable

from bench.client import Call, head, request
from bench.entities import Sessions, relay_messages, sessions, task_calls, tasks, threads
from bench.lab import Lab
from bench.payload import Template, encoded, sentence
from bench.scenario import Scenario

RATE = 500.0
DAY = "mixed day, 2 % hostile"

REFUSALS = (400, 404, 405, 409, 413, 415, 422)

RELAY = "/api/v1/relay"
# Requests of careless or malicious clients. Each must get one of REFUSALS.
HOSTILE: tuple[bytes, ...] = (
    request(
        "POST",
        RELAY,
        '{"message":"Это сообщение написано совсем не по-английски, и никто здесь такого не просил."}'.encode(),
    ),
    request(
        "POST", RELAY, b'{"message":"Este mensaje no est\xc3\xa1 escrito en ingl\xc3\xa9s sino en espa\xc3\xb1ol."}'
    ),
    request("POST", RELAY, b'{"message":'),
    request("POST", RELAY, b'{"message":"bad bytes \xff\xfe"}'),
    request("POST", RELAY, b'{"a":' * 500 + b"1" + b"}" * 500),
    request("POST", RELAY, b"message=hello", "application/x-www-form-urlencoded"),
    request("POST", "/api/v1/board", b'{"title":5,"body":null}'),
    request("GET", "/api/v1/board?limit=minus-one"),
    request("GET", "/api/v1/board/threads/no-such-thread"),
    request("GET", "/api/v1/sessions/../../etc/passwd/messages"),
    request("PUT", RELAY, b"{}"),
    request("POST", "/api/v1/tasks/no-such-task/claim", b'{"assignee_id":"nobody"}'),
    request("POST", "/api/v1/board/no-such-thread/report", encoded({"reason": "It is spam."})),
    request("POST", "/api/v1/feedback", encoded({"feedback_text": "short"})),
    head("POST", RELAY, 2 * 1024 * 1024),  # announces a body larger than is allowed, and sends none of it
)


async def run(lab: Lab) -> None:
    async with lab.node() as node:
        ids: list[str] = []
        await lab.fill(node, threads(lab, ids), 500, "threads")
        lines = Sessions(await sessions(lab, node, 64))
        offered = itertools.cycle(await tasks(lab, node, 200))
        read = itertools.cycle([request("GET", f"/api/v1/board/threads/{each}") for each in ids])
        replies = itertools.cycle([Template("POST", f"/api/v1/board/{each}/replies") for each in ids])
        hostile = itertools.cycle(HOSTILE)
        relay, post = relay_messages(lab), threads(lab)
        lists = itertools.cycle([request("GET", "/api/v1/board"), request("GET", "/api/v1/tasks?status=offered")])

        def reply(number: int) -> Call:
            return Call(next(replies)(encoded({"body": sentence(number)})), "reply", (201,))

        def claim(number: int) -> Call:
            path = f"/api/v1/tasks/{next(offered)}/claim"
            return Call(request("POST", path, b'{"assignee_id":"agent-%d"}' % number), "claim", (200, 409))

        # Shares in percent; together 100.
        shares: tuple[tuple[int, Callable[[int], Call]], ...] = (
            (30, relay),
            (24, lines.send),
            (18, lines.poll),
            (4, post),
            (4, reply),
            (8, lambda _number: Call(next(read), "read")),
            (4, lambda _number: Call(next(lists), "list")),
            (3, task_calls(lab)),
            (3, claim),
            (2, lambda _number: Call(next(hostile), "hostile", REFUSALS)),
        )
        hundred = [what for share, what in shares for _ in range(share)]
        # 37 is coprime to 100, so the kinds are spread evenly instead of coming in blocks.
        day = lab.numbered(lambda number: hundred[number * 37 % 100](number // 7))
        await lab.at_rate(node, day, DAY, lab.options.rate or RATE)


SCENARIO = Scenario("mixed", "a mixed day with 2 % hostile input", run)
