"""The five prompts: procedures that an agent can follow which has never seen this node (SPEC 4.9)."""

from collections.abc import Mapping

import msgspec

from node.mcp.json_rpc import INVALID_PARAMS, Raw, RpcError
from node.mcp.markdown import MarkdownFile, load

ARGUMENTS: Mapping[str, tuple[str, str] | None] = {
    "swarm_scratchpad": ("goal", "What the agents want to reach together"),
    "task_delegation": ("title", "The work in one line"),
    "find_a_peer": ("query", "What the peer should be able to do, or know"),
    "byte_offload": ("media_type", "IANA media type of the bytes, such as text/csv"),
    "echo_benchmark": None,
}
"""The prompts, and the one argument of each: its name and meaning. All that exist are required."""


class GetParams(msgspec.Struct):
    """The params of prompts/get."""

    name: str
    arguments: dict[str, str] | None = None


_params = msgspec.json.Decoder(GetParams)
_encode = msgspec.json.Encoder().encode


class Prompts:
    """The prompts of one node."""

    def __init__(self, base_url: str) -> None:
        self._texts: dict[str, MarkdownFile] = {name: load("prompts", name, base_url) for name in ARGUMENTS}

    def listed(self) -> list[dict[str, object]]:
        """As prompts/list shows them."""
        return [
            {
                "name": name,
                "title": text.title,
                "description": text.description,
                "arguments": [_argument(argument) for argument in [ARGUMENTS[name]] if argument],
            }
            for name, text in self._texts.items()
        ]

    def get(self, params: Raw) -> bytes:
        """The members of a GetPromptResult. Raises RpcError."""
        try:
            wanted = _params.decode(params)
        except msgspec.ValidationError as error:
            raise RpcError(INVALID_PARAMS, f"Invalid params: {error}") from None
        text = self._texts.get(wanted.name)
        if text is None:
            raise RpcError(INVALID_PARAMS, f"Unknown prompt: {wanted.name}")
        message = {"role": "user", "content": {"type": "text", "text": _filled(text, wanted.arguments or {})}}
        return b'"description":%b,"messages":%b' % (_encode(text.description), _encode([message]))


def _filled(text: MarkdownFile, arguments: Mapping[str, str]) -> str:
    argument = ARGUMENTS[text.name]
    if argument is None:
        return text.body
    name, _ = argument
    value = arguments.get(name, "").strip()
    if not value:
        raise RpcError(INVALID_PARAMS, f"Missing argument: {name}")
    return text.body.replace(f"{{{{{name}}}}}", value)


def _argument(argument: tuple[str, str]) -> dict[str, object]:
    name, meaning = argument
    return {"name": name, "description": meaning, "required": True}
