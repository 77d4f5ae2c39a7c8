"""Log lines are JSON on stderr, have the id of their request, and never contain what clients wrote."""

import asyncio
import json
import logging
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from io import StringIO
from typing import Any

import structlog

from node import VERSION
from node.observe.log import MAX_TEXT, QUOTED, formatter
from node.web.http import Request, Response
from node.web.route import Route
from tests.support.nodes import ROOT
from tests.support.one_route import client_of, front_of


def logged(program: str, level: str = "info", status: int = 0) -> list[dict[str, Any]]:
    """Return what a process logs to stderr that configures its log, runs `program`, and exits with `status`."""
    prelude = f"import logging, warnings, structlog\nfrom node.observe.log import configure\nconfigure({level!r})\n"
    prelude += "log = structlog.stdlib.get_logger('node.test')\n"
    ran = subprocess.run(
        [sys.executable, "-c", prelude + program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout) == (status, "")
    return [json.loads(line) for line in ran.stderr.splitlines()]


def test_a_line_is_an_object_with_event_level_and_time() -> None:
    [line] = logged("log.info('task claimed', task='0193', attempt=2)")
    assert line.pop("timestamp").endswith("Z")
    assert line.pop("pid") > 0
    assert (line.pop("role"), line.pop("version")) == ("command", VERSION)
    assert line == {"event": "task claimed", "level": "info", "task": "0193", "attempt": 2}


def test_a_name_that_is_not_utf_8_has_escapes() -> None:
    """Otherwise a traceback appears in place of the log line."""
    [line] = logged(r"log.info('starting', config='relay\udcff.toml')")
    assert (line["event"], line["config"]) == ("starting", "relay\udcff.toml")


def test_every_line_of_a_request_has_its_id() -> None:
    within, after = logged(
        "with structlog.contextvars.bound_contextvars(request_id='r1'): logging.getLogger('node.a').info('within')\n"
        "log.info('after')"
    )
    assert within["request_id"] == "r1"
    assert "request_id" not in after


def test_lines_below_the_level_are_not_written() -> None:
    assert [line["event"] for line in logged("log.info('a'); log.warning('b'); log.error('c')", "warning")] == [
        "b",
        "c",
    ]
    assert [line["event"] for line in logged("log.debug('a'); log.info('b')", "debug")] == ["a", "b"]
    library = "logging.getLogger('httpx').warning('a'); logging.getLogger('httpx').error('b')"
    assert [line["event"] for line in logged(library, "error")] == ["b"]


def test_libraries_speak_from_warning_up_and_granian_from_our_level() -> None:
    lines = logged(
        "logging.getLogger('httpx').info('POST https://secret.example')\n"
        "logging.getLogger('httpx').warning('slow')\n"
        "logging.getLogger('_granian').info('listening')\n"
        "logging.getLogger('_granian.asgi.io').info('ASGI transport error: Closed')\n"  # the client has gone away
        "warnings.warn('old')"
    )
    assert [(line["logger"], line["level"]) for line in lines] == [
        ("httpx", "warning"),
        ("_granian", "info"),
        ("py.warnings", "warning"),
    ]


def test_a_traceback_names_the_lines_but_not_the_values() -> None:
    [line] = logged(
        "def handle(payload):\n    raise ValueError('not kept')\n"
        "try:\n    handle('the ' + 'secret text')\nexcept ValueError:\n    log.exception('bug')"
    )
    [raised] = line["exception"]
    assert (raised["exc_type"], raised["frames"][-1]["name"]) == ("ValueError", "handle")
    assert "secret text" not in json.dumps(line)


def test_an_exception_that_ends_a_process_is_a_line_like_any_other() -> None:
    """Python itself would print many lines, including the values that the exception quotes."""
    [line] = logged("configure('info', 'worker')\nraise ValueError('cannot read \\'the secret text\\'')", status=1)
    assert (line["event"], line["level"], line["role"]) == ("process failed", "critical", "worker")
    assert line["exception"][0]["exc_type"] == "ValueError"
    assert "secret text" not in json.dumps(line)


def test_a_command_that_fails_prints_what_python_prints() -> None:
    [line] = logged("import sys\nlog.info('x', is_usual=sys.excepthook is sys.__excepthook__)")
    assert (line["is_usual"], line["role"]) == (True, "command")


def test_a_process_keeps_its_role_when_only_its_log_level_changes() -> None:
    [line] = logged("configure('info', 'worker')\nconfigure('info')\nlog.info('x')")
    assert line["role"] == "worker"


def test_a_quotation_that_is_not_closed_is_hidden_to_the_end() -> None:
    assert QUOTED.sub("…", "it's 'a b' and 'c" + " 'd" * 1_000_000) == "it's … and …"


def test_a_long_text_is_cut_wherever_it_is() -> None:
    plain, raised = logged(
        "log.info('x' * 1000, nested={'list': ['y' * 1000]})\n"
        "try:\n    raise ValueError('z' * 1000)\nexcept ValueError:\n    log.exception('bug')"
    )
    for text in (plain["event"], plain["nested"]["list"][0], raised["exception"][0]["exc_value"]):
        assert len(text) == MAX_TEXT + 1


def test_any_value_can_be_logged() -> None:
    [line] = logged("import pathlib; log.info('x', path=pathlib.Path('/a'), kind=int, number=1.5)")
    assert (line["path"], line["kind"], line["number"]) == ("/a", "<class 'int'>", 1.5)


def test_a_log_that_nobody_reads_any_more_does_not_stop_the_program() -> None:
    program = (
        "import os, sys; from node.observe.log import configure; configure('info')\n"
        "import structlog; log = structlog.stdlib.get_logger('node.test')\n"
        "os.close(2)\n"
        "log.info('lost'); print('alive')"
    )
    ran = subprocess.run([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    assert ran.stdout == "alive\n"


def test_what_an_exception_quotes_is_not_in_the_log() -> None:
    number, key, group = logged(
        "def attempt(work):\n"
        "    try:\n        work()\n"
        "    except Exception:\n        log.exception('bug')\n"
        "payload = 'secret ' + 'text'\n"
        "attempt(lambda: int(payload))\n"
        "attempt(lambda: {}[payload])\n"
        "def many():\n    raise ExceptionGroup('several', [ValueError(f'bad: {payload!r}')])\n"
        "attempt(many)"
    )
    assert number["exception"][0]["exc_value"] == "invalid literal for int() with base 10: '…'"
    assert key["exception"][0]["exc_value"] == "'…'"
    assert "secret" not in json.dumps([number, key, group])


def test_what_an_exception_quotes_of_bytes_is_not_in_the_log() -> None:
    lines = logged(
        "for payload in (b'secret', b'secret isn\\'t', b'\\' secret \\' \"secret\" secret'):\n"
        "    for work in (int, lambda it: {}[it], lambda it: int(it.decode())):\n"
        "        try:\n            work(payload)\n"
        "        except Exception:\n            log.exception('bug')\n"
    )
    assert len(lines) == 9
    assert "secret" not in json.dumps([line["exception"][0]["exc_value"] for line in lines])


def test_what_a_library_quotes_is_not_in_the_log() -> None:
    [line] = logged("logging.getLogger('asyncio').error('Task: %r', ValueError('secret text, isn\\'t it'))")
    assert line["event"] == "Task: ValueError('…')"


async def test_lines_of_requests_that_overlap_have_the_id_that_each_client_got() -> None:
    both = asyncio.Barrier(2)
    log = structlog.stdlib.get_logger("node.test")

    async def handler(request: Request) -> Response:
        await both.wait()
        await asyncio.to_thread(log.warning, "within", told=request.id)
        raise ZeroDivisionError(request.path)

    route = Route(method="GET", path="/broken", handler=handler, summary="", tag="")
    with heard() as lines:
        async with client_of(await front_of(route)) as client:
            answers = await asyncio.gather(client.get("/broken"), client.get("/broken"))
    ids = {answer.headers["x-request-id"] for answer in answers}
    assert [answer.status_code for answer in answers] == [500, 500]
    assert len(ids) == 2
    assert {(line["told"], line["request_id"]) for line in lines if line["event"] == "within"} == {(i, i) for i in ids}
    assert {line["request_id"] for line in lines if line["event"] == "request failed"} == ids


@contextmanager
def heard() -> Generator[list[dict[str, Any]]]:
    """Yield a list that holds, after the block, the lines that this process logged within it."""
    written = StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(formatter())
    lines: list[dict[str, Any]] = []
    logging.getLogger().addHandler(handler)
    try:
        yield lines
    finally:
        logging.getLogger().removeHandler(handler)
        lines += [json.loads(line) for line in written.getvalue().splitlines()]
