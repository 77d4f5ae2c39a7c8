"""The operator's commands on a Redis Cluster, where two keys need not be on one server."""

import asyncio
import json
import os
from pathlib import Path

import pytest

from node.cli import main
from node.store import keys
from node.store.slots import slot_of
from tests.board.calls import BOARD, QUESTION
from tests.support.node_under_test import running, settings_for, until
from tests.support.servers import Cluster


async def test_every_command_of_the_operator_works_on_a_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Cluster(tmp_path / "cluster", primaries=3) as cluster:
        monkeypatch.setenv("RELAY_REDIS_URL", cluster.url)
        monkeypatch.setenv("RELAY_LOG", "warning")
        async with running(settings_for(cluster.url, data_dir=tmp_path / "data", store_timeout=5.0)) as node:
            thread = (await node.client.post(BOARD, json=QUESTION)).json()
            for arguments in (
                ["threads", "purge", thread["id"]],
                ["threads", "list"],
                ["feedback", "list"],
                ["callbacks", "pending"],
                ["callbacks", "redrive", "--all"],
                ["artifacts", "list"],
                ["clients", "block", "203.0.113.7"],
                ["clients", "list"],
                ["reindex"],
                ["audit"],
            ):
                assert await asyncio.to_thread(main, ["admin", *arguments]) == 0, arguments
            capsys.readouterr()
            assert await asyncio.to_thread(main, ["admin", "status", "--json"]) == 0
            status = json.loads(capsys.readouterr().out)
            assert (status["primaries"], status["threads"]["open"]) == (3, 0)

            async def is_blocked() -> bool:
                return (await node.client.get(BOARD)).status_code == 403

            await until(is_blocked)


async def test_while_a_primary_is_lost_a_client_can_be_blocked_and_status_names_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Cluster(tmp_path / "cluster", 3, "--cluster-require-full-coverage", "no", node_timeout=1.0) as cluster:
        monkeypatch.setenv("RELAY_REDIS_URL", cluster.url)
        monkeypatch.setenv("RELAY_LOG", "error")
        needed = [cluster.primary_of(slot_of(key)) for key in (keys.IDENTITY, keys.BLOCKED, keys.AUDIT)]
        lost = next(server for server in cluster.servers[:3] if server not in needed)
        cluster.lose(lost)

        async def can_block() -> bool:  # once the members have agreed to go on without it
            return await asyncio.to_thread(main, ["admin", "clients", "block", "203.0.113.7"]) == 0

        await until(can_block)
        capsys.readouterr()
        assert await asyncio.to_thread(main, ["admin", "status"]) == os.EX_TEMPFAIL
        assert f"Redis at 127.0.0.1:{lost.port} is out of reach: " in capsys.readouterr().err
