// The CEL workbench: an expression, an object, the result and its cost.
import { useEffect, useRef, useState } from "preact/hooks";
import * as api from "./api.js";
import { withoutManagedFields } from "./document.js";
import { Editor } from "./editor.jsx";
import { useTitle } from "./hooks.js";
import { Failure } from "./parts.jsx";
import { find } from "./router.js";

const EXPRESSION = "object.spec.replicas <= 5 && object.metadata.name.startsWith('web')";
const OBJECT = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  replicas: 3
`;

export function Workbench({ query, resources }) {
  const heading = useTitle("CEL workbench");
  const [expression, setExpression] = useState(EXPRESSION);
  const [object, setObject] = useState({ text: OBJECT, version: 0 });
  const [old, setOld] = useState("");
  const [answer, setAnswer] = useState({});
  const abort = useRef(null);
  useEffect(() => {
    const place = ["group", "version", "resource"].map((key) => query.get(key));
    const resource = place[0] && find(resources, place);
    if (!resource) return;
    const path = api.pathOf(resource, query.get("namespace"), query.get("name"));
    api.getText(path, { accept: "application/yaml" }).then(
      (raw) => {
        setObject({ text: withoutManagedFields(raw).text, version: path });
        setExpression("object.metadata.name");
      },
      (error) => setAnswer({ error }),
    );
  }, [query.toString()]);
  const run = async () => {
    abort.current?.abort();
    abort.current = new AbortController();
    const { signal } = abort.current;
    try {
      const value = await api.postJson("/console/api/cel", { expression, object: object.text, oldObject: old }, { signal });
      setAnswer({ value });
    } catch (error) {
      if (!signal.aborted) setAnswer({ error });
    }
  };
  // Evaluates after the user stops typing.
  useEffect(() => {
    const timer = setTimeout(run, 400);
    return () => clearTimeout(timer);
  }, [expression, object.text, old]);
  return (
    <section class="view">
      <div class="title">
        <h1 ref={heading} tabIndex={-1}>
          CEL workbench
        </h1>
        <p class="hint">
          Variables as in validation rules (<code>self</code>, <code>oldSelf</code>) and in policies (<code>object</code>, <code>oldObject</code>), with the libraries of Kubernetes.
        </p>
      </div>
      <div class="workbench">
        <section aria-label="Expression" class="expression">
          <div class="toolbar">
            <h2>Expression</h2>
            <span class="grow" />
            <button class="primary" onClick={run}>
              Run
            </button>
          </div>
          <Editor plain text={expression} version={object.version} label="Expression" onChange={setExpression} onRun={run} />
          <Answer answer={answer} />
        </section>
        <section aria-label="Objects" class="objects">
          <h2>Object</h2>
          <Editor text={object.text} version={object.version} label="Object" onChange={(text) => setObject({ ...object, text })} onRun={run} />
          <details>
            <summary>Old object, for updates</summary>
            <Editor text="" version={0} label="Old object" onChange={setOld} onRun={run} />
          </details>
        </section>
      </div>
    </section>
  );
}

function Answer({ answer: { value, error } }) {
  if (error) return <Failure error={error} />;
  if (!value) return <p class="hint">…</p>;
  const part = value.cost === undefined ? undefined : value.cost / value.costLimit;
  return (
    <div class="answer" role="status" data-outcome={value.error ? "error" : "value"}>
      <dl>
        <div>
          <dt>{value.error ? (value.compiled ? "Error" : "Does not compile") : "Result"}</dt>
          <dd>
            <pre tabIndex={0} role="region" aria-label="Result">
              {value.error ?? value.result}
            </pre>
            {value.truncated && <p class="hint">The result is longer than what is shown.</p>}
          </dd>
        </div>
        {value.type && (
          <div>
            <dt>Type</dt>
            <dd>
              <code>{value.type}</code>
            </dd>
          </div>
        )}
        {part !== undefined && (
          <div>
            <dt>Cost</dt>
            <dd>
              <meter min="0" max="1" low="0.5" high="0.9" optimum="0" value={part} aria-label="Cost against its limit" />{" "}
              {value.cost.toLocaleString("en")} of {value.costLimit.toLocaleString("en")} ({(part * 100).toPrecision(2)} %)
            </dd>
          </div>
        )}
      </dl>
    </div>
  );
}
