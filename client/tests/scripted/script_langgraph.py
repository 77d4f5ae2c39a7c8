"""Runs the example langgraph_pair.py with models that follow a script, and prints the planner's final text."""

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import steps
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph_pair import pair

NAME = "langgraph-planner"


class Scripted(BaseChatModel):
    """A model that takes the next step of its script."""

    script: Callable[[str, list[str]], steps.Step]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **options: Any) -> "Scripted":
        return self

    def _generate(self, messages: list[BaseMessage], *options: Any, **more: Any) -> ChatResult:
        told = [one.text for one in messages if isinstance(one, ToolMessage)]
        step = self.script(NAME, told)
        if isinstance(step, str):
            message = AIMessage(step)
        else:
            message = AIMessage("", tool_calls=[{"name": step[0], "args": step[1], "id": f"call-{len(told)}"}])
        return ChatResult(generations=[ChatGeneration(message=message)])


said = asyncio.run(pair(sys.argv[1], Scripted(script=steps.planner), Scripted(script=steps.worker), "Summarise this."))
sys.stdout.write(said + "\n")
