// Editing: a dry run previews the result, then the object is saved; the user chooses how to resolve conflicts.
import { useEffect, useRef, useState } from "preact/hooks";
import { stringify } from "yaml";
import * as api from "./api.js";
import { changed, comparable, mistake, parse, withoutManagedFields } from "./document.js";
import { Diff, Editor } from "./editor.jsx";
import { useTitle } from "./hooks.js";
import { conflictPath, managersOf, ownedPart } from "./ownership.js";
import { Failure, Warnings } from "./parts.jsx";
import { go, link, listParts, objectParts } from "./router.js";

const HINTS = {
  update: "The whole object is replaced. If somebody else changed it meanwhile, you are asked.",
  apply: `Only the fields below are sent, and “${api.FIELD_MANAGER}” owns them (server-side apply). Fields you take out are given up.`,
};

export function EditTab({ resource, namespace, name, live }) {
  const [mode, setMode] = useState("update");
  const [base, setBase] = useState(live);
  const [draft, setDraft] = useState(() => startText("update", live));
  const [step, setStep] = useState({ name: "edit" });
  const begin = (nextMode, version, text = startText(nextMode, version)) => {
    setMode(nextMode);
    setBase(version);
    setDraft(text);
    setStep({ name: "edit" });
  };
  const write = (options) => api.write(resource, namespace, name, options.text ?? draft.text, { mode, ...options });
  const attempt = async (action) => {
    const found = mistake(draft.text);
    if (found) return setStep({ name: "edit", error: new Error(`Line ${found.line}: ${found.message}`) });
    setStep((last) => ({ ...last, busy: true, error: undefined }));
    try {
      setStep(await action());
    } catch (error) {
      setStep(error.code === 409 ? await conflict(error) : { name: "edit", error });
    }
  };
  const conflict = async (error) => {
    const causes = (error.status?.details?.causes ?? []).filter((cause) => cause.reason === "FieldManagerConflict");
    if (causes.length) return { name: "apply-conflict", causes };
    const raw = await api.getText(api.pathOf(resource, namespace, name), { accept: "application/yaml" });
    return { name: "update-conflict", theirs: versionOf(raw) };
  };
  const preview = (options) =>
    attempt(async () => {
      const { text, warnings } = await write({ dryRun: true, ...options });
      return { name: "preview", result: withoutManagedFields(text).text, warnings, options };
    });
  const save = (options) =>
    attempt(async () => {
      const { text, warnings } = await write(options);
      const saved = versionOf(text);
      setBase(saved);
      setDraft(startText(mode, saved));
      return { name: "edit", saved: saved.revision, warnings };
    });
  const rebased = (theirs) => ({ text: changed(draft.text, [[["metadata", "resourceVersion"], theirs.revision]]), version: Math.random() });
  const behind = step.name === "edit" && mode === "update" && base.revision !== live.revision && !step.saved;
  return (
    <div class="edit">
      <div class="toolbar">
        <fieldset class="choice">
          <legend class="visually-hidden">How to write</legend>
          {["update", "apply"].map((id) => (
            <label>
              <input type="radio" name="mode" checked={mode === id} onChange={() => begin(id, live)} /> {id === "update" ? "Update" : "Apply"}
            </label>
          ))}
        </fieldset>
        <span class="hint grow">{HINTS[mode]}</span>
        <button class="primary" disabled={step.busy} onClick={() => preview({})}>
          Preview
        </button>
        <button onClick={() => begin(mode, live)}>Start over</button>
      </div>
      {step.error && <Failure error={step.error} />}
      {step.saved && (
        <p class="success" role="status">
          Saved as resource version {step.saved}.
        </p>
      )}
      {step.name !== "preview" && <Warnings texts={step.warnings} />}
      {behind && (
        <p class="notice" role="status">
          The object has changed since you began.{" "}
          <button onClick={() => setStep({ name: "update-conflict", theirs: live })}>Compare</button>
        </p>
      )}
      {step.name === "preview" && (
        <section aria-label="Preview" class="step">
          <h2>What the server would store</h2>
          <Warnings texts={step.warnings} />
          <Diff before={comparable(live.text)} after={comparable(step.result)} label="Changes" />
          <p class="actions">
            <button class="primary" disabled={step.busy} onClick={() => save(step.options)}>
              Save
            </button>
            <button onClick={() => setStep({ name: "edit" })}>Keep editing</button>
          </p>
        </section>
      )}
      {step.name === "update-conflict" && (
        <section aria-label="Conflict" class="step" role="alert">
          <h2>Somebody else changed the object</h2>
          <p>From theirs to yours:</p>
          <Diff before={comparable(step.theirs.text)} after={comparable(draft.text)} label="From theirs to yours" />
          <p class="actions">
            <button class="danger" onClick={() => save({ text: rebased(step.theirs).text })}>
              Overwrite with mine
            </button>
            <button onClick={() => begin(mode, step.theirs)}>Take theirs</button>
            <button onClick={() => begin(mode, step.theirs, rebased(step.theirs))}>Edit mine on top of theirs</button>
          </p>
        </section>
      )}
      {step.name === "apply-conflict" && (
        <section aria-label="Conflict" class="step" role="alert">
          <h2>Others own some of these fields</h2>
          <ul>
            {step.causes.map((cause) => (
              <li>
                <code>{cause.field}</code> {cause.message}
              </li>
            ))}
          </ul>
          <p class="actions">
            <button class="danger" onClick={() => preview({ force: true })}>
              Take them over
            </button>
            <button onClick={() => begin(mode, base, without(draft.text, step.causes))}>Leave them to their owners</button>
            <button onClick={() => setStep({ name: "edit" })}>Keep editing</button>
          </p>
        </section>
      )}
      <div class="slot" hidden={step.name !== "edit"}>
        <Editor text={draft.text} version={draft.version} label="Object to write" onChange={(text) => setDraft({ text, version: draft.version })} onRun={() => preview({})} />
      </div>
    </div>
  );
}

function versionOf(raw) {
  const version = withoutManagedFields(raw);
  return { ...version, revision: version.object.metadata.resourceVersion };
}

/** What an edit begins with: the object, or what the console owns of it. */
function startText(mode, version) {
  if (mode === "update") return { text: version.text, version: Math.random() };
  const { apiVersion, kind, metadata } = version.object;
  const own = managersOf(version.managed).find((m) => m.manager === api.FIELD_MANAGER && m.operation === "Apply" && !m.subresource);
  const { metadata: ownMetadata, ...rest } = own ? ownedPart(own.fields, version.object) : {};
  const names = { name: metadata.name, ...(metadata.namespace ? { namespace: metadata.namespace } : {}) };
  const object = { apiVersion, kind, metadata: { ...names, ...ownMetadata }, ...rest };
  return { text: stringify(object, { lineWidth: 0, indentSeq: false }), version: Math.random() };
}

/** The text without the fields that conflict. */
function without(text, causes) {
  const object = parse(text).toJS();
  const paths = causes.map((cause) => conflictPath(cause.field, object)).filter(Boolean);
  return { text: changed(text, paths.map((path) => [path, undefined])), version: Math.random() };
}

export function CreateView({ resource, namespace }) {
  const heading = useTitle(`Create ${resource.kind}`);
  const space = resource.namespaced ? `\n  namespace: ${namespace || "default"}` : "";
  const [draft, setDraft] = useState(`apiVersion: ${api.groupVersion(resource)}\nkind: ${resource.kind}\nmetadata:\n  name: example${space}\n`);
  const [step, setStep] = useState({});
  const start = useRef(draft);
  const write = async (dryRun) => {
    const found = mistake(draft);
    if (found) return setStep({ error: new Error(`Line ${found.line}: ${found.message}`) });
    setStep({ busy: true });
    try {
      const target = parse(draft).getIn(["metadata", "namespace"]) ?? namespace;
      const { text, warnings } = await api.write(resource, target, "", draft, { mode: "create", dryRun });
      const created = withoutManagedFields(text);
      if (dryRun) return setStep({ preview: created.text, warnings });
      go(objectParts(resource, created.object.metadata.namespace, created.object.metadata.name));
    } catch (error) {
      setStep({ error });
    }
  };
  useEffect(() => setStep({}), [draft]);
  return (
    <section class="view">
      <div class="title">
        <p class="crumbs">
          <a data-up href={link(listParts(resource), { namespace })}>
            {resource.kind}
          </a>
        </p>
        <h1 ref={heading} tabIndex={-1}>
          Create {resource.kind}
        </h1>
      </div>
      <div class="toolbar">
        <button disabled={step.busy} onClick={() => write(true)}>
          Preview
        </button>
        <button class="primary" disabled={step.busy} onClick={() => write(false)}>
          Create
        </button>
        <a class="button" href={link(["schema", ...listParts(resource).slice(1)])}>
          Schema
        </a>
      </div>
      {step.error && <Failure error={step.error} />}
      <div class="edit panel">
        {step.preview && (
          <section aria-label="Preview" class="step">
            <h2>What the server would store</h2>
            <Warnings texts={step.warnings} />
            <Diff before={draft} after={step.preview} label="What the server adds" />
          </section>
        )}
        <Editor text={start.current} version={0} label="Object to create" onChange={setDraft} onRun={() => write(true)} />
      </div>
    </section>
  );
}
