export interface StartOptions {
  /** More flags of the server. */
  flags?: string[];
  /** How long the server may take to become ready; 30,000 unless said otherwise. */
  timeoutMs?: number;
}

export interface TestServer {
  /** `https://127.0.0.1:PORT` */
  readonly url: string;
  readonly port: number;
  /** The path of a kubeconfig of the group system:masters. */
  readonly kubeconfig: string;
  readonly pid: number;
  /** What the server printed so far. */
  log(): string;
  /** Ends the server and removes its folder. May be called again. */
  stop(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** The program: that of PINTLE_BIN, of this package, or `pintle` on PATH. */
export function binary(): string;

/** Starts a server with everything in memory and waits until it is ready. */
export function startServer(options?: StartOptions): Promise<TestServer>;
