"""The signer against the examples that AWS publishes ("Authenticating Requests (AWS Signature Version 4)", S3)."""

from datetime import UTC, datetime

from node.artifacts.blobs.sigv4 import Credentials, presign

KEY = Credentials(access_key_id="AKIAIOSFODNN7EXAMPLE", secret_access_key="wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
NOW = datetime(2013, 5, 24, tzinfo=UTC)
ORIGIN = "https://examplebucket.s3.amazonaws.com"


def test_a_presigned_url_is_the_one_of_the_documentation() -> None:
    url = presign(KEY, "GET", ORIGIN, "/test.txt", headers={}, query={}, seconds=86400, now=NOW)
    assert url == (
        f"{ORIGIN}/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256"
        "&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request"
        "&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host"
        "&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
    )


def test_a_session_token_is_signed() -> None:
    key = Credentials(access_key_id="A", secret_access_key="B", session_token="temporary+token")
    url = presign(key, "GET", ORIGIN, "/test.txt", headers={}, query={}, seconds=1, now=NOW)
    assert "&X-Amz-Security-Token=temporary%2Btoken&" in url


def test_the_host_is_signed_without_the_port_that_goes_without_saying() -> None:
    def signature(origin: str) -> str:
        return presign(KEY, "GET", origin, "/", headers={}, query={}, seconds=1, now=NOW).rpartition("=")[2]

    assert signature("https://s3.example:443") == signature("https://s3.example")
    assert signature("http://s3.example:80") == signature("http://s3.example")
    assert signature("http://s3.example:9000") != signature("http://s3.example")
