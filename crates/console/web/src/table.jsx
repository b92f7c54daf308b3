// A resource as the server's Table, kept up to date by a watch.
import { Component } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import * as api from "./api.js";
import { useLoaded, useNow, useTitle } from "./hooks.js";
import { wordsOf } from "./navigation.jsx";
import { Failure } from "./parts.jsx";
import { link, listParts, objectParts, replace } from "./router.js";
import { age } from "./time.js";

/** Rows that are shown at most; a filter finds the others. */
const ROWS_MAX = 5000;
/** Pauses before a watch is tried again, in milliseconds. */
const RETRY_MS = [500, 1000, 2000, 5000, 10000];

export function ResourceTable({ resource, query, resources }) {
  const namespace = resource.namespaced ? (query.get("namespace") ?? "") : "";
  const selector = query.get("selector") ?? "";
  const [filter, setFilter] = useState("");
  const [wide, setWide] = useState(false);
  const heading = useTitle(resource.kind);
  const table = useTable(resource, namespace, selector);
  const now = useNow(1000);
  const place = (change) => replace(listParts(resource), { namespace, selector, ...change });
  const rows = useMemo(() => filtered(table.rows, filter), [table.rows, filter]);
  const columns = useMemo(
    () => table.columns.map((column, index) => ({ ...column, index })).filter((column) => wide || column.priority === 0),
    [table.columns, wide],
  );
  const withNamespace = resource.namespaced && !namespace;
  return (
    <section class="view">
      <div class="title">
        <h1 ref={heading} tabIndex={-1}>
          {resource.kind}
        </h1>
        <p class="hint">
          {api.groupVersion(resource)} · <a href={link(["schema", ...listParts(resource).slice(1)])}>schema</a>
        </p>
        <Status table={table} shown={rows.length} />
      </div>
      <div class="toolbar" role="search">
        <input type="search" placeholder="Filter rows" aria-label="Filter rows" value={filter} onInput={(event) => setFilter(event.currentTarget.value)} />
        {resource.namespaced && <NamespaceSelect resources={resources} value={namespace} onSelect={(value) => place({ namespace: value })} />}
        <SelectorField value={selector} onSelect={(value) => place({ selector: value })} />
        <label class="check">
          <input type="checkbox" checked={wide} onChange={(event) => setWide(event.currentTarget.checked)} /> All columns
        </label>
        {resource.verbs.includes("create") && (
          <a class="button" href={link(["create", ...listParts(resource).slice(1)], { namespace })}>
            Create
          </a>
        )}
      </div>
      {table.error && <Failure error={table.error} retry={table.reload} />}
      {table.error?.code === 403 && withNamespace && <p class="hint">You may have the right in single namespaces: choose one above.</p>}
      <div class="scroll" role="region" aria-label={`${resource.kind} objects`} tabIndex={0} hidden={table.error && !rows.length}>
        <table class="list">
          <thead>
            <tr>
              {withNamespace && <th scope="col">Namespace</th>}
              {columns.map((column) => (
                <th scope="col" title={column.description}>
                  {column.name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <Row key={row.key} row={row} columns={columns} resource={resource} withNamespace={withNamespace} age={ageOf(row, now)} />
            ))}
          </tbody>
        </table>
        {table.state !== "loading" && rows.length === 0 && !table.error && <p class="hint empty">{emptyText(table, filter)}</p>}
      </div>
      {table.isFull && <p class="hint">At most {ROWS_MAX} rows are shown. Choose a namespace or labels to see others.</p>}
      {table.more && !table.isFull && (
        <p class="more">
          <button onClick={table.loadMore} disabled={table.loadingMore}>
            Load {table.remaining ? `more (${table.remaining} left)` : "more"}
          </button>
        </p>
      )}
    </section>
  );
}

/** The filter only knows rows that are loaded. */
const emptyText = ({ more, isFull }, filter) => {
  if (!filter) return "There are none.";
  return more || isFull ? "No row that is loaded matches the filter; there are others." : "No row matches the filter.";
};

const ageOf = ({ metadata }, now) => (metadata.creationTimestamp ? age(metadata.creationTimestamp, now) : undefined);

/** A row is drawn again only if something in it is new: ages are computed every second, for thousands of rows. */
class Row extends Component {
  shouldComponentUpdate(next) {
    return ["row", "columns", "resource", "withNamespace", "age"].some((name) => next[name] !== this.props[name]);
  }

  render(props) {
    return cells(props);
  }
}

function cells({ row, columns, resource, withNamespace, age }) {
  const { namespace, name } = row.metadata;
  const href = link(objectParts(resource, namespace, name));
  return (
    <tr class={row.changed ? "changed" : undefined} data-name={name}>
      {withNamespace && <td>{namespace}</td>}
      {columns.map((column, at) => {
        const text = column.name === "Age" && age ? age : cell(row.cells[column.index]);
        if (at > 0) return <td title={text.length > 40 ? text : undefined}>{text}</td>;
        return (
          <th scope="row">
            <a data-row href={href}>
              {text || name}
            </a>
          </th>
        );
      })}
    </tr>
  );
}

const cell = (value) => (value === null || value === undefined ? "" : typeof value === "object" ? JSON.stringify(value) : String(value));

function filtered(rows, filter) {
  const words = wordsOf(filter);
  if (!words.length) return rows;
  return rows.filter((row) => {
    const text = [row.metadata.namespace, ...row.cells.map(cell)].join(" ").toLowerCase();
    return words.every((word) => text.includes(word));
  });
}

function Status({ table, shown }) {
  const text = {
    loading: "Loading…",
    live: "Live",
    reconnecting: "Reconnecting…",
    failed: "Not live",
  }[table.state];
  return (
    <p class="status" role="status" data-state={table.state}>
      <span class="dot" aria-hidden="true" /> {text}
      {table.state !== "loading" && <span class="count"> · {shown} shown</span>}
    </p>
  );
}

export function NamespaceSelect({ resources, value, onSelect }) {
  const namespaces = resources.find((r) => r.group === "" && r.name === "namespaces");
  const loaded = useLoaded(async (signal) => {
    if (!namespaces) return [];
    const table = await api.listTable(namespaces, "", { signal });
    return (table.rows ?? []).map((row) => row.object.metadata.name);
  }, [namespaces?.version]);
  const names = new Set([...(loaded.value ?? []), ...(value ? [value] : [])]);
  // A user who may not list namespaces enters one.
  if (loaded.error) {
    return <TextField label="Namespace" value={value} onSelect={onSelect} />;
  }
  return (
    <select aria-label="Namespace" value={value} onChange={(event) => onSelect(event.currentTarget.value)}>
      <option value="">All namespaces</option>
      {[...names].sort().map((name) => (
        <option value={name} selected={name === value}>
          {name}
        </option>
      ))}
    </select>
  );
}

const SelectorField = (props) => <TextField label="Label selector" placeholder="Labels: app=web,tier!=db" {...props} />;

function TextField({ label, placeholder, value, onSelect }) {
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  const submit = (event) => {
    event.preventDefault();
    onSelect(text.trim());
  };
  return (
    <form onSubmit={submit}>
      <input type="text" aria-label={label} placeholder={placeholder ?? label} value={text} spellcheck={false} onInput={(event) => setText(event.currentTarget.value)} onBlur={() => text.trim() !== value && onSelect(text.trim())} />
    </form>
  );
}

/** A Table and what a watch changes in it. */
function useTable(resource, namespace, selector) {
  const [view, setView] = useState({ columns: [], rows: [], state: "loading" });
  const [generation, setGeneration] = useState(0);
  const live = useRef(null);
  useEffect(() => {
    const abort = new AbortController();
    const table = new LiveTable(resource, namespace, selector, abort.signal, setView);
    live.current = table;
    table.run();
    return () => abort.abort();
  }, [resource.group, resource.version, resource.name, namespace, selector, generation]);
  return {
    ...view,
    reload: () => setGeneration((n) => n + 1),
    loadMore: () => live.current.loadMore(),
  };
}

class LiveTable {
  constructor(resource, namespace, selector, signal, publish) {
    Object.assign(this, { resource, namespace, selector, signal });
    this.send = publish;
    this.rows = new Map();
    this.columns = [];
    this.state = "loading";
    this.scheduled = false;
  }

  /** Lists and watches until the view is left. A watch that ends goes on from where it was; one that is too old lists again. */
  async run() {
    for (let failures = 0; !this.signal.aborted; ) {
      try {
        if (!this.revision) await this.list();
        this.set({ state: "live", error: undefined });
        await this.follow();
        failures = 0;
      } catch (error) {
        if (this.signal.aborted) return;
        if (error.code === 410) {
          this.revision = undefined;
          continue;
        }
        const lasting = api.isLasting(error);
        this.set({ state: lasting ? "failed" : "reconnecting", error: lasting || this.state === "loading" ? error : undefined });
        // A resource that cannot be watched is listed once.
        if (lasting) return;
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS[Math.min(failures++, RETRY_MS.length - 1)]));
      }
    }
  }

  async list() {
    const table = await api.listTable(this.resource, this.namespace, { selector: this.selector, signal: this.signal });
    this.rows.clear();
    this.isFull = false;
    this.take(table);
    this.revision = table.metadata.resourceVersion;
  }

  async loadMore() {
    if (!this.more || this.loadingMore) return;
    this.set({ loadingMore: true });
    try {
      const { selector, signal, more } = this;
      this.take(await api.listTable(this.resource, this.namespace, { selector, signal, more }));
    } catch (error) {
      if (this.signal.aborted) return;
      this.set({ error: error.code === 410 ? new Error("The list has changed too much. Try again.") : error });
      if (error.code === 410) this.more = undefined;
    }
    this.set({ loadingMore: false });
  }

  take(table) {
    if (table.columnDefinitions?.length) this.columns = table.columnDefinitions;
    for (const row of table.rows ?? []) this.put(row, false);
    this.more = table.metadata.continue;
    this.remaining = table.metadata.remainingItemCount;
    this.publish();
  }

  put(row, changed) {
    const metadata = row.object.metadata;
    const key = metadata.uid ?? `${metadata.namespace}/${metadata.name}`;
    if (!this.rows.has(key) && this.rows.size >= ROWS_MAX) {
      this.isFull = true;
      return;
    }
    const known = this.rows.get(key);
    // A late page must not overwrite newer rows from the watch.
    if (!changed && known) return;
    this.rows.set(key, { key, metadata, cells: row.cells, changed });
  }

  async follow() {
    const query = { resourceVersion: this.revision };
    if (this.selector) query.labelSelector = this.selector;
    const path = api.pathOf(this.resource, this.namespace);
    for await (const { type, object } of api.watch(path, query, { signal: this.signal, table: true })) {
      if (type === "ERROR") throw new api.ApiError(object.code, object);
      if (object.columnDefinitions?.length) this.columns = object.columnDefinitions;
      for (const row of object.rows ?? []) {
        const metadata = row.object.metadata;
        this.revision = metadata.resourceVersion ?? this.revision;
        if (type === "BOOKMARK") continue;
        if (type === "DELETED") this.rows.delete(metadata.uid ?? `${metadata.namespace}/${metadata.name}`);
        else this.put(row, true);
      }
      if (type === "BOOKMARK") this.revision = object.metadata?.resourceVersion ?? this.revision;
      this.publish();
    }
  }

  set(change) {
    Object.assign(this, change);
    this.publish();
  }

  /** Many events in a row are drawn once. */
  publish() {
    if (this.scheduled) return;
    this.scheduled = true;
    setTimeout(() => {
      this.scheduled = false;
      if (this.signal.aborted) return;
      const { columns, state, error, more, remaining, loadingMore, isFull } = this;
      this.send({ columns, state, error, more, remaining, loadingMore, isFull, rows: sorted([...this.rows.values()]) });
    }, 30);
  }
}

const compare = new Intl.Collator("en", { numeric: true }).compare;
const sorted = (rows) =>
  rows.sort((a, b) => compare(a.metadata.namespace ?? "", b.metadata.namespace ?? "") || compare(a.metadata.name, b.metadata.name));
