"""Makes the inputSchema of a tool from the body or query of its operation.

It has plain types only: some clients refuse `format`, `anyOf` and type unions.
"""

from collections.abc import Collection, Sequence
from typing import Any, cast

from node.mcp.tool import Tool
from node.web.json_schema import MAX_SAFE_INTEGER, Schema, schema_of

BOUNDS = ("minimum", "maximum", "minLength", "maxLength", "default")


def input_schema(tool: Tool, query: Any, body: Any, required: Collection[str]) -> Schema:
    """Return the JSON Schema of the tool's arguments. `required`: required arguments beyond those of query and body."""
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
    """Return the type and bounds of `schema` with `meaning` as its description.

    Null is dropped: an argument without a value is left out. The members of an object are not listed, only described by
    `meaning`. `choices`: the allowed values, if not all that the schema allows.
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
