// The start page: all resources of the server, and its version.
import { useMemo, useState } from "preact/hooks";
import { getJson } from "./api.js";
import { useLoaded, useTitle } from "./hooks.js";
import { matches, wordsOf } from "./navigation.jsx";
import { link, listParts } from "./router.js";

export function Home({ resources, refresh, user }) {
  const heading = useTitle("All resources");
  const [search, setSearch] = useState("");
  const version = useLoaded((signal) => getJson("/version", { signal }), []);
  const found = useMemo(() => {
    const words = wordsOf(search);
    return resources.filter((resource) => matches(resource, words));
  }, [resources, search]);
  return (
    <section class="view">
      <div class="title">
        <h1 ref={heading} tabIndex={-1}>
          All resources
        </h1>
        <p class="hint">
          {version.value ? `Kubernetes ${version.value.gitVersion}, ` : ""}
          {resources.length} resources, signed in as {user.username}
        </p>
      </div>
      <div class="toolbar">
        <input type="search" placeholder="Search by name, kind, group or short name" aria-label="Search resources" value={search} onInput={(event) => setSearch(event.currentTarget.value)} />
        <button onClick={refresh}>Refresh</button>
      </div>
      <div class="scroll" role="region" aria-label="Resources of the server" tabIndex={0}>
        <table class="list">
          <thead>
            <tr>
              <th scope="col">Kind</th>
              <th scope="col">Group</th>
              <th scope="col">Version</th>
              <th scope="col">Schema</th>
              <th scope="col" class="from-medium">Scope</th>
              <th scope="col" class="from-medium">Short names</th>
              <th scope="col" class="from-large">Resource</th>
            </tr>
          </thead>
          <tbody>
            {found.map((resource) => (
              <tr key={`${resource.group}/${resource.name}`}>
                <th scope="row">
                  <a data-row href={link(listParts(resource))}>
                    {resource.kind}
                  </a>
                </th>
                <td>{resource.group || "core"}</td>
                <td>{resource.versions.join(", ")}</td>
                <td>
                  <a href={link(["schema", ...listParts(resource).slice(1)])} aria-label={`fields of ${resource.kind}`}>
                    fields
                  </a>
                </td>
                <td class="from-medium">{resource.namespaced ? "Namespaced" : "Cluster"}</td>
                <td class="from-medium">{resource.shortNames.join(", ")}</td>
                <td class="from-large">{resource.name}</td>
              </tr>
            ))}
          </tbody>
        </table>
        {found.length === 0 && <p class="hint empty">Nothing is called so.</p>}
      </div>
    </section>
  );
}
