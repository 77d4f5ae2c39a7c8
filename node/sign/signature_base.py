"""The signature base of RFC 9421: the component values of a request, joined into the bytes that are signed.

What a signature must cover, and whether it verifies, is in `request.py`; `proof.py` rebuilds a base from a record.
"""

import re
from collections.abc import Iterable, Sequence

import msgspec

from node.sign.fields import MAX_FIELD, Malformed

DERIVED = frozenset(("@method", "@target-uri", "@authority", "@scheme", "@request-target", "@path", "@query"))
"""The derived components of a request that take no parameter (RFC 9421 §2.2)."""

_FIELD_NAME = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]+", re.ASCII)
_VALUE = re.compile(r"[\t\x20-\x7e]*", re.ASCII)
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}


class PublicAddress(msgspec.Struct, frozen=True):
    """The public address of the node, which clients sign."""

    scheme: str
    authority: str
    prefix: str
    """The path under which a proxy serves the node, without trailing slash; usually empty."""

    @classmethod
    def parse(cls, public_url: str) -> "PublicAddress":
        """Read `Settings.public_url`."""
        scheme, _, rest = public_url.partition("://")
        authority, slash, path = rest.partition("/")
        return cls(scheme.lower(), normal_authority(authority, scheme.lower()), (slash + path).rstrip("/"))


class SignedMessage(msgspec.Struct, frozen=True):
    """The parts of a request that can be signed. Header names are lower case, as in ASGI."""

    method: str
    address: PublicAddress
    path: str
    """As sent (`raw_path`), with its percent-encoding, but without the prefix, which the proxy has removed."""
    query: str
    """As sent (`query_string`)."""
    headers: Sequence[tuple[bytes, bytes]]

    def component(self, name: str) -> str:
        """Return the value of a component without parameters (RFC 9421 §2.1, §2.2). Raises Malformed."""
        value = self._derived(name) if name in DERIVED else self.field(name)
        if value is None:
            raise Malformed(f"the signature covers {name}, which the request does not have")
        if len(value) > MAX_FIELD or not _VALUE.fullmatch(value):
            raise Malformed(f"the value of {name} is longer than {MAX_FIELD} characters or not plain ASCII")
        return value

    def field(self, name: str) -> str | None:
        """Return all lines of a field, trimmed and joined in order; None if there are none."""
        wanted = name.encode("latin-1", "replace")
        lines = [value.strip(b" \t").decode("latin-1") for key, value in self.headers if key == wanted]
        return ", ".join(lines) if lines else None

    def host(self) -> str | None:
        """Return the Host of the request, normalised; None if it is missing, empty or repeated."""
        hosts = [value for name, value in self.headers if name == b"host"]
        if len(hosts) != 1 or not hosts[0].strip():
            return None
        return normal_authority(hosts[0].strip().decode("latin-1"), self.address.scheme)

    def _derived(self, name: str) -> str:
        path = self.address.prefix + (self.path or "/")
        target = f"{path}?{self.query}" if self.query else path
        match name:
            case "@method":
                return self.method
            case "@authority":
                return self.address.authority
            case "@scheme":
                return self.address.scheme
            case "@path":
                return path
            case "@query":
                return f"?{self.query}"
            case "@request-target":
                return target
            case _:
                return f"{self.address.scheme}://{self.address.authority}{target}"


def normal_authority(authority: str, scheme: str) -> str:
    """Return an authority in lower case, without the scheme's default port (RFC 9421 §2.2.3)."""
    return authority.lower().removesuffix(_DEFAULT_PORTS.get(scheme, "\0"))


def signature_base(components: Iterable[tuple[str, str]], params: str) -> bytes:
    """Return the bytes that are signed (RFC 9421 §2.5).

    Raises Malformed for a name or value that could be read as another line: a stored proof may come from anywhere.
    """
    lines: list[str] = []
    for name, value in components:
        if not (name in DERIVED or _FIELD_NAME.fullmatch(name)) or not _VALUE.fullmatch(value):
            raise Malformed("a component has a name or value that cannot be signed")
        lines.append(f'"{name}": {value}')
    if not _VALUE.fullmatch(params):
        raise Malformed("the signature parameters are not plain ASCII")
    return "\n".join([*lines, f'"@signature-params": {params}']).encode("ascii")
