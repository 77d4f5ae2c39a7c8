"""The metrics port listens at the address that RELAY_ADMIN_HOST names."""

import asyncio
import http.client
import re
import socket
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from node.config import Settings
from node.observe.metrics import server
from node.observe.metrics.gauges import disk_figures
from node.observe.metrics.server import AdminPages, AdminRequest, AdminResponse, Instance, MetricsServer
from node.observe.metrics.snapshots import Reading
from node.store import StoreUnavailable, connect
from tests.support.node_under_test import NodeUnderTest
from tests.support.servers import PATIENCE


async def no_figures() -> list[Reading]:
    return []


async def no_pages(_request: AdminRequest) -> AdminResponse:
    return AdminResponse(HTTPStatus.NOT_FOUND, [], b"")


@asynccontextmanager
async def served(instance: Instance, pages: AdminPages = no_pages, host: str = "127.0.0.1") -> AsyncGenerator[int]:
    """Run the server of an instance, and yield its port."""
    with MetricsServer((host, 0), instance, pages, asyncio.get_running_loop()) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        yield serving.server_address[1]
        await asyncio.to_thread(serving.shutdown)


def status_of(host: str, port: int, path: str) -> int:
    client = http.client.HTTPConnection(host, port, timeout=PATIENCE)
    try:
        client.request("GET", path)
        return client.getresponse().status
    finally:
        client.close()


async def test_disks_are_reported_while_redis_is_away(tmp_path: Path) -> None:
    async def gone() -> list[Reading]:
        raise StoreUnavailable("gone")

    settings = Settings(data_dir=tmp_path)
    async with await connect("redis://127.0.0.1:1", timeout=1, max_in_flight=1) as store:
        instance = Instance(tmp_path, store, gone, [], here=partial(disk_figures, settings))
        told = (await instance.respond("/metrics", "")).body.decode()
    assert "relay_store_up 0" in told
    assert 'relay_disk_free_bytes{use="blobs"}' in told


async def test_what_was_read_of_redis_is_shown_for_a_moment_and_what_runs_even_without_it(
    node: NodeUnderTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = Reading("relay_build_info", ("1.0.0", "relay-node", "always"), 1)
    answers = iter(([about, Reading("relay_threads", ("open",), 7)],))

    async def figures() -> list[Reading]:
        if (answer := next(answers, None)) is None:
            raise StoreUnavailable("gone")
        return answer

    async def page() -> str:
        return (await instance.respond("/metrics", "")).body.decode()

    monkeypatch.setattr(server, "STORE_FIGURES_SECONDS", 60)
    instance = Instance(tmp_path, node.store, figures, [])
    for _ in range(2):
        assert 'relay_threads{state="open"} 7.0' in await page()
    monkeypatch.setattr(server, "STORE_FIGURES_SECONDS", 0)
    told = await page()
    assert "relay_store_up 0.0" in told
    assert re.search(r'^relay_build_info\{.*durability="always".*\} 1\.0$', told, re.MULTILINE)
    assert "relay_threads{" not in told


def answer_to(port: int, method: str, path: str, **headers: str) -> int:
    """Return the status of a request with exactly these headers."""
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        client.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in headers.items():
            client.putheader(name.replace("_", "-"), value)
        client.endheaders()
        return client.getresponse().status
    finally:
        client.close()


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/live", {}, 200),
        ("GET", "/admin/threads", {}, 202),
        ("GET", "/administrator", {}, 404),
        ("POST", "/admin/act/hide", {"Content_Length": "0"}, 202),
        ("POST", "/admin/act/hide", {"Content_Length": "0", "Host": "evil.example"}, 421),
        ("POST", "/metrics", {"Content_Length": "0", "Host": "evil.example"}, 421),
        ("POST", "/metrics", {"Content_Length": "0"}, 405),
        ("POST", "/admin/act/hide", {}, 411),
        ("POST", "/admin/act/hide", {"Content_Length": "-1"}, 411),
        ("POST", "/admin/act/hide", {"Content_Length": str(server.MAX_FORM_BYTES + 1)}, 413),
        ("POST", "/admin/act/hide", {"Content_Length": "9" * 5000}, 413),
    ],
)
async def test_only_forms_of_its_pages_are_taken(
    node: NodeUnderTest, tmp_path: Path, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    async def pages(_request: AdminRequest) -> AdminResponse:
        return AdminResponse(HTTPStatus.ACCEPTED, [], b"")

    instance = Instance(tmp_path, node.store, no_figures, [])
    async with served(instance, pages) as port:
        found = await asyncio.to_thread(answer_to, port, method, path, **headers)
    assert found == status


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_it_may_be_an_address_of_either_ip_version(host: str, node: NodeUnderTest, tmp_path: Path) -> None:
    instance = Instance(tmp_path, node.store, no_figures, [])
    async with served(instance, host=host) as port:
        status = await asyncio.to_thread(status_of, host, port, "/live")
    assert status == HTTPStatus.OK


async def test_what_takes_too_long_is_given_up_and_answered_so(
    node: NodeUnderTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "REQUEST_DEADLINE", 0.05)
    monkeypatch.setattr(server, "STORE_DEADLINE", 60)
    given_up = asyncio.Event()

    async def stuck() -> list[Reading]:
        try:
            await asyncio.Event().wait()
        finally:
            given_up.set()
        return []

    instance = Instance(tmp_path, node.store, stuck, [])
    async with served(instance) as port:
        status = await asyncio.to_thread(status_of, "127.0.0.1", port, "/metrics")
        await asyncio.wait_for(given_up.wait(), PATIENCE)
    assert status == HTTPStatus.GATEWAY_TIMEOUT


async def test_no_name_server_is_asked_before_the_port_is_open(
    node: NodeUnderTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise, for an address without a name in /etc/hosts, silent name servers would keep the port closed for ten
    seconds.
    """
    asked: list[str] = []
    monkeypatch.setattr(socket, "gethostbyaddr", asked.append)
    monkeypatch.setattr(socket, "getfqdn", asked.append)
    instance = Instance(tmp_path, node.store, no_figures, [])
    with MetricsServer(("127.0.0.1", 0), instance, no_pages, asyncio.get_running_loop()):
        assert asked == []


async def test_a_request_that_fails_is_one_line_of_the_log_and_one_whose_client_has_gone_is_none(
    node: NodeUnderTest, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    failures: list[Exception] = [ConnectionResetError("gone"), ValueError("a fault")]

    async def fail(_request: AdminRequest) -> AdminResponse:
        raise failures.pop(0)

    instance = Instance(tmp_path, node.store, no_figures, [])
    with capture_logs() as lines:
        async with served(instance, fail) as port:
            for _ in range(2):
                with pytest.raises(http.client.RemoteDisconnected):
                    await asyncio.to_thread(status_of, "127.0.0.1", port, "/admin")
    assert [line["event"] for line in lines if line["log_level"] != "info"] == ["request to the admin port failed"]
    assert "Traceback" not in capfd.readouterr().err
