"""JSON Schema of msgspec types."""

from collections.abc import Iterable
from inspect import cleandoc
from typing import Any

import msgspec

Schema = dict[str, Any]

DRAFT = "https://json-schema.org/draft/2020-12/schema"
MAX_SAFE_INTEGER = 2**53
"""Largest integer that every JSON reader represents exactly (RFC 8259 §6). Where a schema has it as its maximum, that
is the only reason."""

IN_DOCUMENT = "#/$defs/"


class Schemas:
    """The schemas of some types: a definition for each named type, and the schema to write where a type is used."""

    def __init__(self, types: Iterable[Any], root: str = IN_DOCUMENT, bodies: Iterable[Any] = ()) -> None:
        """`bodies`: the types of request bodies, where null stands for the default of any member (`json`)."""
        self._types = list(dict.fromkeys(types))
        uses, definitions = msgspec.json.schema_components(
            self._types, schema_hook=_anything, ref_template=root + "{name}"
        )
        if clashing := [name for name in definitions if "." in name]:
            # msgspec distinguishes them by module names, which would be bad names in generated code.
            raise ValueError(f"types that are published under one name: {', '.join(clashing)}")
        self._uses = dict(zip(self._types, uses, strict=True))
        self.root = root
        self.definitions: dict[str, Schema] = definitions
        for definition in definitions.values():
            if "description" in definition:  # readers treat it as Markdown, where an indented line is code
                definition["description"] = cleandoc(definition["description"])
        for kind in bodies:
            _allow_null(self.whole(self._uses[kind]))

    def use(self, kind: Any) -> Schema:
        """Return the schema to write where the type is used: a reference, or the schema itself if it has no name."""
        return self._uses[kind]

    def whole(self, schema: Schema) -> Schema:
        """Return `schema`, or the definition that it refers to if it is a reference."""
        ref = schema.get("$ref")
        return self.definitions[ref.removeprefix(self.root)] if ref else schema


def schema_of(kind: Any) -> Schema:
    """Return the schema of one struct."""
    schemas = Schemas([kind])
    return schemas.whole(schemas.use(kind))


def _allow_null(body: Schema) -> None:
    """Let members that have a default be null."""
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
    """Return a JSON Schema document with the types as `$defs`, and for each name a property that refers to its type."""
    schemas = Schemas(types.values())
    return msgspec.json.encode(
        {
            "$schema": DRAFT,
            "title": title,
            "properties": {name: schemas.use(kind) for name, kind in types.items()},
            "$defs": schemas.definitions,
        }
    )
