// The keyboard: the table of all shortcuts, and the dialog that lists them.
import { useEffect } from "preact/hooks";

const KEYS = [
  ["/", "Search"],
  ["j  k", "Next and previous row"],
  ["Enter", "Open the row"],
  ["Esc", "Back to the list, or out of a field"],
  ["Ctrl Enter", "Preview an edit, run an expression"],
  ["?", "This help"],
];

/** Whether keys belong to what has the focus. Editors live in shadow roots. */
function isTyping(event) {
  const target = event.composedPath()[0];
  return target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName);
}

export function useKeys(help) {
  useEffect(() => {
    const pressed = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
      if (document.querySelector("dialog[open]")) return;
      if (event.key === "Escape") return leave(event);
      if (isTyping(event)) return;
      const action = { "/": search, j: () => step(1), k: () => step(-1), "?": () => help.current.showModal() }[event.key];
      if (!action) return;
      event.preventDefault();
      action();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
}

/** The search of the view, else that of the navigation. */
function search() {
  const field = document.querySelector("main input[type=search]") ?? document.querySelector("nav input[type=search]");
  field?.focus();
  field?.select();
}

/** Rows are links: the focus itself moves. */
function step(by) {
  const rows = [...document.querySelectorAll("main [data-row]")];
  if (!rows.length) return;
  const at = rows.indexOf(document.activeElement);
  const next = at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, at + by));
  rows[next].focus();
  rows[next].scrollIntoView({ block: "nearest" });
}

function leave(event) {
  if (isTyping(event)) {
    event.composedPath()[0].blur();
    return;
  }
  document.querySelector("main a[data-up]")?.click();
}

export const Help = ({ dialog }) => (
  <dialog ref={dialog} aria-labelledby="help-title">
    <h2 id="help-title">Keys</h2>
    <table class="keys">
      <tbody>
        {KEYS.map(([keys, what]) => (
          <tr>
            <th scope="row">
              {keys.split("  ").map((key) => (
                <kbd>{key}</kbd>
              ))}
            </th>
            <td>{what}</td>
          </tr>
        ))}
      </tbody>
    </table>
    <form method="dialog">
      <button class="primary">Close</button>
    </form>
  </dialog>
);
