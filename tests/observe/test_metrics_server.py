"""The port of the metrics is at the address that RELAY_ADMIN_HOST names."""

import asyncio
import http.client
import threading
from functools import partial
from http import HTTPStatus
from pathlib import Path

import pytest

from node.config import Settings
from node.observe.metrics import server
from node.observe.metrics.gauges import disk_figures
from node.observe.metrics.server import AdminRequest, AdminResponse, Instance, MetricsServer
from node.observe.metrics.snapshots import Reading
from node.store import StoreUnavailable, connect
from tests.support.node_under_test import NodeUnderTest


async def no_figures() -> list[Reading]:
    return []


async def no_pages(_request: AdminRequest) -> AdminResponse:
    return AdminResponse(HTTPStatus.NOT_FOUND, [], b"")


def status_of(host: str, port: int, path: str) -> int:
    client = http.client.HTTPConnection(host, port, timeout=10)
    try:
        client.request("GET", path)
        return client.getresponse().status
    finally:
        client.close()


async def test_disks_are_reported_while_redis_is_away(tmp_path: Path) -> None:
    async def gone() -> list[Reading]:
        raise StoreUnavailable("gone")

    settings = Settings(data_dir=tmp_path)
    store = await connect("redis://127.0.0.1:1", timeout=1, max_in_flight=1)
    instance = Instance(tmp_path, store, gone, [], here=partial(disk_figures, settings))
    told = (await instance.respond("/metrics", ""))[2].decode()
    await store.close()
    assert "relay_store_up 0" in told
    assert 'relay_disk_free_bytes{use="blobs"}' in told


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_it_may_be_an_address_of_either_ip_version(host: str, node: NodeUnderTest, tmp_path: Path) -> None:
    instance = Instance(tmp_path, node.store, no_figures, [])
    with MetricsServer((host, 0), instance, no_pages, asyncio.get_running_loop()) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        status = await asyncio.to_thread(status_of, host, server.server_address[1], "/live")
        await asyncio.to_thread(server.shutdown)
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
    with MetricsServer(("127.0.0.1", 0), instance, no_pages, asyncio.get_running_loop()) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        status = await asyncio.to_thread(status_of, "127.0.0.1", serving.server_address[1], "/metrics")
        await asyncio.wait_for(given_up.wait(), 60)
        await asyncio.to_thread(serving.shutdown)
    assert status == HTTPStatus.GATEWAY_TIMEOUT
