// Parts that several views use.
import { useEffect, useState } from "preact/hooks";

/** Shows a component once its code is loaded. */
export function Lazy({ load, ...props }) {
  const [Component, setComponent] = useState(null);
  const [error, setError] = useState(null);
  useEffect(() => {
    let alive = true;
    load().then(
      (component) => alive && setComponent(() => component),
      (why) => alive && setError(why),
    );
    return () => (alive = false);
  }, [load]);
  if (error) return <Failure error={error} />;
  return Component ? <Component {...props} /> : <p class="hint">Loading…</p>;
}

/** A text whose `code` is set as code. */
export function Prose({ text }) {
  // Every second part stands between backquotes; the last one only if they are paired.
  const parts = (text ?? "").split("`");
  if (parts.length % 2 === 0) return text;
  return parts.map((part, at) => (at % 2 ? <code>{part}</code> : part));
}

/** What went wrong, in the server's words. */
export function Failure({ error, retry }) {
  const causes = error.status?.details?.causes ?? [];
  return (
    <div class="failure" role="alert">
      <p>
        <strong>{error.code === 403 ? "You may not do this." : "This did not work."}</strong> {error.message}
      </p>
      {causes.length > 1 && (
        <ul>
          {causes.map((cause) => (
            <li>
              <code>{cause.field}</code> {cause.message}
            </li>
          ))}
        </ul>
      )}
      {retry && <button onClick={retry}>Try again</button>}
    </div>
  );
}

export function Warnings({ texts }) {
  if (!texts?.length) return null;
  return (
    <ul class="warnings" role="status">
      {texts.map((text) => (
        <li>{text}</li>
      ))}
    </ul>
  );
}

/** Tabs with the keys that the ARIA pattern names. */
export function Tabs({ label, tabs, current, onSelect }) {
  const move = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const at = tabs.findIndex(([id]) => id === current);
    const [id] = tabs[(at + step + tabs.length) % tabs.length];
    onSelect(id);
    document.getElementById(`tab-${id}`)?.focus();
  };
  return (
    <div class="tabs" role="tablist" aria-label={label} onKeyDown={move}>
      {tabs.map(([id, text]) => (
        <button
          role="tab"
          id={`tab-${id}`}
          aria-selected={id === current}
          aria-controls="panel"
          tabIndex={id === current ? 0 : -1}
          onClick={() => onSelect(id)}
        >
          {text}
        </button>
      ))}
    </div>
  );
}
