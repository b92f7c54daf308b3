// A server for the tests: a folder and a port of its own, and users who sign in.
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { request } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";

export const BINARY = process.env.PINTLE_BIN ?? new URL("../../target/debug/pintle", import.meta.url).pathname;

export class Server {
  /** Starts a server and waits until it says where it listens. */
  static async start(...flags) {
    const server = new Server();
    server.folder = mkdtempSync(join(tmpdir(), "pintle-console-"));
    const args = ["--data-dir", server.folder, "--secure-port", "0", ...flags];
    server.process = spawn(BINARY, args, { stdio: ["ignore", "ignore", "pipe"] });
    let said = "";
    await new Promise((resolve, reject) => {
      server.process.stderr.on("data", (data) => {
        said += data;
        if (/data: /.test(said)) resolve();
      });
      server.process.on("exit", (code) => reject(new Error(`the server ended with ${code}: ${said}`)));
    });
    server.url = said.match(/https:\/\/\S+/)[0];
    server.kubeconfig = join(server.folder, "admin.kubeconfig");
    const text = readFileSync(server.kubeconfig, "utf8");
    const data = (key) => Buffer.from(text.match(new RegExp(`${key}: (\\S+)`))[1], "base64");
    server.identity = { cert: data("client-certificate-data"), key: data("client-key-data") };
    return server;
  }

  async terminate() {
    const ended = new Promise((resolve) => this.process.on("exit", resolve));
    this.process.kill("SIGTERM");
    await ended;
  }

  /** Starts a terminated server again, with its data and on its port. */
  async resume() {
    const args = ["--data-dir", this.folder, "--secure-port", new URL(this.url).port];
    this.process = spawn(BINARY, args, { stdio: ["ignore", "ignore", "pipe"] });
    await new Promise((resolve, reject) => {
      this.process.stderr.on("data", (data) => /data: /.test(data) && resolve());
      this.process.on("exit", (code) => reject(new Error(`the server ended with ${code}`)));
    });
  }

  async stop() {
    await this.terminate();
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** A request of the administrator, or with other headers and no certificate. */
  request(method, path, body, { type = "application/json", headers = {}, anonymous = false } = {}) {
    const options = { method, rejectUnauthorized: false, headers: { ...headers }, ...(anonymous ? {} : this.identity) };
    if (body !== undefined) options.headers["Content-Type"] = type;
    return new Promise((resolve, reject) => {
      const sent = request(this.url + path, options, (response) => {
        const chunks = [];
        response.on("data", (chunk) => chunks.push(chunk));
        response.on("end", () => {
          const text = Buffer.concat(chunks).toString();
          let json;
          try {
            json = JSON.parse(text);
          } catch {
            // Not everything is JSON.
          }
          resolve({ code: response.statusCode, headers: response.headers, text, json, bytes: Buffer.concat(chunks).length });
        });
      });
      sent.on("error", reject);
      sent.end(body === undefined || typeof body === "string" ? body : JSON.stringify(body));
    });
  }

  async must(method, path, body, options) {
    const answer = await this.request(method, path, body, options);
    if (answer.code >= 300) throw new Error(`${method} ${path}: ${answer.code} ${answer.text}`);
    return answer.json;
  }

  /** The token of a new service account with a role, or with none. */
  async token(name, role) {
    const base = "/api/v1/namespaces/default/serviceaccounts";
    await this.must("POST", base, { apiVersion: "v1", kind: "ServiceAccount", metadata: { name } });
    if (role) {
      await this.must("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", {
        metadata: { name },
        roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: role },
        subjects: [{ kind: "ServiceAccount", name, namespace: "default" }],
      });
    }
    return (await this.must("POST", `${base}/${name}/token`, { spec: {} })).status.token;
  }

  apply(path, object, manager) {
    const options = { type: "application/apply-patch+yaml" };
    return this.must("PATCH", `${path}?fieldManager=${manager}&force=true`, object, options);
  }
}
