// An official MCP client that does what each line of its input says: {"do": "callTool", "with": {...}}.
// It writes a line when it is connected, and one for each answer. Usage: mcp_client.mjs KIND URL
import { createInterface } from "node:readline";

import { Client, SSEClientTransport, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { Client as Client1 } from "@modelcontextprotocol/sdk/client/index.js";
import { SSEClientTransport as SSEClientTransport1 } from "@modelcontextprotocol/sdk/client/sse.js";
import { StreamableHTTPClientTransport as StreamableHTTPClientTransport1 } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [kind, address] = process.argv.slice(2);
const url = new URL(address);
const identity = { name: "conformance", version: "1.0.0" };

const negotiating = (mode) => new Client(identity, { versionNegotiation: { mode } });
const kinds = {
  "v1-http": () => [new Client1(identity), new StreamableHTTPClientTransport1(url)],
  "v1-sse": () => [new Client1(identity), new SSEClientTransport1(url)],
  "v2-http": () => [new Client(identity), new StreamableHTTPClientTransport(url)],
  "v2-auto": () => [negotiating("auto"), new StreamableHTTPClientTransport(url)],
  "v2-pinned": () => [negotiating({ pin: "2026-07-28" }), new StreamableHTTPClientTransport(url)],
  "v2-sse": () => [new Client(identity), new SSEClientTransport(url)],
};

const write = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);

const [client, transport] = kinds[kind]();
await client.connect(transport);
write({
  version: client.getNegotiatedProtocolVersion?.() ?? transport.protocolVersion ?? transport._protocolVersion,
  server: client.getServerVersion(),
  capabilities: client.getServerCapabilities(),
  instructions: client.getInstructions(),
});

for await (const line of createInterface({ input: process.stdin })) {
  const { do: method, with: given } = JSON.parse(line);
  try {
    write({ result: await client[method](given ?? {}) });
  } catch (error) {
    write({ error: { code: error.code, message: error.message } });
  }
}
await client.close();
process.exit(0);
