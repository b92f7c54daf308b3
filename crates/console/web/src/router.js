// The current view: the part of the URL after #, which browsers never send to a server.
import { useEffect, useState } from "preact/hooks";

/** #/list/apps/v1/deployments?namespace=x → {parts, query} */
export function read(hash = location.hash) {
  const [path, query] = hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").filter(Boolean).map(safeDecode);
  return { parts, query: new URLSearchParams(query ?? "") };
}

function safeDecode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** The link to a place. Empty parameters are left out. */
export function link(parts, query = {}) {
  const set = Object.entries(query).filter(([, value]) => value);
  const search = new URLSearchParams(set).toString();
  return `#/${parts.map(encodeURIComponent).join("/")}${search ? `?${search}` : ""}`;
}

export const go = (parts, query) => (location.hash = link(parts, query));
export const replace = (parts, query) => {
  history.replaceState(null, "", link(parts, query));
  dispatchEvent(new HashChangeEvent("hashchange"));
};

export function useRoute() {
  const [route, setRoute] = useState(read);
  useEffect(() => {
    const changed = () => setRoute(read());
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return route;
}

/** The core group has no name; in links it is called core. */
export const listParts = (resource) => ["list", resource.group || "core", resource.version, resource.name];
export const objectParts = (resource, namespace, name) => [
  "object",
  resource.group || "core",
  resource.version,
  resource.name,
  namespace || "-",
  name,
];
export const find = (resources, [group, version, name]) => {
  const known = resources.find((r) => r.group === (group === "core" ? "" : group) && r.name === name);
  return known && known.versions.includes(version) ? { ...known, version } : undefined;
};
