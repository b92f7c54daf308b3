// Requests to the API server with the user's own credentials. All data of the console comes through this module.

const TOKEN_KEY = "pintle-token";
const TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
const DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
/** Objects of one page of a list. */
export const PAGE_SIZE = 500;
/** The manager under which the console writes. */
export const FIELD_MANAGER = "pintle-console";

/** An answer that is no success, with the server's Status where it sent one. */
export class ApiError extends Error {
  constructor(code, status, text) {
    super(status?.message || text || `the server answered ${code}`);
    this.code = code;
    this.status = status;
  }
}

/** Whether to try again is no use: the server refused the request itself. */
export const isLasting = ({ code }) => code >= 400 && code < 500 && code !== 408 && code !== 429;

let onUnauthorized = () => {};
export const whenUnauthorized = (callback) => (onUnauthorized = callback);

export const token = () => sessionStorage.getItem(TOKEN_KEY);
export function setToken(value) {
  if (value) sessionStorage.setItem(TOKEN_KEY, value);
  else sessionStorage.removeItem(TOKEN_KEY);
}

/** Sends a request; a failure becomes an ApiError. */
export async function request(path, { method = "GET", accept = "application/json", type, body, signal } = {}) {
  const headers = { Accept: accept };
  if (token()) headers.Authorization = `Bearer ${token()}`;
  if (type) headers["Content-Type"] = type;
  const options = { method, headers, body, signal, credentials: "same-origin", redirect: "error" };
  const response = await fetch(path, options).catch((error) => {
    // Browsers say “Failed to fetch”; an aborted request has another error.
    throw error instanceof TypeError ? new Error("The server cannot be reached.") : error;
  });
  if (response.ok) return response;
  if (response.status === 401) onUnauthorized();
  const text = await response.text();
  throw new ApiError(response.status, await readStatus(response, text), text.trim().slice(0, 500));
}

/** The Status of an answer, in the encoding that was asked for; undefined for plain text. */
async function readStatus(response, text) {
  const type = response.headers.get("content-type") ?? "";
  try {
    const value = type.includes("yaml") ? (await import("yaml")).parse(text) : JSON.parse(text);
    return value?.kind === "Status" ? value : undefined;
  } catch {
    return undefined;
  }
}

export const getJson = async (path, options) => (await request(path, options)).json();
export const getText = async (path, options) => (await request(path, options)).text();
export const postJson = (path, value, options) =>
  getJson(path, { method: "POST", type: "application/json", body: JSON.stringify(value), ...options });

/** Who the server takes us for: null for nobody it knows. */
export const whoAmI = async () => (await getJson("/console/api/session")).user;

/** Exchanges the code of a one-time link for a session. */
export async function redeem(code) {
  setToken(null);
  setToken((await postJson("/console/api/session", { code })).token);
}

export async function signOut() {
  try {
    await request("/console/api/session", { method: "DELETE" });
  } finally {
    setToken(null);
  }
}

/** All resources that can be listed, by group and name; the preferred version of each group comes first. */
export async function discover() {
  const [core, groups] = await Promise.all(["/api", "/apis"].map((path) => getJson(path, { accept: DISCOVERY })));
  const all = [];
  for (const group of [...core.items, ...groups.items]) {
    const name = group.metadata?.name ?? "";
    const seen = new Set();
    for (const version of group.versions) {
      for (const resource of version.resources ?? []) {
        if (!resource.verbs?.includes("list") || seen.has(resource.resource)) continue;
        seen.add(resource.resource);
        all.push({
          group: name,
          version: version.version,
          name: resource.resource,
          kind: resource.responseKind?.kind ?? resource.resource,
          namespaced: resource.scope === "Namespaced",
          verbs: resource.verbs,
          shortNames: resource.shortNames ?? [],
          categories: resource.categories ?? [],
          versions: group.versions
            .filter((other) => other.resources?.some((known) => known.resource === resource.resource))
            .map((other) => other.version),
        });
      }
    }
  }
  return all;
}

export const groupVersion = ({ group, version }) => (group ? `${group}/${version}` : version);
const part = encodeURIComponent;

/** The path of a collection, or of an object in it. */
export function pathOf(resource, namespace, name) {
  const { group, version } = resource;
  let path = group ? `/apis/${part(group)}/${part(version)}` : `/api/${part(version)}`;
  if (namespace && resource.namespaced) path += `/namespaces/${part(namespace)}`;
  path += `/${part(resource.name)}`;
  return name ? `${path}/${part(name)}` : path;
}

/** One page of a Table. */
export const listTable = async (resource, namespace, { selector, more, signal }) => {
  const query = new URLSearchParams({ limit: PAGE_SIZE });
  if (selector) query.set("labelSelector", selector);
  if (more) query.set("continue", more);
  const list = await getJson(`${pathOf(resource, namespace)}?${query}`, { accept: TABLE, signal });
  return list.kind === "Table" ? list : tableOf(list.items ?? [], list.metadata);
};

/** A Table of objects, for extension servers that make none. */
const tableOf = (objects, metadata) => ({
  metadata,
  columnDefinitions: ["Name", "Age"].map((name) => ({ name, type: "string", priority: 0 })),
  rows: objects.map((object) => ({ cells: [object.metadata.name, ""], object: { metadata: object.metadata } })),
});

/** The events of a watch, as they come. */
export async function* watch(path, query, { signal, table }) {
  const all = new URLSearchParams({ watch: "1", allowWatchBookmarks: "true", ...query });
  const response = await request(`${path}?${all}`, { accept: table ? TABLE : "application/json", signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) if (line) yield event(JSON.parse(line), table);
  }
}

function event({ type, object }, table) {
  const isTable = object.kind === "Table" || type === "ERROR" || type === "BOOKMARK";
  return { type, object: table && !isTable ? tableOf([object]) : object };
}

/** Writes an object as YAML. `mode` is update, apply or create. */
export async function write(resource, namespace, name, text, { mode, dryRun, force, signal }) {
  const query = new URLSearchParams({ fieldManager: FIELD_MANAGER, fieldValidation: "Strict" });
  if (dryRun) query.set("dryRun", "All");
  if (force) query.set("force", "true");
  const [method, type] = {
    update: ["PUT", "application/yaml"],
    create: ["POST", "application/yaml"],
    apply: ["PATCH", "application/apply-patch+yaml"],
  }[mode];
  const path = pathOf(resource, namespace, mode === "create" ? "" : name);
  const response = await request(`${path}?${query}`, { method, type, body: text, accept: "application/yaml", signal });
  return { text: await response.text(), warnings: warnings(response.headers.get("warning")) };
}

/** The texts of a Warning header: 299 - "text", 299 - "text". */
export function warnings(header) {
  const found = (header ?? "").matchAll(/299 \S+ "((?:[^"\\]|\\.)*)"/g);
  return [...found].map((match) => match[1].replace(/\\(.)/g, "$1"));
}
