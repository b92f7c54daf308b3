// The list of all resources by group, with a search that includes short names.
import { useMemo, useState } from "preact/hooks";
import { link, listParts } from "./router.js";

export function matches(resource, words) {
  const text = [resource.name, resource.kind, resource.group, ...resource.shortNames].join(" ").toLowerCase();
  return words.every((word) => text.includes(word));
}

export const wordsOf = (text) => text.toLowerCase().split(/\s+/).filter(Boolean);

const TOOLS = [
  [[], "All resources"],
  [["charts"], "Activity"],
  [["schema"], "Schemas"],
  [["cel"], "CEL workbench"],
];

export function Navigation({ id, resources, route, loading }) {
  const [search, setSearch] = useState("");
  const groups = useMemo(() => {
    const words = wordsOf(search);
    const found = Map.groupBy(resources.filter((resource) => matches(resource, words)), (r) => r.group);
    return [...found].map(([group, list]) => [group, list.toSorted((a, b) => a.kind.localeCompare(b.kind))]);
  }, [resources, search]);
  const here = route.parts.slice(0, 4).join("/");
  const current = (parts) => (parts.join("/") === here ? "page" : undefined);
  const openFirst = (event) => {
    if (event.key !== "Enter") return;
    const first = event.currentTarget.closest("nav").querySelector("[data-resource]");
    if (first) location.hash = first.getAttribute("href");
  };
  return (
    <nav id={id} aria-label="Resources">
      <ul class="tools">
        {TOOLS.map(([parts, text]) => (
          <li>
            <a href={link(parts)} aria-current={current(parts)}>
              {text}
            </a>
          </li>
        ))}
      </ul>
      <input
        type="search"
        placeholder="Find a resource"
        aria-label="Find a resource"
        value={search}
        onInput={(event) => setSearch(event.currentTarget.value)}
        onKeyDown={openFirst}
      />
      {loading && <p class="hint">Loading…</p>}
      {groups.map(([group, list]) => (
        <section key={group}>
          <h2>{group || "core"}</h2>
          <ul>
            {list.map((resource) => (
              <li>
                <a data-resource href={link(listParts(resource), keepNamespace(route, resource))} aria-current={current(listParts(resource))}>
                  {resource.kind}
                </a>
              </li>
            ))}
          </ul>
        </section>
      ))}
      {!loading && groups.length === 0 && <p class="hint">Nothing is called so.</p>}
    </nav>
  );
}

/** Whoever looks at one namespace stays in it. */
function keepNamespace(route, resource) {
  const namespace = route.query.get("namespace") ?? (route.parts[0] === "object" && route.parts[4] !== "-" ? route.parts[4] : "");
  return resource.namespaced ? { namespace } : {};
}
