"""The inputSchema of a tool, made from the body or query of the operation that it calls.

It keeps to plain types: some clients refuse `format`, `anyOf` and type unions.
"""

from typing import Any, cast

from node.mcp.tools import Tool
from node.web.json_schema import MAX_SAFE_INTEGER, Schema, schema_of
from node.web.route import Route

BOUNDS = ("minimum", "maximum", "minLength", "maxLength", "default")


def input_schema(tool: Tool, route: Route) -> Schema:
    """The JSON Schema of the tool's arguments. An argument that is no member of body or query is a path parameter."""
    kind = route.body or route.query
    schema = schema_of(kind) if kind else {}
    members: dict[str, Schema] = schema.get("properties", {})
    required = [name for name in tool.inputs if name not in members or name in schema.get("required", [])]
    return {
        "type": "object",
        "properties": {
            name: _plain(members.get(name, {"type": "string"}), meaning) for name, meaning in tool.inputs.items()
        },
        **({"required": required} if required else {}),
        "additionalProperties": tool.open_inputs,
    }


def _plain(schema: Schema, meaning: str) -> Schema:
    """The type and bounds of `schema`, without null: an argument that has no value is left out."""
    variants = [schema, *cast("list[Schema]", schema.get("anyOf", []))]
    merged: Schema = {name: value for one in variants if one != {"type": "null"} for name, value in one.items()}
    values: list[Any] = [value for value in merged.get("enum", []) if value is not None]
    return {
        **({"type": "string" if values else merged["type"]} if values or "type" in merged else {}),
        "description": meaning,
        **({"enum": values} if values else {}),
        **{
            name: merged[name]
            for name in BOUNDS
            if merged.get(name) is not None and (name, merged[name]) != ("maximum", MAX_SAFE_INTEGER)
        },
    }
