"""An agent on a2a-sdk that acknowledges every message as a completed task."""

# This runs in .venv-bench, whose packages the type checker does not see.
# pyright: basic, reportMissingImports=false

from a2a.helpers.proto_helpers import new_task_from_user_message, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_rest_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from starlette.applications import Starlette

CARD = AgentCard(
    name="acknowledger",
    description="Acknowledges messages",
    version="1.0.0",
    supported_interfaces=[
        AgentInterface(url="http://127.0.0.1/", protocol_binding="HTTP+JSON", protocol_version="1.0")
    ],
    default_input_modes=["text/plain"],
    default_output_modes=["text/plain"],
    capabilities=AgentCapabilities(streaming=False),
    skills=[AgentSkill(id="ack", name="ack", description="Acknowledges messages", tags=["ack"])],
)


class Acknowledger(AgentExecutor):
    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None
        task = new_task_from_user_message(context.message)
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.add_artifact([new_text_part(f"acknowledged {task.id}")], name="acknowledgement")
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise NotImplementedError("an acknowledged message cannot be canceled")


handler = DefaultRequestHandler(agent_executor=Acknowledger(), task_store=InMemoryTaskStore(), agent_card=CARD)
app = Starlette(routes=[*create_agent_card_routes(CARD), *create_rest_routes(handler)])
