"""The inputSchema of a tool, made from the body or query of the operation that it calls.

It keeps to plain types: some clients refuse `format`, `anyOf` and type unions.
"""

from collections.abc import Collection, Sequence
from typing import Any, cast

from node.mcp.tool import Tool
from node.web.json_schema import MAX_SAFE_INTEGER, Schema, schema_of

BOUNDS = ("minimum", "maximum", "minLength", "maxLength", "default")


def input_schema(tool: Tool, query: Any, body: Any, required: Collection[str]) -> Schema:
    """The JSON Schema of the tool's arguments. `required`: those that are, of the ones in neither query nor body."""
    schemas = [schema_of(kind) for kind in (query, body) if kind]
    members: dict[str, Schema] = {name: member for one in schemas for name, member in one.get("properties", {}).items()}
    named = {*required, *(name for one in schemas for name in one.get("required", []))}
    needed = [name for name in tool.inputs if name in named]
    return {
        "type": "object",
        "properties": {
            name: _plain(members.get(name, {"type": "string"}), meaning, tool.choices.get(name, ()))
            for name, meaning in tool.inputs.items()
        },
        **({"required": needed} if needed else {}),
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
