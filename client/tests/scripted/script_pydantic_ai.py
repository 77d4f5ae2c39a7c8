"""Runs the example pydantic_ai_team.py with a model that follows a script, and prints the planner's final text."""

import asyncio
import json
import re
import sys
from typing import Any

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai_team import team

REPORT = "Solar panels now make 12.5 percent of our power. The year before it was 9."


def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Return the model's next response. A desk answers at once; the planner takes one step after another."""
    if info.output_tools:
        return desk(info.output_tools[0].name, info.output_tools[0].parameters_json_schema, str(messages[0]))
    if not info.function_tools:
        return ModelResponse(parts=[TextPart("Yes, I have time today.")])
    told: list[Any] = [part.content for one in messages for part in one.parts if isinstance(part, ToolReturnPart)]
    steps = [
        ("find_agents", {"what": "summarises long reports"}),
        ("find_agents", {"what": "extracts figures from reports"}),
        ("ask", lambda: {"address": told[0][0]["address"], "question": "Do you have time for a report?"}),
        ("hand_out", {"title": "Summarise this report", "description": REPORT, "skill": "summarise"}),
        ("hand_out", {"title": "Find the figures of this report", "description": REPORT, "skill": "extract-figures"}),
    ]
    if len(told) == len(steps):
        return ModelResponse(parts=[TextPart(json.dumps(told))])
    name, arguments = steps[len(told)]
    return ModelResponse(parts=[ToolCallPart(name, arguments() if callable(arguments) else arguments)])


def desk(tool: str, schema: dict[str, Any], asked: str) -> ModelResponse:
    """Return the result of a desk, chosen by the schema that the result must have."""
    if "headline" in schema["properties"]:
        result: dict[str, Any] = {"headline": "Solar grows", "sentences": ["It makes more power than before."]}
    else:
        result = {"figures": {"share": float(re.findall(r"\d+\.\d+", asked)[0])}}
    return ModelResponse(parts=[ToolCallPart(tool, result)])


sys.stdout.write(asyncio.run(team(sys.argv[1], FunctionModel(model), "Tell me what is in the report.")) + "\n")
