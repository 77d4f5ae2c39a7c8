"""JSON Schema of our types, as documents of their own and as OpenAPI components."""

from typing import Any

import msgspec


def schema_document(title: str, **types: type[msgspec.Struct]) -> bytes:
    """A JSON Schema document whose `$defs` hold the types, and name each by what it is used for."""
    _, components = msgspec.json.schema_components(types.values(), ref_template="#/$defs/{name}")
    return msgspec.json.encode(
        {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": title,
            "properties": {name: {"$ref": f"#/$defs/{kind.__name__}"} for name, kind in types.items()},
            "$defs": components,
        }
    )


def openapi_30(schema: Any) -> Any:
    """A JSON Schema (2020-12) value as the Schema Object of OpenAPI 3.0.3, which knows neither null nor const."""
    if isinstance(schema, list):
        return [openapi_30(member) for member in schema]  # pyright: ignore[reportUnknownVariableType]
    if not isinstance(schema, dict):
        return schema
    mapped: dict[str, Any] = {name: openapi_30(value) for name, value in schema.items()}  # pyright: ignore[reportUnknownVariableType]
    variants: list[Any] = mapped.pop("anyOf", [])
    if variants:
        kept = [variant for variant in variants if variant != {"type": "null"}]
        nullable = {"nullable": True} if len(kept) < len(variants) else {}
        only = kept[0] if len(kept) == 1 else {"anyOf": kept}
        # A reference takes no siblings in 3.0, so it is wrapped.
        mapped |= ({"allOf": [only]} if "$ref" in only else only) | nullable
    if "const" in mapped:
        mapped["enum"] = [mapped.pop("const")]
    if mapped.get("enum") and None in mapped["enum"]:
        mapped["enum"] = [value for value in mapped["enum"] if value is not None]
        mapped["nullable"] = True
    for bound in ("Minimum", "Maximum"):
        exclusive = mapped.pop(f"exclusive{bound}", None)
        if exclusive is not None:
            mapped |= {bound.lower(): exclusive, f"exclusive{bound}": True}
    return mapped
