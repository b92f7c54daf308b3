// How tests use the package: a server of their own, asked with the credentials of its kubeconfig.

import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { request } from "node:https";
import { after, before, test } from "node:test";
import { startServer } from "pintle-testserver";

let server;
before(async () => {
  server = await startServer();
});
after(() => server.stop());

/** The fields of the kubeconfig that a plain HTTPS client needs; a real suite would use @kubernetes/client-node. */
function credentials(file) {
  const text = readFileSync(file, "utf8");
  const data = (name) => Buffer.from(text.match(new RegExp(`${name}-data: (\\S+)`))[1], "base64");
  return { ca: data("certificate-authority"), cert: data("client-certificate"), key: data("client-key") };
}

function ask(method, path, body) {
  return new Promise((resolve, reject) => {
    const options = { method, ...credentials(server.kubeconfig), headers: { "content-type": "application/json" } };
    const call = request(server.url + path, options, (response) => {
      let text = "";
      response.on("data", (part) => (text += part));
      response.on("end", () => resolve({ status: response.statusCode, body: JSON.parse(text) }));
    });
    call.on("error", reject);
    call.end(body && JSON.stringify(body));
  });
}

test("objects are stored", async () => {
  const maps = "/api/v1/namespaces/default/configmaps";
  const map = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "greeting" }, data: { hello: "world" } };
  assert.equal((await ask("POST", maps, map)).status, 201);
  assert.deepEqual((await ask("GET", `${maps}/greeting`)).body.data, { hello: "world" });
});

test("a server leaves nothing behind", async () => {
  const other = await startServer();
  await other.stop();
  assert.equal(existsSync(other.kubeconfig), false);
  await assert.rejects(startServer({ flags: ["--nope"] }), /unknown flag/);
});
