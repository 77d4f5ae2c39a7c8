"""The five prompts: procedures that an agent can follow without knowing this node (SPEC 4.9)."""

from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Raw

from node.mcp.json_rpc import INVALID_PARAMS, RpcError, members_of, read_params
from node.recipes.markdown import MarkdownFile, load

ARGUMENTS: Mapping[str, tuple[str, str] | None] = {
    "swarm_scratchpad": ("goal", "What the agents want to achieve together"),
    "task_delegation": ("title", "The work in one line"),
    "find_a_peer": ("query", "What the peer should be able to do or know"),
    "byte_offload": ("media_type", "IANA media type of the bytes, such as text/csv"),
    "echo_benchmark": None,
}
"""Name and meaning of each prompt's only argument, which is required; None for a prompt without one."""


FOLDER = Path(__file__).parent / "prompts"


class GetParams(msgspec.Struct):
    """The params of prompts/get."""

    name: str
    arguments: dict[str, str] | None = None


_params = msgspec.json.Decoder(GetParams)


class Prompts:
    """The prompts, with the URL of this node filled in."""

    def __init__(self, base_url: str) -> None:
        self._files: dict[str, MarkdownFile] = {name: load(FOLDER, name, base_url) for name in ARGUMENTS}

    def listed(self) -> list[dict[str, object]]:
        """Return the prompts as prompts/list shows them."""
        return [
            {
                "name": name,
                "title": file.title,
                "description": file.description,
                "arguments": [
                    {"name": argument[0], "description": argument[1], "required": True}
                    for argument in [ARGUMENTS[name]]
                    if argument
                ],
            }
            for name, file in self._files.items()
        ]

    def get(self, params: Raw) -> bytes:
        """Return the members of a GetPromptResult. Raises RpcError."""
        wanted = read_params(_params, params)
        file = self._files.get(wanted.name)
        if file is None:
            raise RpcError(INVALID_PARAMS, f"Unknown prompt: {wanted.name}")
        text = file.body
        if (argument := ARGUMENTS[wanted.name]) is not None:
            name = argument[0]
            value = (wanted.arguments or {}).get(name, "").strip()
            if not value:
                raise RpcError(INVALID_PARAMS, f"Missing argument: {name}")
            text = text.replace(f"{{{{{name}}}}}", value)
        message = {"role": "user", "content": {"type": "text", "text": text}}
        return members_of({"description": file.description, "messages": [message]})
