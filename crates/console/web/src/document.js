// YAML documents: the text that is displayed and edited, and the fields of its lines.
import { LineCounter, isMap, isScalar, isSeq, parseDocument } from "yaml";

/**
 * Integers stay whole, however large. The server refuses keys that come twice; the parser would compare each key with all
 * others of its map, which takes minutes for an object with tens of thousands.
 */
const OPTIONS = { intAsBigInt: true, uniqueKeys: false, keepSourceTokens: false, logLevel: "error" };
const PRINT = { lineWidth: 0, indentSeq: false };

export const parse = (text, more) => parseDocument(text, { ...OPTIONS, ...more });

/** The object as YAML without managedFields, and managedFields themselves. */
export function withoutManagedFields(text) {
  const document = parse(text);
  const managed = document.getIn(["metadata", "managedFields"]);
  document.deleteIn(["metadata", "managedFields"]);
  return { text: document.toString(PRINT), managed: managed?.toJSON() ?? [], object: document.toJS() };
}

/** The text with some fields set or, by undefined, taken out. */
export function changed(text, changes) {
  const document = parse(text);
  for (const [path, value] of changes) {
    if (value === undefined) document.deleteIn(path);
    else document.setIn(path, value);
  }
  return document.toString(PRINT);
}

/** The text without what changes with every write, for comparisons. */
export const comparable = (text) =>
  text &&
  changed(text, [
    [["metadata", "resourceVersion"], undefined],
    [["metadata", "generation"], undefined],
  ]);

/** What is wrong with a text, with its place; undefined if nothing is. */
export function mistake(text) {
  const [error] = parse(text).errors;
  return error && { message: error.message.split("\n")[0], line: error.linePos?.[0]?.line };
}

/**
 * For each line, the path of the field that begins on it or goes on over it. A part of a path is a key, or the index of
 * an item. The first field of an item is on the line of its dash.
 */
export function linePaths(text) {
  const counter = new LineCounter();
  const document = parse(text, { lineCounter: counter });
  const lines = [];
  const mark = (node, path) => {
    if (!node?.range) return;
    lines[counter.linePos(node.range[0]).line] = path;
  };
  const walk = (node, path) => {
    if (isMap(node)) {
      for (const pair of node.items) {
        const inner = [...path, isScalar(pair.key) ? String(pair.key.value) : String(pair.key)];
        mark(pair.key, inner);
        walk(pair.value, inner);
      }
    } else if (isSeq(node)) {
      node.items.forEach((item, index) => {
        mark(item, [...path, index]);
        walk(item, [...path, index]);
      });
    }
  };
  walk(document.contents, []);
  let last = [];
  const count = text.split("\n").length;
  return Array.from({ length: count }, (_, index) => (last = lines[index + 1] ?? last));
}

/** .spec.containers[0].image */
export const pathText = (path) => path.map((part) => (typeof part === "number" ? `[${part}]` : /^[\w-]+$/.test(part) ? `.${part}` : `["${part}"]`)).join("");
