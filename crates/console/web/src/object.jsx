// One object: YAML with owners, edit, history; live.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import * as api from "./api.js";
import { linePaths, pathText, withoutManagedFields } from "./document.js";
import { EditTab } from "./edit.jsx";
import { Viewer } from "./editor.jsx";
import { HistoryTab } from "./history.jsx";
import { useNow, useTitle } from "./hooks.js";
import { countFields, managersOf, ownersByLine } from "./ownership.js";
import { Failure, Tabs } from "./parts.jsx";
import { go, link, listParts, objectParts, replace } from "./router.js";
import { age, moment } from "./time.js";

/** Versions of the object that are remembered while it is open. */
const VERSIONS_MAX = 50;
const TABS = [
  ["yaml", "YAML"],
  ["edit", "Edit"],
  ["history", "History"],
];

const STATES = { loading: "Loading…", live: "Live", reconnecting: "Reconnecting…", gone: "Deleted", failed: "Not live" };

export function ObjectView({ resource, namespace, name, query }) {
  const heading = useTitle(`${name} · ${resource.kind}`);
  const live = useObject(resource, namespace, name);
  const tab = query.get("tab") ?? "yaml";
  const select = (id) => replace(objectParts(resource, namespace, name), { tab: id === "yaml" ? "" : id });
  const current = live.versions.at(-1);
  return (
    <section class="view">
      <div class="title">
        <p class="crumbs">
          <a data-up href={link(listParts(resource), { namespace })}>
            {resource.kind}
          </a>
          {namespace && <span> / {namespace}</span>}
        </p>
        <h1 ref={heading} tabIndex={-1}>
          {name}
        </h1>
        <p class="status" role="status" data-state={live.state}>
          <span class="dot" aria-hidden="true" /> {STATES[live.state]}
          {current && <span> · resource version {current.revision}</span>}
        </p>
      </div>
      <div class="toolbar">
        <Tabs label="Views of the object" tabs={TABS} current={tab} onSelect={select} />
        <span class="grow" />
        <a class="button" href={link(["cel"], { group: resource.group || "core", version: resource.version, resource: resource.name, namespace, name })}>
          Try CEL
        </a>
        <a class="button" href={link(["schema", ...listParts(resource).slice(1)])}>
          Schema
        </a>
        {resource.verbs.includes("delete") && <DeleteButton resource={resource} namespace={namespace} name={name} uid={current?.object.metadata.uid} />}
      </div>
      {live.error && <Failure error={live.error} />}
      <div id="panel" role="tabpanel" aria-labelledby={`tab-${tab}`} class="panel">
        {current && tab === "yaml" && <YamlTab version={current} />}
        {current && tab === "edit" && <EditTab resource={resource} namespace={namespace} name={name} live={current} />}
        {current && tab === "history" && <HistoryTab resource={resource} namespace={namespace} name={name} versions={live.versions} />}
      </div>
    </section>
  );
}

function YamlTab({ version }) {
  const now = useNow(10000);
  const [line, setLine] = useState(1);
  const managers = useMemo(() => managersOf(version.managed), [version]);
  const paths = useMemo(() => linePaths(version.text), [version]);
  const owners = useMemo(() => ownersByLine(managers, version.object, paths), [managers, paths]);
  const colors = useMemo(() => new Map([...new Set(managers.map((m) => m.manager))].map((m, index) => [m, index % 6])), [managers]);
  const marks = useMemo(
    () =>
      owners.map((list, index) => {
        if (!list.length) return undefined;
        const owner = newest(list);
        const isFirst = index === 0 || !same(owners[index - 1], list);
        const more = list.length > 1 ? ` +${list.length - 1}` : "";
        const title = list.map((m) => `${describe(m)}`).join("\n");
        return { name: isFirst ? owner.manager + more : "\u00a0", since: isFirst ? `${owner.operation} ${age(owner.time, now)}` : "", color: colors.get(owner.manager), title };
      }),
    [owners, Math.floor(now / 60000)],
  );
  const at = owners[line - 1] ?? [];
  return (
    <div class="yaml">
      <p class="line-owner" role="status">
        <code>{pathText(paths[line - 1] ?? []) || "."}</code>{" "}
        {at.length ? at.map((m) => `${describe(m)}`).join("; ") : "has no owner"}
      </p>
      <Viewer text={version.text} label="Object as YAML" owners={marks} onLine={setLine} />
      <details class="managers">
        <summary>
          {managers.length} {managers.length === 1 ? "manager" : "managers"}
        </summary>
        <div class="scroll" tabIndex={0} role="region" aria-label="Managers">
          <table class="list">
            <thead>
              <tr>
                <th scope="col">Manager</th>
                <th scope="col">Operation</th>
                <th scope="col">Subresource</th>
                <th scope="col">Fields</th>
                <th scope="col">Since</th>
              </tr>
            </thead>
            <tbody>
              {managers.map((m) => (
                <tr>
                  <th scope="row">
                    <span class={`owner-dot owner-${colors.get(m.manager)}`} aria-hidden="true" />
                    {m.manager}
                  </th>
                  <td>{m.operation}</td>
                  <td>{m.subresource}</td>
                  <td>{countFields(m.fields)}</td>
                  <td title={m.time && moment(m.time)}>{m.time && age(m.time, now)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </details>
    </div>
  );
}

const newest = (owners) => owners.reduce((a, b) => (b.time > a.time ? b : a));
const same = (a, b) => a.length === b.length && a.every((owner, index) => owner === b[index]);
const describe = (m) => `${m.manager} (${m.operation}${m.subresource ? ` of ${m.subresource}` : ""}) since ${m.time ? moment(m.time) : "?"}`;

function DeleteButton({ resource, namespace, name, uid }) {
  const dialog = useRef(null);
  const [error, setError] = useState(null);
  const remove = async (event) => {
    event.preventDefault();
    try {
      const body = JSON.stringify({ kind: "DeleteOptions", apiVersion: "v1", propagationPolicy: "Background", preconditions: uid && { uid } });
      await api.request(api.pathOf(resource, namespace, name), { method: "DELETE", type: "application/json", body });
      dialog.current.close();
      go(listParts(resource), { namespace });
    } catch (why) {
      setError(why);
    }
  };
  return (
    <>
      <button class="danger" onClick={() => dialog.current.showModal()}>
        Delete
      </button>
      <dialog ref={dialog} aria-labelledby="delete-title" onClose={() => setError(null)}>
        <h2 id="delete-title">Delete {resource.kind}?</h2>
        <p>
          <strong>{name}</strong>
          {namespace && ` in ${namespace}`} and what depends on it will be deleted.
        </p>
        {error && <Failure error={error} />}
        <form method="dialog" class="actions">
          <button autofocus>Keep</button>
          <button class="danger" onClick={remove}>
            Delete
          </button>
        </form>
      </dialog>
    </>
  );
}

/** The object and the versions of it that were seen since it was opened. */
function useObject(resource, namespace, name) {
  const [state, setState] = useState({ state: "loading", versions: [] });
  useEffect(() => {
    const abort = new AbortController();
    follow(resource, namespace, name, abort.signal, setState).catch((error) => {
      if (!abort.signal.aborted) setState((last) => ({ ...last, state: "failed", error }));
    });
    return () => abort.abort();
  }, [resource.group, resource.version, resource.name, namespace, name]);
  return state;
}

async function follow(resource, namespace, name, signal, setState) {
  const path = api.pathOf(resource, namespace, name);
  const load = async () => {
    const raw = await api.getText(path, { accept: "application/yaml", signal });
    const version = { ...withoutManagedFields(raw), seen: new Date().toISOString() };
    version.revision = version.object.metadata.resourceVersion;
    setState((last) => {
      if (last.versions.at(-1)?.revision === version.revision) return { ...last, state: "live", error: undefined };
      return { state: "live", versions: [...last.versions, version].slice(-VERSIONS_MAX) };
    });
    return version.revision;
  };
  const query = { fieldSelector: `metadata.name=${name}` };
  for (let pause = 500; !signal.aborted; pause = Math.min(pause * 2, 10000)) {
    try {
      const revision = await load();
      if (!resource.verbs.includes("watch")) return;
      for await (const { type, object } of api.watch(api.pathOf(resource, namespace), { ...query, resourceVersion: revision }, { signal })) {
        pause = 500;
        if (type === "ERROR") break;
        if (type === "DELETED") setState((last) => ({ ...last, state: "gone" }));
        // The text is fetched again, because parsing JSON numbers in JavaScript would lose digits.
        else if (type !== "BOOKMARK") await load();
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error.code !== 404 && api.isLasting(error)) throw error;
      setState((last) => afterFailure(last, error));
      if (error.code === 404) return;
    }
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
}

/** The state after a failure that is not lasting, or after the object was not found. */
function afterFailure(last, error) {
  if (error.code !== 404) return { ...last, state: "reconnecting", error: last.versions.length ? undefined : error };
  return last.versions.length ? { ...last, state: "gone", error: undefined } : { ...last, state: "failed", error };
}
