"""Reads Signature-Input, Signature and Signature-Key as typed values, and any field that is a dictionary.

`http_sf` parses structured fields. This module gives its results the types of RFC 9421, bounds their size, and raises
`Malformed` for any other shape. What a signature must cover is in `request.py`.
"""

from typing import NoReturn, cast

import http_sf
import msgspec
from http_sf.types import BareItemType, ParamsType

MAX_FIELD = 4096  # bytes of one field, all of its lines together
MAX_LABELS = 4  # signatures in one request
MAX_COMPONENTS = 16  # covered by one signature

Item = tuple[BareItemType, ParamsType]
Members = dict[str, tuple[BareItemType | list[Item], ParamsType]]
"""The members of a dictionary as the parser returns them. A value without parameters is in a tuple, too."""


class Malformed(ValueError):
    """A field or component cannot be read. The message says which one, and what is wrong with it."""


class SignatureInput(msgspec.Struct, frozen=True):
    """The components that one signature covers, and its parameters (RFC 9421 §4.1)."""

    items: list[Item]
    params: ParamsType

    def components(self) -> tuple[str, ...]:
        """Return the names of the covered components in order.

        Raises Malformed for a name with a parameter: `sf`, `bs`, `key`, `req` and `tr` change what a component means,
        and no request to a node needs them.
        """
        names: list[str] = []
        for value, params in self.items:
            if not isinstance(value, str):
                raise Malformed("a covered component is not named by a string")
            if params:
                raise Malformed(f"the component {value} has parameters; sign it without them")
            names.append(value)
        if len(names) > MAX_COMPONENTS:
            raise Malformed(f"the signature covers {len(names)} components; at most {MAX_COMPONENTS} are allowed")
        if len(set(names)) != len(names):
            raise Malformed("the signature covers a component twice")
        return tuple(names)

    def text(self) -> str:
        """Return the value of `@signature-params`: the member as RFC 8941 serialises it."""
        return http_sf.ser([([*self.items], self.params)])

    def integer(self, name: str) -> int | None:
        """Return an integer parameter, or None. Raises Malformed if it is of another type."""
        value = self.params.get(name)
        if value is not None and type(value) is not int:  # a bare `;created` is True, which is an int
            raise Malformed(f"the signature parameter {name} is not an integer")
        return value

    def string(self, name: str) -> str | None:
        """Return a string parameter, or None. Raises Malformed if it is of another type."""
        value = self.params.get(name)
        if value is not None and not isinstance(value, str):
            raise Malformed(f"the signature parameter {name} is not a string")
        return value


class SignatureKey(msgspec.Struct, frozen=True):
    """How the key of one signature is conveyed (draft-hardt-httpbis-signature-key-08)."""

    scheme: str
    params: ParamsType

    def string(self, name: str) -> str:
        """Return a string or token parameter; empty if it is missing or of another type."""
        value = self.params.get(name)
        return str(value) if isinstance(value, str | http_sf.Token) else ""


def read_inputs(field: str) -> dict[str, SignatureInput]:
    """Read Signature-Input, by label. Raises Malformed."""
    inputs: dict[str, SignatureInput] = {}
    for label, (value, params) in _members("Signature-Input", field).items():
        if not isinstance(value, list):
            raise Malformed(f"Signature-Input {label} is not a list of components in parentheses")
        inputs[label] = SignatureInput(value, params)
    return inputs


def read_signatures(field: str) -> dict[str, bytes]:
    """Read Signature, by label. Raises Malformed."""
    signatures: dict[str, bytes] = {}
    for label, (value, _) in _members("Signature", field).items():
        if not isinstance(value, bytes):
            raise Malformed(f"Signature {label} is not a byte sequence, such as {label}=:<base64>:")
        signatures[label] = value
    return signatures


def read_keys(field: str) -> dict[str, SignatureKey]:
    """Read Signature-Key, by label. Raises Malformed."""
    keys: dict[str, SignatureKey] = {}
    for label, (value, params) in _members("Signature-Key", field).items():
        if not isinstance(value, http_sf.Token):
            raise Malformed(f"Signature-Key {label} does not begin with a scheme, such as {label}=hwk")
        keys[label] = SignatureKey(str(value), params)
    return keys


def _members(name: str, field: str) -> Members:
    members = dictionary(name, field.encode("latin-1", "replace"))
    if len(members) > MAX_LABELS:
        raise Malformed(f"{name} has {len(members)} labels; at most {MAX_LABELS} are allowed")
    return members


def dictionary(name: str, field: bytes) -> Members:
    """Return the members of a dictionary field, each with its parameters. Raises Malformed."""

    def refuse_duplicate(key: str, where: str) -> NoReturn:
        raise Malformed(f"{name} has the {'member' if where == 'dictionary' else where} {key} twice")

    if len(field) > MAX_FIELD:
        raise Malformed(f"{name} is longer than {MAX_FIELD} bytes")
    try:
        return cast("Members", http_sf.parse(field, tltype="dictionary", on_duplicate_key=refuse_duplicate))
    except http_sf.StructuredFieldError as error:
        raise Malformed(f"{name} is not a structured dictionary: {error}") from error
