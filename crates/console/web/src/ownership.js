// Field owners: matches managedFields with the object. Elements of fieldsV1 are f: (field), k: (item by its keys), v:
// (item by its value), i: (item by its index) and . (the value itself).

/** All managers of an object. */
export const managersOf = (managed) =>
  managed.map((entry, index) => ({
    index,
    manager: entry.manager ?? "",
    operation: entry.operation ?? "",
    time: entry.time ?? "",
    subresource: entry.subresource ?? "",
    apiVersion: entry.apiVersion ?? "",
    fields: entry.fieldsV1 ?? {},
  }));

/**
 * The managers who made a version, as far as managedFields tell: those whose entries are new, newer or have more fields
 * than in the version before. Times are whole seconds, so the time alone cannot tell two writers apart.
 */
export function writersOf(managed, previous) {
  const before = managersOf(previous);
  const wrote = (entry) => {
    const old = before.find((other) => ["manager", "operation", "subresource"].every((key) => other[key] === entry[key]));
    return !old || entry.time > old.time || hasMore(entry.fields, old.fields);
  };
  return managersOf(managed).filter(wrote);
}

/** Whether a set of fields has one that the other has not. */
const hasMore = (fields, than) => Object.entries(fields).some(([key, inner]) => !than[key] || hasMore(inner, than[key]));

const canonical = (value) => JSON.stringify(sortKeys(value));
const equal = (a, b) => canonical(a) === canonical(b);
function sortKeys(value) {
  if (typeof value === "bigint") return Number(value);
  if (Array.isArray(value)) return value.map(sortKeys);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.keys(value).sort().map((key) => [key, sortKeys(value[key])]));
}

/** What a set says of a member: its own set, or undefined. */
function member(set, part, value) {
  if (typeof part === "string") return set[`f:${part}`];
  const { names, byText } = itemsOf(set);
  const keyed = value && typeof value === "object" ? names : [];
  const texts = [`i:${part}`, `v:${canonical(value)}`, ...keyed.map((keys) => `k:${canonical(Object.fromEntries(keys.map((key) => [key, value[key]])))}`)];
  return byText.get(texts.find((text) => byText.has(text)));
}

/** Computed once for each set: a set may have tens of thousands of elements, and each line of the object asks. */
function oncePerSet(compute) {
  const computed = new WeakMap();
  return (set) => {
    if (!computed.has(set)) computed.set(set, compute(set));
    return computed.get(set);
  };
}

const isEmpty = oncePerSet((set) => Object.keys(set).length === 0);

/** The elements of a set by their canonical texts, and the names of the fields that its `k:` elements have. */
const itemsOf = oncePerSet((set) => {
  const names = new Map();
  const byText = new Map();
  for (const [element, inner] of Object.entries(set)) {
    const kind = element.slice(0, 2);
    const value = kind === "k:" || kind === "v:" ? JSON.parse(element.slice(2)) : undefined;
    byText.set(value === undefined ? element : kind + canonical(value), inner);
    if (kind === "k:") names.set(canonical(Object.keys(value).sort()), Object.keys(value));
  }
  return { names: [...names.values()], byText };
});

/**
 * The managers that own the field at `path`. A set without elements owns all that is inside, unless others own parts of it:
 * a map of which all members were taken over has the same set as an atomic one.
 */
export function ownersOf(managers, object, path) {
  let claims = managers.map((manager) => ({ manager, below: manager.fields }));
  let value = object;
  for (const part of path) {
    value = value?.[part];
    claims = claims.map(({ manager, below, whole }) => {
      const set = below && member(below, part, value);
      const owns = whole || (set && (isEmpty(set) || "." in set));
      return { manager, owns, whole: owns, below: set && !isEmpty(set) ? set : undefined };
    });
    if (claims.some((claim) => claim.below)) claims.forEach((claim) => (claim.whole = false));
  }
  return claims.filter((claim) => claim.owns).map((claim) => claim.manager);
}

/** For each line of the YAML, its owners; see linePaths. */
export function ownersByLine(managers, object, paths) {
  const cache = new Map();
  return paths.map((path) => {
    const key = JSON.stringify(path);
    if (!cache.has(key)) cache.set(key, ownersOf(managers, object, path));
    return cache.get(key);
  });
}

/** How many fields each manager has. */
export function countFields(fields) {
  return Object.entries(fields).reduce((sum, [, inner]) => {
    const below = isEmpty(inner) ? 1 : countFields(inner);
    return sum + below;
  }, 0);
}

/** The part of the object that a set owns, with what identifies items of lists. */
export function ownedPart(fields, value) {
  if (isEmpty(fields)) return value;
  if (Array.isArray(value)) {
    const items = value.map((item, index) => [item, member(fields, index, item)]).filter(([, inner]) => inner);
    return items.map(([item, inner]) => (inner && typeof item === "object" ? ownedPart(inner, item) : item));
  }
  if (value === null || typeof value !== "object") return value;
  const out = {};
  for (const [key, inner] of Object.entries(value)) {
    const set = fields[`f:${key}`];
    if (set) out[key] = ownedPart(set, inner);
  }
  return out;
}

/** Turns .spec.containers[name="web"].image of a conflict into a path of the object. */
export function conflictPath(field, object) {
  const path = [];
  let value = object;
  const pattern = /\.([^.[\]]+)|\[([^\]]*)\]/g;
  for (const [, name, inner] of field.matchAll(pattern)) {
    const part = name ?? itemIndex(inner, value);
    if (part === undefined) return undefined;
    path.push(part);
    value = value?.[part];
  }
  return path;
}

function itemIndex(text, list) {
  if (!Array.isArray(list)) return undefined;
  const pairs = [...text.matchAll(/(\w+)=("(?:[^"\\]|\\.)*"|[^,]+)/g)].map(([, key, value]) => [key, JSON.parse(value)]);
  const matches = (item) => (pairs.length ? pairs.every(([key, want]) => equal(item?.[key], want)) : equal(item, safe(text.replace(/^=/, ""))));
  const at = list.findIndex(matches);
  return at < 0 ? undefined : at;
}

function safe(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
