// Every operation of A2A v1.0 by the official JavaScript client, against the node whose address is the argument.
// Writes one JSON object: what each operation returned, or the name of the error that it threw.

import { randomUUID } from "node:crypto";
import { Message, SendMessageRequest, Task, TaskState } from "@a2a-js/sdk";
import { ClientFactory } from "@a2a-js/sdk/client";

const url = process.argv[2];
const outcomes = {};

async function outcome(name, call) {
  try {
    outcomes[name] = { returned: await call() };
  } catch (error) {
    outcomes[name] = { threw: error.name, says: error.message };
  }
}

function message(text, fields = {}) {
  return Message.fromJSON({ messageId: randomUUID(), role: "ROLE_USER", parts: [{ text }], ...fields });
}

function request(said, configuration) {
  return SendMessageRequest.fromJSON({ message: Message.toJSON(said), configuration });
}

async function drained(stream) {
  const events = [];
  for await (const event of stream) events.push(event);
  return events;
}

const factory = new ClientFactory();
const client = await factory.createFromUrl(url);
const card = await client.getAgentCard();
outcomes.card = { returned: { name: card.name, interfaces: card.supportedInterfaces, version: client.protocolVersion } };

const contextId = randomUUID();
const task = await client.sendMessage(request(message("Hello from agent A.", { contextId })));
await outcome("send", async () => Task.toJSON(task));
await outcome("get", async () => Task.toJSON(await client.getTask({ id: task.id })));
await outcome("get without history", async () => Task.toJSON(await client.getTask({ id: task.id, historyLength: 0 })));
await outcome("send in another language", () => client.sendMessage(request(message("Hola amigo, necesito ayuda con esto"))));
await outcome("send to a finished task", () => client.sendMessage(request(message("More", { taskId: task.id }))));
await outcome("send data", () =>
  client.sendMessage(request(message("", { parts: [{ data: { k: 1 } }] }))));
await outcome("send with a push config", () =>
  client.sendMessage(request(message("Hello there"), { taskPushNotificationConfig: { url: "https://example.com" } })));
await outcome("stream falls back to send", async () =>
  (await drained(client.sendMessageStream(request(message("Hello again", { contextId }))))).map((event) => event.payload.$case));
await outcome("list", async () => {
  const ids = [];
  let pageToken = "";
  do {
    const page = await client.listTasks({
      tenant: "", contextId, status: TaskState.TASK_STATE_COMPLETED, pageSize: 1, pageToken, includeArtifacts: true,
      statusTimestampAfter: new Date(Date.now() - 3600e3).toISOString(),
    });
    ids.push(...page.tasks.map((each) => each.id));
    pageToken = page.nextPageToken;
  } while (pageToken);
  return { ids, sent: task.id };
});
await outcome("list with a bad size", () => client.listTasks({ tenant: "", contextId, pageSize: 1000 }));
await outcome("get an unknown task", () => client.getTask({ id: "no-such-task" }));
await outcome("cancel an unknown task", () => client.cancelTask({ id: "no-such-task" }));
await outcome("cancel a finished task", () => client.cancelTask({ id: task.id }));

// From here on the client believes that the node can do everything, so it sends what the node does not support.
const bold = await factory.createFromAgentCard({
  ...card,
  capabilities: { ...card.capabilities, streaming: true, pushNotifications: true, extendedAgentCard: true },
});
const config = { tenant: "", taskId: task.id, id: "c1", url: "https://example.com", token: "" };
await outcome("stream", () => drained(bold.sendMessageStream(request(message("Hello there")))));
await outcome("subscribe", () => drained(bold.resubscribeTask({ tenant: "", id: task.id })));
await outcome("extended card", () => bold.getAgentCard());
await outcome("create push config", () => bold.createTaskPushNotificationConfig(config));
await outcome("get push config", () => bold.getTaskPushNotificationConfig({ tenant: "", taskId: task.id, id: "c1" }));
await outcome("list push configs", () => bold.listTaskPushNotificationConfig({ tenant: "", taskId: task.id }));
await outcome("delete push config", () => bold.deleteTaskPushNotificationConfig({ tenant: "", taskId: task.id, id: "c1" }));

// A contract made by a message, whose status and result the client follows.
const base = card.supportedInterfaces[0].url;
const call = async (path, body) =>
  (await fetch(base + path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) })).json();
const seen = async () => Task.toJSON(await client.getTask({ id: made.task.id }));
const made = await call("/a2a/tasks", { message: Message.toJSON(message("Translate this memo into plain words.")) });
const states = [(await seen()).status.state];
const claim = await call(`/tasks/${made.task.id}/claim`, { assignee_id: "worker" });
await call(`/tasks/${made.task.id}/transition`, { actor_id: "worker", status: "in_progress" });
states.push((await seen()).status.state);
await call(`/tasks/${made.task.id}/complete`, { claim_token: claim.claim_token, result_payload: { pages: [1, 2] } });
const done = await seen();
states.push(done.status.state);
outcomes.contract = { returned: { states, artifacts: done.artifacts } };

const other = await call("/a2a/tasks", { message: Message.toJSON(message("Summarise the report about solar panels.")) });
await outcome("cancel a contract", () => client.cancelTask({ id: other.task.id }));

console.log(JSON.stringify(outcomes));
