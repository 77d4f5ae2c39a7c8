"""Uploads to the embedded store that are refused for what their headers say."""

from collections.abc import AsyncGenerator

import pytest

from node.web.http import ASGIMessage
from tests.artifacts.blobs import DATA, BlobServer, assert_refused, call


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"content-encoding": "gzip"}, "body.encoded"),
        ({"transfer-encoding": "chunked"}, "blob.length_required"),
        ({"content-length": "1"}, "blob.size"),
        ({"content-type": "text/html"}, "blob.type"),
    ],
)
async def test_what_does_not_fit_the_url_is_refused_before_anything_is_read(
    server: BlobServer, changed: dict[str, str], code: str
) -> None:
    read: list[ASGIMessage] = []

    async def pieces() -> AsyncGenerator[ASGIMessage]:
        read.append({"type": "http.request", "body": DATA, "more_body": False})
        yield read[0]

    headers = {"content-type": "text/csv", "content-length": str(len(DATA))} | changed
    assert_refused(await call(server.app, "PUT", await server.path(), headers, pieces()), code)
    assert (read, server.files()) == ([], [])
