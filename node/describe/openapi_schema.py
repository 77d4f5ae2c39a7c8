"""JSON Schema as OpenAPI 3.0.3 has it."""

from collections.abc import Mapping
from typing import Any, cast

from node.web.json_schema import Schema

COMPONENTS = "#/components/schemas/"
"""Where its references lead."""

_NAMED = ("properties", "$defs")
"""Members whose own members are named by us, not keywords of JSON Schema."""

NULL = {"enum": [None]}
"""Null alone, in OpenAPI 3.0.3: what has no type may be null."""


def openapi_30(schema: Any) -> Any:
    """A JSON Schema (2020-12) value as the Schema Object of OpenAPI 3.0.3.

    OpenAPI 3.0.3 knows neither null, const nor examples. A default of null only says that the member may be absent, so
    it is left out.
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
            # `nullable` adds null to the type beside it only (§4.7.24.1), so here null is a variant of its own.
            mapped["anyOf"] = [*kept, *([NULL] if len(kept) < len(variants) else [])]
        else:
            mapped |= kept[0] | {"nullable": True}
            if "enum" in mapped and None not in mapped["enum"]:
                mapped["enum"] = [*mapped["enum"], None]
    if mapped.get("required") == []:  # 3.0 requires at least one
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
    """Add `type`, unless null is among the values: without a type, OpenAPI 3.0.3 allows null by itself.

    With a type it would need `nullable` as well, and client generators make additional types of that.
    """
    enumeration.pop("nullable", None)
    enumeration.pop("type", None)
    values = cast("list[Any]", enumeration["enum"])
    if all(isinstance(value, str) for value in values):
        enumeration["type"] = "string"
    elif all(isinstance(value, bool) for value in values):
        enumeration["type"] = "boolean"
