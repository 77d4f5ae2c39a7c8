// The official JavaScript client calls the agent of an inbox over one binding: the arguments are its address and the
// binding. Its owner answers in capitals, asks back whoever says `ask`, and leaves `leave me` alone.
// Writes one JSON object: what each operation returned.

import { createServer } from "node:http";
import { randomUUID } from "node:crypto";
import { SendMessageRequest, StreamResponse, Task, TaskState } from "@a2a-js/sdk";
import { ClientFactory, ClientFactoryOptions } from "@a2a-js/sdk/client";

const [url, binding] = process.argv.slice(2);
const outcomes = {};

function request(text, configuration = {}, fields = {}) {
  const message = { messageId: randomUUID(), role: "ROLE_USER", parts: [{ text }], ...fields };
  return SendMessageRequest.fromJSON({ message, configuration });
}

async function drained(stream, each = () => {}) {
  const events = [];
  for await (const event of stream) {
    events.push(StreamResponse.toJSON(event));
    await each(event);
  }
  return events;
}

// Takes push notifications until one says that the task is over.
const pushed = [];
let over;
const isOver = new Promise((resolve) => (over = resolve));
const receiver = createServer(async (incoming, answer) => {
  const pieces = [];
  try {
    for await (const piece of incoming) pieces.push(piece);
  } catch (error) {
    if (receiver.listening) throw error;
    return; // of the second config, and closed below
  }
  const event = StreamResponse.toJSON(StreamResponse.fromJSON(JSON.parse(Buffer.concat(pieces))));
  pushed.push({ event, token: incoming.headers["x-a2a-notification-token"], shown: incoming.headers.authorization });
  answer.writeHead(204).end();
  // A worker that comes late finds the task over: then the first notification, which has the whole task, is the last.
  if ((event.statusUpdate ?? event.task)?.status.state === "TASK_STATE_COMPLETED") over();
});
await new Promise((resolve) => receiver.listen(0, "127.0.0.1", resolve));

const options = ClientFactoryOptions.createFrom(ClientFactoryOptions.default, { preferredTransports: [binding] });
const client = await new ClientFactory(options).createFromUrl(`${url}/.well-known/agent-card.json`, "");
outcomes.card = (await client.getAgentCard()).capabilities;

const called = await client.sendMessage(request("hello"));
outcomes.called = Task.toJSON(called);
outcomes.got = Task.toJSON(await client.getTask({ tenant: "", id: called.id }));
const page = await client.listTasks({
  tenant: "", contextId: called.contextId, status: TaskState.TASK_STATE_COMPLETED, pageSize: 5, pageToken: "",
});
outcomes.listed = page.tasks.map((task) => task.id);
outcomes.streamed = await drained(client.sendMessageStream(request("stream")));

const asked = await client.sendMessage(request("ask"));
const answered = await client.sendMessage(request("yes", {}, { taskId: asked.id, contextId: asked.contextId }));
outcomes.asked = [Task.toJSON(asked), Task.toJSON(answered)];

const left = await client.sendMessage(request("leave me", { returnImmediately: true }));
let canceled;
outcomes.followed = await drained(client.resubscribeTask({ tenant: "", id: left.id }), async () => {
  canceled ??= Task.toJSON(await client.cancelTask({ tenant: "", id: left.id }));
});
outcomes.canceled = canceled;

const config = { url: `http://127.0.0.1:${receiver.address().port}/push`, token: "t0ken", authentication: { scheme: "Bearer", credentials: "cr3dentials" } };
const told = await client.sendMessage(request("tell me", { taskPushNotificationConfig: { id: "sent", ...config } }));
await isOver;
outcomes.pushed = [...pushed]; // the next config is told how the task stands, too
const more = { tenant: "", taskId: told.id, id: "made", ...config };
const made = await client.createTaskPushNotificationConfig(more);
const read = await client.getTaskPushNotificationConfig({ tenant: "", taskId: told.id, id: "made" });
await client.deleteTaskPushNotificationConfig({ tenant: "", taskId: told.id, id: "made" });
const kept = await client.listTaskPushNotificationConfig({ tenant: "", taskId: told.id, pageSize: 0, pageToken: "" });
outcomes.configs = { made: made.id, read: read.url, kept: (kept.configs ?? kept).map((each) => each.id), url: config.url };

receiver.close();
receiver.closeAllConnections();
console.log(JSON.stringify(outcomes));
