"""The two blob stores: the embedded one behind Granian, and a real S3 service with a bucket."""

from collections.abc import AsyncGenerator, Generator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest

from node.artifacts.blobs.sigv4 import Credentials, presign
from tests.artifacts.blobs import BlobServer, served
from tests.artifacts.swift import BUCKET, Swift, running
from tests.support.servers import PATIENCE


@pytest.fixture
def overrides(tmp_path: Path) -> dict[str, Any]:
    """Keep the blobs of the node under test where no other test keeps any."""
    return {"blob_reserve": 0, "data_dir": tmp_path}


@pytest.fixture
async def server(tmp_path: Path) -> AsyncGenerator[BlobServer]:
    async with served(BlobServer(tmp_path / "blobs")) as running:
        yield running


@pytest.fixture(scope="session")
def swift(tmp_path_factory: pytest.TempPathFactory) -> Generator[Swift]:
    with running(tmp_path_factory.mktemp("swift")) as service:
        key = Credentials(access_key_id=service.AWS_ACCESS_KEY_ID, secret_access_key=service.AWS_SECRET_ACCESS_KEY)
        origin, now = service.AWS_ENDPOINT_URL, datetime.now(UTC)
        url = presign(key, "PUT", origin, f"/{BUCKET}", headers={}, query={}, seconds=600, now=now)
        made = httpx2.put(url, timeout=PATIENCE)
        assert made.status_code == 200, made.text
        yield service
