"""A bucket whose TLS fails after the handshake is out of reach, like one that cannot be connected to."""

import os
import socket
import ssl
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from node.artifacts.blobs.bucket_files import BucketFiles
from node.artifacts.blobs.interface import BlobUnavailable
from node.artifacts.blobs.s3 import S3Store
from tests.artifacts.blobs import DATA, ID, grant_for
from tests.artifacts.swift import Swift

TLS = Path(__file__).parents[1] / "store" / "tls"

BAD_RECORD = b"\x17\x03\x03\x00\x20" + bytes(32)
"""A TLS record of application data that was encrypted with no key."""


@contextmanager
def broken_service() -> Generator[str]:
    """Yield the address of a server that completes the handshake, reads a request, and answers with a bad record."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / "cert.pem", TLS / "key.pem")
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    plain, _ = listener.accept()
                except OSError:  # the test is over
                    return
                with suppress(OSError), context.wrap_socket(plain, server_side=True) as connection:
                    connection.recv(65536)
                    os.write(connection.fileno(), BAD_RECORD)  # bypasses the TLS of this connection
                    connection.recv(1)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"https://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


async def test_a_tls_error_after_the_handshake_is_a_store_that_is_out_of_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(TLS / "cert.pem"))

    with broken_service() as address:
        aws = Swift(address)._asdict()
        store, files = S3Store.from_aws("s3://b", aws), BucketFiles.from_aws("s3://b", aws)
        for call in (store.size(ID), store.write(grant_for(), DATA), store.delete(ID), files.names()):
            with pytest.raises(BlobUnavailable, match="SSLError"):
                await call
        await store.close()
        await files.close()
