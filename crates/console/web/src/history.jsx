// The history of an object: the versions that the server retains, otherwise those seen since the object was opened, each
// with its changes.
import { useMemo, useState } from "preact/hooks";
import { stringify } from "yaml";
import * as api from "./api.js";
import { comparable } from "./document.js";
import { Diff } from "./editor.jsx";
import { useLoaded } from "./hooks.js";
import { managersOf, writersOf } from "./ownership.js";
import { Failure } from "./parts.jsx";
import { moment } from "./time.js";

const VERBS = { ADDED: "created", MODIFIED: "changed", DELETED: "deleted", OLDEST: "oldest that is retained" };

/** Integers beyond what a number can hold stay whole where the browser tells their digits. */
const whole = (_, value, context) => (Number.isInteger(value) && !Number.isSafeInteger(value) && context?.source ? BigInt(context.source) : value);

/** The versions that the server retains, oldest first; null from a server without history, which ignores the parameter. */
async function retained(path, before, signal) {
  const query = new URLSearchParams({ history: "true", limit: 50, ...(before ? { before } : {}) });
  const answer = JSON.parse(await api.getText(`${path}?${query}`, { signal }), whole);
  if (answer.kind !== "ObjectHistory") return null;
  const versions = answer.items.map(({ type, resourceVersion, time, object }) => {
    const managed = object?.metadata?.managedFields ?? [];
    return { revision: resourceVersion, type, time, managed, text: once(() => asText(object)) };
  });
  return { versions, hasOlder: answer.hasOlder };
}

function asText(object) {
  if (!object) return "";
  const { managedFields, ...metadata } = object.metadata;
  return stringify({ ...object, metadata }, { sortMapEntries: true, lineWidth: 0, indentSeq: false });
}

function once(make) {
  let made;
  return () => (made ??= make());
}

export function HistoryTab({ resource, namespace, name, versions: seen }) {
  const path = api.pathOf(resource, namespace, name);
  const [older, setOlder] = useState([]);
  const [error, setError] = useState(null);
  const newest = seen.at(-1).revision;
  const loaded = useLoaded((signal) => retained(path, undefined, signal).catch((why) => (why.code === 404 ? null : Promise.reject(why))), [path, newest]);
  const [chosen, setChosen] = useState(null);
  // The server may retain no version: the last write may be long ago, or before a restore.
  const isRetained = loaded.value?.versions.length > 0;
  const all = useMemo(() => {
    if (isRetained) return merged([...older.flatMap((page) => page.versions), ...loaded.value.versions]);
    return seen.map((version) => ({ ...version, type: "MODIFIED", time: version.seen, text: () => version.text }));
  }, [loaded.value, older, seen]);
  const at = chosen === null ? all.length - 1 : Math.max(0, all.findIndex((version) => version.revision === chosen));
  const hasOlder = loaded.value && (older[0] ?? loaded.value).hasOlder;
  const loadOlder = () => retained(path, all[0].revision).then((page) => setOlder([page, ...older]), setError);
  if (loaded.error) return <Failure error={loaded.error} />;
  if (loaded.loading && !loaded.value) return <p class="hint">Loading…</p>;
  return (
    <div class="history">
      <div>
        <p class="hint">{isRetained ? "What the server retains." : `Seen since this page was opened; this server retains ${loaded.value ? "no older version" : "no history"}.`}</p>
        <ol reversed aria-label="Versions">
          {all
            .map((version, index) => (
              <li key={version.revision}>
                <button class="plain" aria-pressed={index === at} onClick={() => setChosen(version.revision)}>
                  <strong>{version.revision}</strong> {VERBS[version.type]} {writers(version, all[index - 1])}
                  <span class="hint"> {version.time && moment(version.time)}</span>
                </button>
              </li>
            ))
            .reverse()}
        </ol>
        {hasOlder && <button onClick={loadOlder}>Older</button>}
        {error && <Failure error={error} />}
      </div>
      <div class="history-diff">
        {at > 0 || all[at].type === "ADDED" ? (
          <Diff before={at > 0 ? comparable(all[at - 1].text()) : ""} after={comparable(all[at].text())} label={`What changed in ${all[at].revision}`} />
        ) : (
          <p class="hint">This is the oldest version that is known here.</p>
        )}
      </div>
    </div>
  );
}

/** Each version once, in order. */
const merged = (versions) => [...new Map(versions.map((version) => [version.revision, version])).values()].sort((a, b) => Number(a.revision) - Number(b.revision));

/** Who made this version; another write of the same manager within a second leaves its entry as it is. */
function writers(version, previous) {
  const newest = (entry, _, entries) => entries.every((other) => other.time <= entry.time);
  const changed = writersOf(version.managed, previous?.managed ?? []);
  const all = changed.length ? changed : managersOf(version.managed).filter(newest);
  return all.length ? `by ${all.map((entry) => `${entry.manager} (${entry.operation})`).join(", ")}` : "";
}
