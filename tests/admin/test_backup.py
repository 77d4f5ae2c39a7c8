"""A backup made while a node serves, restored elsewhere, has every acknowledged write."""

import asyncio
import hashlib
import itertools
import json
import os
import subprocess
import sys
import threading
from base64 import b64encode
from pathlib import Path
from typing import Any, Self

import httpx2
import pytest

from node.admin.backup import Backup, BackupError, BackupFile, back_up
from node.admin.restore import BASE, LOG, restore
from node.config import Settings
from node.run.keychain import environment
from node.store import StoreUnavailable, connect
from node.store.address import ServerAddress, locate
from node.store.snapshot import primaries, snapshot
from tests.admin.conftest import MakeBackup
from tests.support.limits import NO_LIMITS_GIVEN
from tests.support.nodes import ROOT, NodeProcess
from tests.support.servers import PATIENCE, Cluster, RedisServer, until
from tests.support.users import shut

BYTES = b"id,name\n1,Ada\n2,Grace\n"
WRITTEN = 100
"""Number of messages acknowledged before the backup begins, and the least number acknowledged while it is made."""

KEY = "a-key-that-nobody-guesses"
"""Long enough that a repeated request gets the original answer with its token, however long backup and restore take."""


def command(folder: Path, *arguments: str, **given: str) -> subprocess.CompletedProcess[str]:
    """Run `relay-node` on a data directory."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RELAY_")}
    words = [sys.executable, "-m", "node", *arguments]
    return subprocess.run(
        words,
        cwd=ROOT,
        env=environment | {"RELAY_DATA_DIR": str(folder), "RELAY_LOG": "warning"} | given,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


class Agent:
    """Writes one of everything, and checks that all of it can be found again."""

    def __init__(self, url: str) -> None:
        self.client = httpx2.Client(base_url=url, timeout=PATIENCE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()

    def post(self, path: str, body: Any, **headers: str) -> Any:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        response = self.client.post(path, json=body, headers=named)
        assert response.status_code < 300, (path, response.text)
        return response.json()

    def get(self, path: str) -> Any:
        response = self.client.get(path, follow_redirects=True)
        assert response.status_code == 200, (path, response.text)
        return response.json() if "json" in response.headers["content-type"] else response.content

    def write(self) -> dict[str, Any]:
        """Write one of everything, and return the answers."""
        thread = self.post("/api/v1/board", {"title": "Looking for a CSV parser", "body": "Who can parse a table?"})
        self.post(f"/api/v1/board/{thread['id']}/replies", {"body": "I can do that for you"})
        session = self.post("/api/v1/sessions", {"ttl_seconds": 3600})
        self.post(f"/api/v1/sessions/{session['session_id']}/messages", {"body": "a line"})
        task = self.post("/api/v1/tasks", {"publisher_id": "p", "title": "Translate a memo"}, idempotency_key=KEY)
        claim = self.post(f"/api/v1/tasks/{task['id']}/claim", {"assignee_id": "ann"})
        message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "Hello there"}]}
        sent = self.post("/api/v1/message:send", {"message": message})["task"]
        private = self.post("/api/v1/relay", {"message": "Who can read a short memo?", "public": False})
        self.post("/api/v1/feedback", {"feedback_text": "The search finds my threads quickly. Thank you."})
        return {
            "thread": thread,
            "session": session,
            "task": task,
            "claim": claim,
            "message": sent,
            "private": private["reference_id"],
            "artifact": self.upload(),
        }

    def upload(self) -> str:
        digest = hashlib.sha256(BYTES)
        manifest = {
            "publisher_id": "p",
            "media_type": "text/csv",
            "byte_size": len(BYTES),
            "digest_sha256": digest.hexdigest(),
        }
        field = f"sha-256=:{b64encode(digest.digest()).decode()}:"
        artifact = self.post("/api/v1/artifacts", manifest, content_digest=field)
        put = self.client.put(artifact["upload_url"], content=BYTES, headers=artifact["upload_headers"])
        assert put.status_code == 200, put.text
        path = f"/api/v1/artifacts/{artifact['id']}"
        self.client.post(f"{path}/complete")
        until(lambda: self.get(path)["status"] == "available", "an artifact that is available")
        return artifact["id"]

    def relay(self, number: int) -> str:
        return self.post("/api/v1/relay", {"message": "Who can summarise this long report?", "n": number})[
            "reference_id"
        ]

    def finds(self, written: dict[str, Any]) -> None:
        """Check that everything is there, and that every token still works."""
        thread = self.get(f"/api/v1/board/{written['thread']['id']}")
        assert (thread["body"], thread["reply_count"]) == ("Who can parse a table?", 1)
        session = f"/api/v1/sessions/{written['session']['session_id']}"
        assert [line["body"] for line in self.get(f"{session}/messages")["lines"]] == ["a line"]
        assert self.post(f"{session}/messages", {"body": "another"})["seq"] == 2
        self.post(f"{session}/destroy", {"destroy_token": written["session"]["destroy_token"]})
        offer = {"publisher_id": "p", "title": "Translate a memo"}
        again = self.post("/api/v1/tasks", offer, idempotency_key=KEY)
        assert (again["id"], again["publisher_token"]) == (written["task"]["id"], written["task"]["publisher_token"])
        done = {"claim_token": written["claim"]["claim_token"], "result_payload": {"memo": "Friday."}}
        assert self.post(f"/api/v1/tasks/{written['task']['id']}/complete", done)["valid"]
        assert self.get(f"/api/v1/tasks/{written['message']['id']}")["id"] == written["message"]["id"]
        assert self.get(f"/api/v1/relay/{written['private']}")["payload"]["public"] is False
        assert self.get(f"/api/v1/artifacts/{written['artifact']}/content") == BYTES
        search = {"query": "CSV parser"}
        until(
            lambda: (
                written["thread"]["id"]
                in [hit["thread_id"] for hit in self.post("/api/v1/board/search", search)["hits"]]
            ),
            "a thread that is found",
        )


def test_what_was_acknowledged_before_a_backup_is_in_it(tmp_path: Path) -> None:
    old, new, backup = tmp_path / "old", tmp_path / "new", tmp_path / "backup"
    with NodeProcess(old) as node, Agent(node.url) as agent:
        node.start(RELAY_WORKERS="1", **NO_LIMITS_GIVEN).ready()
        written = agent.write()
        before = [agent.relay(number) for number in range(WRITTEN)]
        stop = threading.Event()
        during: list[str] = []

        def go_on() -> None:
            with Agent(node.url) as other:
                for number in itertools.count(WRITTEN):
                    if stop.is_set():
                        return
                    during.append(other.relay(number))

        writer = threading.Thread(target=go_on)
        writer.start()
        made = command(old, "admin", "backup", str(backup), "--json")
        until(lambda: len(during) >= WRITTEN, "writes beside the backup")
        stop.set()
        writer.join()
        assert made.returncode == 0, made.stderr
        assert json.loads(made.stdout)["blobs"] == 1
    assert not (old / "redis" / "dump.rdb").exists()

    restored = command(new, "restore", str(backup))
    assert restored.returncode == 0, restored.stderr
    assert command(new, "restore", str(backup)).returncode == 2
    with NodeProcess(new) as node, Agent(node.url) as agent:
        node.start(RELAY_WORKERS="1", **NO_LIMITS_GIVEN).ready()
        assert {agent.get(f"/api/v1/board/{each}")["id"] for each in before} == set(before)
        agent.finds(written)
        assert len(agent.get("/api/v1/board?limit=1")["threads"]) == 1


async def test_a_copy_of_a_server_is_what_it_had(tmp_path: Path) -> None:
    with RedisServer(tmp_path / "a", "--repl-diskless-sync-delay", "0") as server:
        location = locate(server.url)
        for sync in ("yes", "no"):  # with and without a length that is known in advance
            server.do("CONFIG", "SET", "repl-diskless-sync", sync)
            server.do("SET", "large", b"\x00\xff" * 3_000_000)
            server.do("SET", "sync", sync)
            path = tmp_path / f"{sync}.rdb"
            assert await snapshot(location.servers[0], location, path) == path.stat().st_size
            folder = tmp_path / sync
            folder.mkdir()
            (folder / "dump.rdb").write_bytes(path.read_bytes())
            with RedisServer(folder) as copy:
                assert copy.do("GET", "sync") == sync.encode()
                assert copy.do("STRLEN", "large") == 6_000_000
        server.do("CONFIG", "SET", "requirepass", "x y")
        with pytest.raises(StoreUnavailable, match="NOAUTH"):
            await snapshot(location.servers[0], location, tmp_path / "none.rdb")
        known = locate(server.url.replace("unix://", "unix://:x%20y@"))
        assert await snapshot(known.servers[0], known, tmp_path / "some.rdb")
    # Must not be reported as a fault of the backup's directory.
    with pytest.raises(StoreUnavailable, match="out of reach"):
        await snapshot(ServerAddress("relay.invalid", 6379), known, tmp_path / "gone.rdb")


async def test_every_primary_of_a_cluster_is_copied(tmp_path: Path) -> None:
    with Cluster(tmp_path / "cluster", 3, "--repl-diskless-sync-delay", "0") as cluster:
        settings = Settings(redis_url=cluster.url, data_dir=tmp_path / "data")
        async with await connect(cluster.url, timeout=5, max_in_flight=64) as store:
            found = await primaries(store, locate(cluster.url))
            assert len(found) == 3
            cluster.do("CONFIG", "SET", "cluster-preferred-endpoint-type", "unknown-endpoint")
            assert await primaries(store, locate(cluster.url)) == found, "whose host is not told is where it was asked"
            backup = await back_up(settings, store, tmp_path / "backup", {})
    assert [len(file.slots) for file in backup.redis] == [1, 1, 1]
    heads = [(tmp_path / "backup" / file.name).read_bytes()[:5] for file in backup.redis]
    assert set(heads) <= {b"REDIS", b"VALKE"}
    with pytest.raises(BackupError, match="cluster"):
        restore(Settings(data_dir=tmp_path / "new"), tmp_path / "backup")


def watched(directory: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Record the mode with which each file below `directory` is created, before anything is written to it."""
    modes: dict[str, int] = {}
    made = os.open

    def make(name: str, flags: int, mode: int = 0o777) -> int:
        descriptor = made(name, flags, mode)
        if flags & os.O_CREAT and directory in Path(name).parents:
            modes[str(Path(name).relative_to(directory))] = os.fstat(descriptor).st_mode & 0o777
        return descriptor

    monkeypatch.setattr(os, "open", make)
    return modes


@pytest.mark.parametrize("is_there", [True, False], ids=["a directory that is there", "a new directory"])
async def test_nobody_else_can_read_any_of_a_backup_from_its_first_byte_on(
    tmp_path: Path, make_backup: MakeBackup, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    data, backup = tmp_path / "data", tmp_path / "backup"
    (data / "blobs" / "ab").mkdir(parents=True)
    for name in ("secret", "signing-key", "blobs/ab/an-artifact"):
        (data / name).write_text("bytes")  # of mode 0644, which must not determine the mode of the copy
    if is_there:
        backup.mkdir(mode=0o755)
    old = os.umask(0)
    try:
        modes = watched(backup, monkeypatch)
        await make_backup(backup, data_dir=data)
        monkeypatch.undo()
        restore(Settings(data_dir=tmp_path / "new"), backup)
    finally:
        os.umask(old)
    files = ("redis-0.rdb", "secret", "signing-key", "blobs/ab/an-artifact", "blobs.jsonl", "backup.json.new")
    assert modes == dict.fromkeys(files, 0o600)
    assert {path.stat().st_mode & 0o777 for path in backup.rglob("*") if path.is_dir()} == {0o700}
    for directory in (backup, tmp_path / "new"):
        assert directory.stat().st_mode & 0o777 == 0o700
        found = {path.name: path.stat().st_mode & 0o777 for path in directory.rglob("*") if path.is_file()}
        assert found.pop("appendonly.aof.manifest", 0o600)
        assert set(found.values()) == {0o600}


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """A directory with the files of a backup, but without usable data."""
    folder = tmp_path / "backup"
    folder.mkdir()
    (folder / "redis-0.rdb").write_bytes(b"REDIS")
    file = BackupFile("redis-0.rdb", 5, hashlib.sha256(b"REDIS").hexdigest())
    backup = Backup(
        version="1", node_id="n", created_at="now", redis=[file], keys=[], blobs=0, blob_bytes=0, blob_url=""
    )
    (folder / "backup.json").write_text(json.dumps(backup, default=_plain))
    return folder


def _plain(struct: Any) -> Any:
    return {name: getattr(struct, name) for name in struct.__struct_fields__}


def test_a_backup_that_is_not_whole_restores_nothing(tmp_path: Path, whole: Path) -> None:
    settings = Settings(data_dir=tmp_path / "new")
    (whole / "redis-0.rdb").write_bytes(b"REDIX")
    with pytest.raises(BackupError, match="damaged"):
        restore(settings, whole)
    manifest = whole / "backup.json"
    for spoil in (lambda: manifest.write_bytes(b'{"version":"\xff"}'), manifest.unlink):
        spoil()
        with pytest.raises(BackupError, match="not a whole backup"):
            restore(settings, whole)
    assert not settings.data_dir.exists()


@pytest.mark.parametrize("field", ["keys", "blob_list"])
def test_a_key_and_the_list_of_artifacts_are_compared_with_what_was_written(
    tmp_path: Path, whole: Path, field: str
) -> None:
    name = {"keys": "secret", "blob_list": "blobs.jsonl"}[field]
    (whole / name).write_bytes(b"damaged")
    written = _plain(BackupFile(name, 7, hashlib.sha256(b"written").hexdigest()))
    manifest = json.loads((whole / "backup.json").read_text())
    (whole / "backup.json").write_text(json.dumps(manifest | {field: [written] if field == "keys" else written}))
    with pytest.raises(BackupError, match=f"{name} is missing or damaged"):
        restore(Settings(data_dir=tmp_path / "new"), whole)


def test_a_restore_tells_of_artifacts_that_were_damaged_before_the_backup(tmp_path: Path, whole: Path) -> None:
    manifest = json.loads((whole / "backup.json").read_text())
    (whole / "backup.json").write_text(json.dumps(manifest | {"damaged": ["an-artifact"]}))
    assert restore(Settings(data_dir=tmp_path / "new"), whole)[1] == ["an-artifact"]


async def test_what_expires_does_so_on_another_redis_too(tmp_path: Path) -> None:
    with RedisServer(tmp_path / "old") as old, RedisServer(tmp_path / "new") as new:
        old.do("SET", "for a while", "x", "PX", "600000")
        old.do("SET", "for good", "x")
        async with await connect(old.url, timeout=5, max_in_flight=64) as store:
            await back_up(Settings(redis_url=old.url, data_dir=tmp_path), store, tmp_path / "backup", {})
        settings = Settings(redis_url=new.url, data_dir=tmp_path / "node")
        await asyncio.to_thread(restore, settings, tmp_path / "backup")
        assert sorted(new.do("KEYS", "*")) == [b"for a while", b"for good"]
        assert 0 < new.do("PTTL", "for a while") <= 600_000
        assert new.do("PTTL", "for good") == -1


def test_a_backup_of_another_user_is_not_called_damaged(tmp_path: Path, whole: Path) -> None:
    with (
        shut(whole),
        pytest.raises(BackupError, match="cannot be read: Permission denied; run this command as the user who owns"),
    ):
        restore(Settings(data_dir=tmp_path / "node"), whole)


async def test_a_key_that_is_not_in_use_is_in_no_backup(tmp_path: Path, make_backup: MakeBackup) -> None:
    """A start without RELAY_SECRET creates a secret before it finds that the data belongs to another secret."""
    data = tmp_path / "data"
    made = environment(Settings(data_dir=data))
    one = await make_backup(tmp_path / "one", data_dir=data, secret="that of the environment", signing_key="")
    assert ([key.name for key in one.keys], one.keys_elsewhere) == (["signing-key"], ["RELAY_SECRET"])
    assert not (tmp_path / "one" / "secret").exists()
    both = await make_backup(tmp_path / "both", data_dir=data, secret=made["RELAY_SECRET"], signing_key="")
    assert both.keys_elsewhere == []


async def test_a_backup_that_cannot_look_for_the_keys_fails(tmp_path: Path, make_backup: MakeBackup) -> None:
    """With Python 3.14, looking for the keys could silently find none, and a backup without keys would be
    called whole.
    """
    nowhere = Path("/" + "x" * 300)  # inaccessible like another user's directory, whichever user runs the tests
    with pytest.raises(BackupError, match="secret: File name too long"):
        await make_backup(tmp_path / "backup", data_dir=nowhere)


def test_a_node_is_never_overwritten(tmp_path: Path, whole: Path) -> None:
    settings = Settings(data_dir=tmp_path / "new")
    restore(settings, whole)
    with pytest.raises(BackupError, match="holds a node already"):
        restore(settings, whole)
    with pytest.raises(BackupError, match="cannot read the backup"):
        restore(Settings(data_dir=tmp_path / "other", redis_url="redis://127.0.0.1:1"), whole)


def test_a_restore_goes_on_over_what_one_left_that_was_interrupted(tmp_path: Path, whole: Path) -> None:
    (whole / "secret").write_text("a secret")
    key = {"name": "secret", "byte_size": 8, "sha256": hashlib.sha256(b"a secret").hexdigest()}
    manifest = json.loads((whole / "backup.json").read_text())
    (whole / "backup.json").write_text(json.dumps(manifest | {"keys": [key]}))
    data = tmp_path / "new"
    log = data / "redis" / LOG
    log.with_name(f"{LOG}.new").mkdir(parents=True)
    for left in (data / "secret.new", log.with_name(f"{LOG}.new") / BASE):
        left.write_text("ha")
    restore(Settings(data_dir=data), whole)
    assert ((data / "secret").read_text(), (log / BASE).read_bytes()) == ("a secret", b"REDIS")
    assert sorted(path.name for path in data.iterdir()) == ["redis", "secret"]


async def test_a_backup_goes_into_a_directory_of_its_own(tmp_path: Path, whole: Path, make_backup: MakeBackup) -> None:
    with pytest.raises(BackupError, match="not empty"):
        await make_backup(whole, data_dir=tmp_path)


def test_artifacts_of_a_directory_are_not_restored_to_a_node_that_keeps_them_in_s3(tmp_path: Path, whole: Path) -> None:
    artifact = whole / "blobs" / "ab" / "an-artifact"
    artifact.parent.mkdir(parents=True)
    artifact.write_bytes(BYTES)
    manifest = json.loads((whole / "backup.json").read_text())
    (whole / "backup.json").write_text(json.dumps(manifest | {"blobs": 1, "blob_bytes": len(BYTES)}))
    artifact.with_suffix(".part").write_bytes(b"under way")
    settings = Settings(data_dir=tmp_path / "new", blob_url="s3://bucket")
    with pytest.raises(BackupError, match="RELAY_BLOB_URL"):
        restore(settings, whole)
    assert not settings.data_dir.exists()
    artifact.write_bytes(BYTES[1:])
    with pytest.raises(BackupError, match="does not hold the files that were backed up"):
        restore(settings, whole)
