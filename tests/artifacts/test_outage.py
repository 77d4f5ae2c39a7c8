"""A bucket that fails for a while: work waits for it, and the log says so once, not at every attempt."""

import pytest
from structlog.testing import capture_logs

from node.artifacts import service, verify
from node.artifacts.outage import Outage
from node.store import keys
from node.store.ids import partition_of_id
from tests.artifacts.calls import ARTIFACTS, complete, node_on, read, registered
from tests.support.fixed_answer import FixedAnswer, answer
from tests.support.servers import RedisServer, eventually

AWS = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y"}
SMALL = {"publisher_id": "desk", "media_type": "text/plain", "text": "a few words"}


async def test_requests_verifications_and_sweeps_that_fail_are_one_line_of_the_log(
    empty_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    outage = Outage()
    for module in (service, verify):
        monkeypatch.setattr(module, "OUTAGE", outage)
    async with FixedAnswer(answer("503 Slow Down")) as bucket:
        aws = AWS | {"AWS_ENDPOINT_URL": bucket.url}
        async with node_on(empty_redis, blob_url="s3://bucket", aws=aws) as node:
            over, *waiting = [await registered(node) for _ in range(4)]
            await node.store.command("HSET", keys.artifact(over["id"]), "expires_at", 1)
            await node.store.command("ZADD", keys.artifacts(partition_of_id(over["id"])), 1, over["id"])
            for each in waiting:
                assert (await complete(node, each)).status_code == 202
            with capture_logs() as logged:
                for _ in range(3):
                    refused = await node.client.post(f"{ARTIFACTS}/inline", json=SMALL)
                    assert refused.headers["x-error-code"] == "blob.unavailable"
                async with node.worker():
                    await eventually(lambda: tried(bucket, b"HEAD") >= len(waiting) and tried(bucket, b"DELETE"))
            events = [line["event"] for line in logged]
            assert events.count("blob store is out of reach") == 1
            assert "event not handled" not in events
            assert {(await read(node, each))["status"] for each in waiting} == {"verifying"}
            due = await node.store.command("ZSCORE", keys.artifacts(partition_of_id(over["id"])), over["id"])
            assert due == b"1", "what could not be deleted counts on"


def tried(bucket: FixedAnswer, method: bytes) -> int:
    return sum(head.startswith(method) for head in bucket.heads)
