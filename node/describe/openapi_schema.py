"""Converts JSON Schema to the dialect of OpenAPI 3.0.3."""

from collections.abc import Mapping
from typing import Any, cast

from node.web.json_schema import Schema

COMPONENTS = "#/components/schemas/"
"""Prefix of references to component schemas."""

_NAMED = ("properties", "$defs")
"""Keywords whose members have names of the node's own, not keywords of JSON Schema."""

NULL = {"enum": [None]}
"""Schema of null alone. In OpenAPI 3.0.3, a schema without a type allows null."""


def openapi_30(schema: Any) -> Any:
    """Convert a JSON Schema (2020-12) value to a Schema Object of OpenAPI 3.0.3.

    OpenAPI 3.0.3 has no null type, no const and no examples. A default of null only says that the member may be absent,
    so it is dropped.
    """
    if isinstance(schema, list):
        return [openapi_30(member) for member in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    mapped: Schema = {
        name: openapi_30(value) if name not in _NAMED else {each: openapi_30(one) for each, one in value.items()}
        for name, value in cast("Mapping[str, Any]", schema).items()
        if name != "examples" and (name != "default" or value is not None)
    }
    variants: list[Any] = mapped.pop("anyOf", [])
    if variants:
        kept = [variant for variant in variants if variant != {"type": "null"}]
        if len(kept) > 1 or "$ref" in kept[0]:
            # `nullable` only extends the `type` beside it (§4.7.24.1), so here null becomes a variant of its own.
            mapped["anyOf"] = [*kept, *([NULL] if len(kept) < len(variants) else [])]
        else:
            mapped |= kept[0] | {"nullable": True}
            if "enum" in mapped and None not in mapped["enum"]:
                mapped["enum"] = [*mapped["enum"], None]
    if mapped.get("required") == []:  # OpenAPI 3.0 requires at least one name
        del mapped["required"]
    if "const" in mapped:
        mapped["enum"] = [mapped.pop("const")]
    if isinstance(mapped.get("enum"), list):
        _type_enumeration(mapped)
    for bound in ("Minimum", "Maximum"):
        exclusive = mapped.pop(f"exclusive{bound}", None)
        if exclusive is not None:
            mapped |= {bound.lower(): exclusive, f"exclusive{bound}": True}
    return mapped


def _type_enumeration(enumeration: Schema) -> None:
    """Set the `type` of an enumeration, unless null is among its values.

    Without a type, OpenAPI 3.0.3 allows null. With one, `nullable` would be needed as well, for which client generators
    make additional types.
    """
    enumeration.pop("nullable", None)
    enumeration.pop("type", None)
    values = cast("list[Any]", enumeration["enum"])
    if all(isinstance(value, str) for value in values):
        enumeration["type"] = "string"
    elif all(isinstance(value, bool) for value in values):
        enumeration["type"] = "boolean"
