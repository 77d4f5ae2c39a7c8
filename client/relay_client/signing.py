"""Signs requests (RFC 9421, Ed25519) with a key from a file. Needs the extra `sign`."""

import hashlib
import secrets
import time
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Mapping
from pathlib import Path

from nacl.signing import SigningKey

from relay_client.keyfile import kept_in

TAG = "relay-node"


class KeyFile:
    """A signing key in a file, which is created if it does not exist: `Relay(url, signer=KeyFile("agent.key"))`.

    Raises PermissionError if others may read the file, ValueError if it has no key.
    """

    def __init__(self, path: "Path | str") -> None:
        self._key = SigningKey(kept_in(path, lambda: bytes(SigningKey.generate())))

    @property
    def public(self) -> str:
        """The public key, as records show it."""
        return urlsafe_b64encode(bytes(self._key.verify_key)).decode().rstrip("=")

    @property
    def address(self) -> str:
        """The address of this key's inbox: its thumbprint (RFC 7638 §3)."""
        members = f'{{"crv":"Ed25519","kty":"OKP","x":"{self.public}"}}'
        return urlsafe_b64encode(hashlib.sha256(members.encode()).digest()).decode().rstrip("=")

    def headers(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> dict[str, str]:
        """Return the headers to add to a request. A signature is accepted only once, so make a new one for each try."""
        key = f'sig=hwk;alg="Ed25519";kty="OKP";crv="Ed25519";x="{self.public}"'
        covered = {"@method": method, "@target-uri": url}
        added = {"Signature-Key": key}
        if body is not None:
            digest = f"sha-256=:{b64encode(hashlib.sha256(body).digest()).decode()}:"
            covered |= {"content-type": headers["Content-Type"], "content-digest": digest}
            added["Content-Digest"] = digest
        covered["signature-key"] = key
        names = " ".join(f'"{name}"' for name in covered)
        nonce = secrets.token_urlsafe(16)
        params = f'({names});created={int(time.time())};nonce="{nonce}";alg="ed25519";tag="{TAG}"'
        lines = [*(f'"{name}": {value}' for name, value in covered.items()), f'"@signature-params": {params}']
        signature = b64encode(self._key.sign("\n".join(lines).encode()).signature).decode()
        return {**added, "Signature-Input": f"sig={params}", "Signature": f"sig=:{signature}:"}
