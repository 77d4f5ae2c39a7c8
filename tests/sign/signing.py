"""A small RFC 9421 signer for tests, which can also sign what must not be signed.

The key is `test-key-ed25519` of RFC 9421 B.1.4; `NOW` is five seconds after its signatures.
"""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256

from nacl.signing import SigningKey

from node.sign.keys import PublicKey
from node.sign.request import Verified, verify
from node.sign.signature_base import PublicAddress, SignedMessage

SEED = bytes.fromhex("9f8362f87a484a954e6e740c5b4c0e84229139a20aa8ab56ff66586f6a7d29c5")
KEY = SigningKey(SEED)
PUBLIC = PublicKey(bytes(KEY.verify_key))
NOW = 1767225605
ADDRESS = PublicAddress.parse("https://node.example")
HWK = f'hwk;alg="Ed25519";kty="OKP";crv="Ed25519";x="{PUBLIC.x}"'
BODY = b'{"title":"Looking for a CSV parser","body":"Who can parse 40 MB of CSV in a sandbox?"}'
COVERED = ("@method", "@authority", "@path", "content-type", "content-digest", "signature-key")


def content_digest(content: bytes) -> str:
    """Return the Content-Digest field of `content`, with SHA-256 (RFC 9530)."""
    return f"sha-256=:{b64encode(sha256(content).digest()).decode()}:"


@dataclass
class Signed:
    """A request with a signature. Each part can be replaced before or after signing."""

    method: str = "POST"
    path: str = "/api/v1/board"
    query: str = ""
    body: bytes = BODY
    headers: dict[str, str] = field(default_factory=dict[str, str])
    more_lines: tuple[tuple[bytes, bytes], ...] = ()
    """Header lines after the others, for repeated names."""

    def with_header(self, name: str, value: str | None) -> "Signed":
        """Return the request with one header set, or removed."""
        headers = {key: old for key, old in self.headers.items() if key != name}
        return replace(self, headers=headers if value is None else {**headers, name: value})

    def lines(self) -> list[tuple[bytes, bytes]]:
        return [*((name.encode(), value.encode("latin-1")) for name, value in self.headers.items()), *self.more_lines]

    def judged(self, now: float = NOW, address: PublicAddress = ADDRESS) -> Verified | None:
        message = SignedMessage(self.method, address, self.path, self.query, self.lines())
        return verify(message, self.body, now)


def sign(
    covered: Sequence[str] = COVERED,
    params: str = ";created=1767225600",
    *,
    label: str = "sig",
    signature_key: str | None = f"sig={HWK}",
    request: Signed | None = None,
    key: SigningKey = KEY,
    extra: dict[str, str] | None = None,
) -> Signed:
    """Sign by hand: the signature base is written out here, not built by the code under test."""
    request = request or Signed()
    headers = {"host": "node.example", "content-type": "application/json", **request.headers, **(extra or {})}
    headers.setdefault("content-digest", content_digest(request.body))
    if signature_key is not None:
        headers["signature-key"] = signature_key
    target = request.path + (f"?{request.query}" if request.query else "")
    values = {
        **headers,
        "@method": request.method,
        "@authority": headers["host"].lower(),
        "@scheme": "https",
        "@path": request.path,
        "@query": f"?{request.query}",
        "@request-target": target,
        "@target-uri": f"https://{headers['host']}{target}",
    }
    signature_params = "(" + " ".join(f'"{name}"' for name in covered) + ")" + params
    lines = [f'"{name}": {values.get(name, "")}' for name in covered]
    base = "\n".join([*lines, f'"@signature-params": {signature_params}'])
    signature = b64encode(key.sign(base.encode("latin-1")).signature).decode()
    headers["signature-input"] = f"{label}={signature_params}"
    headers["signature"] = f"{label}=:{signature}:"
    return replace(request, headers=headers)
