"""The inputSchema of a tool, made from the body or query of the operation that it calls.

It keeps to plain types: some clients refuse `format`, `anyOf` and type unions.
"""

from collections.abc import Sequence
from typing import Any, cast

from node.mcp.tool import Tool
from node.web.json_schema import MAX_SAFE_INTEGER, Schema, schema_of

BOUNDS = ("minimum", "maximum", "minLength", "maxLength", "default")


def input_schema(tool: Tool, path: str, query: Any, body: Any) -> Schema:
    """The JSON Schema of the tool's arguments. One that is in neither body nor query is in the path or a header."""
    schemas = [schema_of(kind) for kind in (query, body) if kind]
    members: dict[str, Schema] = {name: member for one in schemas for name, member in one.get("properties", {}).items()}
    named = {name for one in schemas for name in one.get("required", [])}
    named |= {name for name in tool.inputs if f"{{{name}}}" in path}
    named |= {name for name, header in tool.headers.items() if header.required}
    required = [name for name in tool.inputs if name in named]
    return {
        "type": "object",
        "properties": {
            name: _plain(members.get(name, {"type": "string"}), meaning, tool.choices.get(name, ()))
            for name, meaning in tool.inputs.items()
        },
        **({"required": required} if required else {}),
        "additionalProperties": tool.open_inputs,
    }


def _plain(schema: Schema, meaning: str, choices: Sequence[str]) -> Schema:
    """The type and bounds of `schema`, without null: an argument that has no value is left out.

    What an object consists of, its meaning says. `choices`: the values that it may have, if not all of the schema's.
    """
    variants = [schema, *cast("list[Schema]", schema.get("anyOf", []))]
    merged: Schema = {name: value for one in variants if one != {"type": "null"} for name, value in one.items()}
    if "$ref" in merged:
        merged["type"] = "object"
    values: list[Any] = [*choices] or [value for value in merged.get("enum", []) if value is not None]
    return {
        **({"type": "string" if values else merged["type"]} if values or "type" in merged else {}),
        "description": meaning,
        **({"enum": values} if values else {}),
        **({"items": {"type": merged["items"]["type"]}} if "items" in merged else {}),
        **{
            name: merged[name]
            for name in BOUNDS
            if merged.get(name) is not None and (name, merged[name]) != ("maximum", MAX_SAFE_INTEGER)
        },
    }
