// CodeMirror as a component: YAML to read with owners beside the lines, YAML to edit, and diffs. Editors are in shadow
// roots, because CodeMirror then uses constructed style sheets, which the strict content security policy allows.
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { HighlightStyle, foldGutter, foldKeymap, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { unifiedMergeView } from "@codemirror/merge";
import { search, searchKeymap } from "@codemirror/search";
import { Compartment, EditorState } from "@codemirror/state";
import { EditorView, GutterMarker, drawSelection, gutter, highlightActiveLine, highlightSpecialChars, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { useEffect, useRef } from "preact/hooks";

const colors = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--syntax-key)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--syntax-string)" },
  { tag: [tags.number, tags.bool, tags.null, tags.keyword], color: "var(--syntax-atom)" },
  { tag: [tags.comment, tags.meta], color: "var(--muted)" },
]);

const look = EditorView.theme({
  "&": { fontSize: "12.5px", backgroundColor: "var(--surface)", color: "var(--text)", height: "100%" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.5" },
  ".cm-content": { caretColor: "var(--text)", padding: "6px 0" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-gutters": { backgroundColor: "var(--surface)", color: "var(--muted)", border: "none", borderRight: "1px solid var(--line)" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--active)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--selection) !important" },
  ".cm-foldPlaceholder": { backgroundColor: "var(--hover)", border: "none", color: "var(--muted)" },
  ".cm-panels": { backgroundColor: "var(--raised)", color: "var(--text)", borderColor: "var(--line)" },
  ".cm-textfield, .cm-button": { backgroundColor: "var(--surface)", backgroundImage: "none", color: "var(--text)", border: "1px solid var(--line)" },
  ".cm-searchMatch": { backgroundColor: "var(--selection)" },
  ".cm-owners .cm-gutterElement": { padding: "0 8px 0 6px", textAlign: "left", borderLeft: "3px solid transparent", whiteSpace: "nowrap" },
  ".cm-owners": { width: "var(--owners-width)", overflow: "hidden" },
  ".cm-owner": { display: "flex", gap: "8px", height: "100%", margin: "0 -8px 0 -9px", padding: "0 8px", borderLeft: "3px solid transparent" },
  ".cm-owner-name": { flex: "1", overflow: "hidden", textOverflow: "ellipsis" },
  ".cm-owner-since": { display: "var(--owners-since)", color: "var(--muted)" },
  ...Object.fromEntries([0, 1, 2, 3, 4, 5].map((n) => [`.cm-owner-${n}`, { borderLeftColor: `var(--owner-${n})`, color: `var(--owner-text)` }])),
  ".cm-changedLine, .cm-insertedLine": { backgroundColor: "var(--added) !important" },
  ".cm-changedText": { background: "var(--added-text) !important" },
  ".cm-deletedChunk": { backgroundColor: "var(--removed) !important", paddingLeft: "6px" },
  ".cm-deletedChunk .cm-deletedText": { background: "var(--removed-text) !important" },
  ".cm-deletedChunk .cm-deletedLine, .cm-deletedChunk del": { textDecoration: "none" },
  ".cm-changeGutter": { width: "3px", paddingLeft: "0" },
  ".cm-changedLineGutter": { background: "var(--added-text)" },
  ".cm-deletedLineGutter": { background: "var(--removed-text)" },
  ".cm-collapsedLines": { background: "var(--hover)", color: "var(--muted)", padding: "2px 8px" },
  ".cm-collapsedLines:before, .cm-collapsedLines:after": { content: '"⋯"' },
});

/** Invisible characters are shown, above all those that change the direction of what follows: text must not look like another text. */
const special = highlightSpecialChars({ addSpecialChars: /[\u202a-\u202e\u2060-\u2069]/ });

/** What all editors have. */
const base = [special, lineNumbers(), drawSelection(), yaml(), syntaxHighlighting(colors), look, indentUnit.of("  "), search({ top: true }), EditorView.lineWrapping];

class OwnerMarker extends GutterMarker {
  constructor(name, since, color, title) {
    super();
    Object.assign(this, { name, since, color, title });
  }
  eq(other) {
    return other.name === this.name && other.since === this.since && other.color === this.color;
  }
  toDOM() {
    const span = document.createElement("span");
    span.className = `cm-owner cm-owner-${this.color}`;
    span.title = this.title;
    for (const part of ["name", "since"]) {
      const inner = span.appendChild(document.createElement("span"));
      inner.className = `cm-owner-${part}`;
      inner.textContent = this[part];
    }
    return span;
  }
}

/** The gutter of owners: `owners[n]` is {name, since, color, title} of line n+1, or nothing. */
function ownersGutter(owners) {
  if (!owners) return [];
  const markers = owners.map((owner) => owner && new OwnerMarker(owner.name, owner.since, owner.color, owner.title));
  return gutter({
    class: "cm-owners",
    lineMarker: (view, line) => markers[view.state.doc.lineAt(line.from).number - 1] ?? null,
  });
}

/** Mounts a view in a shadow root and takes it down again. */
function useView(make, inputs) {
  const host = useRef(null);
  const view = useRef(null);
  useEffect(() => {
    const root = host.current.shadowRoot ?? host.current.attachShadow({ mode: "open" });
    const parent = root.appendChild(document.createElement("div"));
    parent.style.height = "100%";
    view.current = new EditorView({ ...make(), parent, root });
    return () => {
      view.current.destroy();
      parent.remove();
    };
  }, inputs);
  return [host, view];
}

const labelled = (label, more = {}) => EditorView.contentAttributes.of({ "aria-label": label, ...more });

/** YAML to read. `onLine` is told the line of the cursor. */
export function Viewer({ text, label, owners, onLine }) {
  const gutterPart = useRef(new Compartment());
  const latest = useRef(onLine);
  latest.current = onLine;
  const [host, view] = useView(
    () => ({
      doc: text,
      extensions: [
        gutterPart.current.of(ownersGutter(owners)),
        base,
        foldGutter(),
        highlightActiveLine(),
        EditorState.readOnly.of(true),
        keymap.of([...defaultKeymap, ...searchKeymap, ...foldKeymap]),
        labelled(label, { "aria-readonly": "true", inputmode: "none" }),
        EditorView.updateListener.of((update) => {
          if (!update.selectionSet && !update.docChanged) return;
          const { state } = update;
          latest.current?.(state.doc.lineAt(state.selection.main.head).number);
        }),
      ],
    }),
    [label],
  );
  useEffect(() => {
    const { state } = view.current;
    const changes = state.doc.toString() === text ? [] : { from: 0, to: state.doc.length, insert: text };
    view.current.dispatch({ changes, effects: gutterPart.current.reconfigure(ownersGutter(owners)) });
  }, [text, owners]);
  return <div class="editor" ref={host} />;
}

/** YAML to edit. `text` is taken over whenever `version` changes. */
export function Editor({ text, version, label, onChange, onRun, plain }) {
  const latest = useRef();
  latest.current = { onChange, onRun };
  const run = () => {
    latest.current.onRun?.();
    return true;
  };
  const [host, view] = useView(
    () => ({
      doc: text,
      extensions: [
        plain ? [look, special, drawSelection(), EditorView.lineWrapping] : [base, foldGutter(), highlightActiveLine()],
        history(),
        // Escape leaves the editor, so that Tab does not trap the keyboard focus.
        keymap.of([{ key: "Mod-Enter", run }, ...defaultKeymap, ...historyKeymap, ...searchKeymap, ...(plain ? [] : [indentWithTab])]),
        labelled(label, { "aria-multiline": "true" }),
        EditorView.updateListener.of((update) => {
          if (update.docChanged) latest.current.onChange?.(update.state.doc.toString());
        }),
      ],
    }),
    [label],
  );
  useEffect(() => {
    const { state } = view.current;
    if (state.doc.toString() !== text) view.current.dispatch({ changes: { from: 0, to: state.doc.length, insert: text } });
  }, [version]);
  return <div class="editor" ref={host} />;
}

/** What changed between two texts: removed lines above, added ones below. */
export function Diff({ before, after, label }) {
  if (before === after) return <p class="hint">Nothing changes.</p>;
  return <Changes before={before} after={after} label={label} />;
}

function Changes({ before, after, label }) {
  const [host] = useView(
    () => ({
      doc: after,
      extensions: [
        base,
        EditorState.readOnly.of(true),
        labelled(label, { "aria-readonly": "true", inputmode: "none" }),
        unifiedMergeView({
          original: before,
          mergeControls: false,
          collapseUnchanged: { margin: 3, minSize: 6 },
          syntaxHighlightDeletions: false,
        }),
      ],
    }),
    [before, after, label],
  );
  return <div class="editor diff" ref={host} />;
}
