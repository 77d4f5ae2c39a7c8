"""The intake in a real Granian."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.support.nodes import ROOT
from tests.support.servers import free_port, until


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def client(log: Path) -> Iterator[httpx2.Client]:
    """A client of a Granian that serves `failing.app`."""
    port = free_port()
    command = [
        sys.executable,
        "-m",
        "granian",
        "--interface",
        "asgi",
        "--port",
        str(port),
        "tests.overload.failing:app",
    ]
    with (
        log.open("wb") as output,
        subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output) as granian,
        httpx2.Client(base_url=f"http://127.0.0.1:{port}") as client,
    ):

        def answers() -> bool:
            assert granian.poll() is None, log.read_text()
            try:
                return client.get("/").text == "fine"
            except httpx2.ConnectError:
                return False

        try:
            until(answers, "Granian answers")
            yield client
        finally:
            granian.terminate()


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_whoever_gets_no_answer_of_the_application_gets_one_of_granian(
    client: httpx2.Client, log: Path, method: str
) -> None:
    for path in ("/raises", "/is-cancelled", "/says-nothing"):
        assert client.request(method, path, content=b"{}").status_code == 500
    assert client.request(method, "/", content=b"{}").text == "fine"
    assert "OSError: nobody expected it" in log.read_text()
    assert "protocol failure" not in log.read_text(), "Granian was not told that the application has ended"


def test_a_request_that_is_begun_while_granian_hands_it_over_gets_its_body(client: httpx2.Client) -> None:
    """The intake must not replace the callback of an application that already waits for the body, or it would wait for
    ever.
    """
    assert client.post("/reads", content=b"{}").text == "fine"
