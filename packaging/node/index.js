// A Kubernetes API server for tests: Pintle as a child process with everything in memory.

import { spawn } from "node:child_process";
import { closeSync, existsSync, mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

const POLL_MS = 1;
const STOP_TIMEOUT_MS = 10_000;

/** The program: that of PINTLE_BIN, of this package, or `pintle` on PATH. */
export function binary() {
  if (process.env.PINTLE_BIN) return process.env.PINTLE_BIN;
  const packaged = fileURLToPath(new URL("bin/pintle", import.meta.url));
  return existsSync(packaged) ? packaged : "pintle";
}

/** Starts a server with everything in memory and waits until it is ready. */
export async function startServer({ flags = [], timeoutMs = 30_000 } = {}) {
  const folder = mkdtempSync(join(tmpdir(), "pintle-test-"));
  const log = openSync(join(folder, "server.log"), "w");
  const args = ["serve", "--ephemeral", "--stop-with-stdin", "--secure-port=0", `--data-dir=${folder}`, ...flags];
  // The pipe ends with this process, however it ends, and the server with the pipe.
  const child = spawn(binary(), args, { stdio: ["pipe", log, log] });
  child.stdin?.unref();
  closeSync(log);
  const server = new Server(folder, child);
  try {
    await server.ready(timeoutMs);
    return server;
  } catch (error) {
    await server.stop();
    throw error;
  }
}

class Server {
  #folder;
  #child;
  #ended;
  #failure;

  constructor(folder, child) {
    this.#folder = folder;
    this.#child = child;
    this.#ended = new Promise((resolve) => {
      child.once("exit", resolve);
      child.once("error", (error) => {
        this.#failure = error;
        resolve();
      });
    });
  }

  get url() {
    return `https://127.0.0.1:${this.port}`;
  }

  get kubeconfig() {
    return join(this.#folder, "admin.kubeconfig");
  }

  get pid() {
    return this.#child.pid;
  }

  log() {
    return readFileSync(join(this.#folder, "server.log"), "utf8");
  }

  async ready(timeoutMs) {
    // The server writes this file when it is ready.
    const file = join(this.#folder, "port");
    const end = Date.now() + timeoutMs;
    while (!existsSync(file)) {
      if (this.#failure) throw this.#failure;
      if (this.#child.exitCode !== null) throw new Error(`the server ended while starting:\n${this.log()}`);
      if (Date.now() > end) throw new Error(`the server was not ready within ${timeoutMs} ms:\n${this.log()}`);
      await sleep(POLL_MS);
    }
    this.port = Number(readFileSync(file, "utf8"));
  }

  async stop() {
    const isRunning = this.#child.exitCode === null && this.#child.signalCode === null && !this.#failure;
    if (isRunning) {
      this.#child.kill("SIGTERM");
      const killer = setTimeout(() => this.#child.kill("SIGKILL"), STOP_TIMEOUT_MS);
      await this.#ended;
      clearTimeout(killer);
    }
    rmSync(this.#folder, { recursive: true, force: true });
  }

  [Symbol.asyncDispose ?? Symbol.for("asyncDispose")]() {
    return this.stop();
  }
}
