// A receiver of callbacks that believes only what the node has signed. Needs nothing but Node.js.
//
//     node receiver.mjs whpk_... 9000 hooks.example.org
//
// The key is in the node's /.well-known/relay-node.json; the host is the one in your callback_url.

import { createPublicKey, verify } from "node:crypto";
import { createServer } from "node:http";

const [key, port, host] = process.argv.slice(2);
const x = Buffer.from(key.replace("whpk_", ""), "base64").toString("base64url");
const publicKey = createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x }, format: "jwk" });
const TOLERANCE = 300; // seconds that clocks may differ; older messages may be replays
const LARGEST = 20_000; // bytes
const seen = new Set(); // callbacks come at least once: keep these where a restart does not lose them

// Whether the node signed this message for this host, just now.
function verified(id, timestamp, signatures, body) {
  if (!/^\d+$/.test(timestamp) || Math.abs(Date.now() / 1000 - Number(timestamp)) > TOLERANCE) return false;
  const signed = Buffer.concat([Buffer.from(`${id}.${timestamp}.`), body]);
  const good = signatures.split(" ").some((each) => {
    const [version, signature] = each.split(",");
    return version === "v1a" && verify(null, signed, publicKey, Buffer.from(signature ?? "", "base64"));
  });
  // One key signs for all receivers: a message for another host may be passed on to this one.
  return good && JSON.parse(body).data.callback_host === host;
}

createServer(async (request, response) => {
  const chunks = [];
  let size = 0;
  for await (const chunk of request) if ((size += chunk.length) <= LARGEST) chunks.push(chunk);
  const body = Buffer.concat(chunks);
  const { "webhook-id": id = "", "webhook-timestamp": at = "", "webhook-signature": signatures = "" } = request.headers;
  const good = verified(id, at, signatures, body);
  if (good && !seen.has(id)) {
    seen.add(id);
    const event = JSON.parse(body);
    console.log(event.type, event.data.url); // what happened is read there
  }
  response.writeHead(good ? 204 : 401).end();
}).listen(Number(port), "127.0.0.1");
