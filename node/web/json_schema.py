"""JSON Schema of msgspec types."""

from collections.abc import Iterable
from inspect import cleandoc
from typing import Any

import msgspec

Schema = dict[str, Any]

DRAFT = "https://json-schema.org/draft/2020-12/schema"
MAX_SAFE_INTEGER = 2**53
"""The largest integer that every JSON reader keeps exactly (RFC 8259 §6). A schema's maximum of this means no more."""

IN_DOCUMENT = "#/$defs/"


class Schemas:
    """The schemas of some types: a definition for each type that has a name, and what to write where one is used."""

    def __init__(self, types: Iterable[Any], root: str = IN_DOCUMENT, bodies: Iterable[Any] = ()) -> None:
        """`bodies`: the types that are request bodies, where null stands for the default of any member (`json`)."""
        self._types = list(dict.fromkeys(types))
        uses, definitions = msgspec.json.schema_components(
            self._types, schema_hook=_anything, ref_template=root + "{name}"
        )
        if clashing := [name for name in definitions if "." in name]:
            # msgspec tells them apart by their modules, which make no good names in code generated from a document.
            raise ValueError(f"types that are published under one name: {', '.join(clashing)}")
        self._uses = dict(zip(self._types, uses, strict=True))
        self.root = root
        self.definitions: dict[str, Schema] = definitions
        for definition in definitions.values():
            if "description" in definition:  # readers take it for Markdown, where an indented line is code
                definition["description"] = cleandoc(definition["description"])
        for kind in bodies:
            _allow_null(self.whole(self._uses[kind]))

    def use(self, kind: Any) -> Schema:
        """The schema to write where the type is used: a reference, or the whole schema if the type has no name."""
        return self._uses[kind]

    def whole(self, schema: Schema) -> Schema:
        """`schema`, or what it refers to if it is a reference."""
        ref = schema.get("$ref")
        return self.definitions[ref.removeprefix(self.root)] if ref else schema


def schema_of(kind: Any) -> Schema:
    """The schema of one struct."""
    schemas = Schemas([kind])
    return schemas.whole(schemas.use(kind))


def _allow_null(body: Schema) -> None:
    """Let the members that have a default be null."""
    members: dict[str, Schema] = body.get("properties", {})
    for member in members.values():
        if member.get("default") is not None:
            kind = {word: member.pop(word) for word in list(member) if word not in {"default", "description"}}
            member["anyOf"] = [kind, {"type": "null"}]


def _anything(kind: type) -> Schema:
    if kind is object:
        return {"description": "Any JSON"}
    raise NotImplementedError(f"{kind} has no JSON Schema")


def schema_document(title: str, **types: Any) -> bytes:
    """A JSON Schema document with the types as `$defs`, and a property for each name that refers to its type."""
    schemas = Schemas(types.values())
    return msgspec.json.encode(
        {
            "$schema": DRAFT,
            "title": title,
            "properties": {name: schemas.use(kind) for name, kind in types.items()},
            "$defs": schemas.definitions,
        }
    )
