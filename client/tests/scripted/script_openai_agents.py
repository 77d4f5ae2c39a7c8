"""Runs the example openai_agents_pair.py with models that follow a script, and prints the planner's final text."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

import steps
from agents import Model, ModelResponse, Usage, set_tracing_disabled
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
from openai_agents_pair import pair

NAME = "openai-agents-planner"


class Scripted(Model):
    """A model that takes the next step of its script."""

    def __init__(self, script: Callable[[str, list[str]], steps.Step]) -> None:
        self.script = script

    async def get_response(
        self,
        system_instructions: str | None,
        input: Any,  # noqa: A002  # its name in the SDK
        *more: Any,
        **options: Any,
    ) -> ModelResponse:
        items = [] if isinstance(input, str) else input
        told = [text_of(one["output"]) for one in items if one.get("type") == "function_call_output"]
        step = self.script(NAME, told)
        if isinstance(step, str):
            text = ResponseOutputText(annotations=[], text=step, type="output_text")
            said: Any = ResponseOutputMessage(
                id="1", content=[text], role="assistant", status="completed", type="message"
            )
        else:
            call, arguments = f"call-{len(told)}", json.dumps(step[1])
            said = ResponseFunctionToolCall(call_id=call, name=step[0], arguments=arguments, type="function_call")
        return ModelResponse(output=[said], usage=Usage(), response_id=None)

    def stream_response(self, *more: Any, **options: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


def text_of(output: Any) -> str:
    """Return the text in the MCP content that a tool returned, which the SDK passes on as JSON."""
    found = json.loads(output) if isinstance(output, str) else output
    if isinstance(found, list):
        found = found[0]
    return found["text"] if isinstance(found, dict) and "text" in found else json.dumps(found)


set_tracing_disabled(True)
sys.stdout.write(
    asyncio.run(pair(sys.argv[1], Scripted(steps.planner), Scripted(steps.worker), "Summarise this.")) + "\n"
)
