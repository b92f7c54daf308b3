// Definitions as documentation: the fields of a kind from OpenAPI v3.
import { useMemo, useState } from "preact/hooks";
import { getJson, groupVersion } from "./api.js";
import { useLoaded, useTitle } from "./hooks.js";
import { matches, wordsOf } from "./navigation.jsx";
import { Failure, Prose } from "./parts.jsx";
import { link, listParts } from "./router.js";

/** How deep and how much a search looks into a schema; some contain themselves. */
const SEARCH_DEPTH_MAX = 9;
const SEARCH_RESULTS_MAX = 200;

export function SchemaView({ resources, resource }) {
  return resource ? <Kind resource={resource} /> : <Picker resources={resources} />;
}

function Picker({ resources }) {
  const heading = useTitle("Schemas");
  const [search, setSearch] = useState("");
  const found = resources.filter((resource) => matches(resource, wordsOf(search)));
  return (
    <section class="view">
      <div class="title">
        <h1 ref={heading} tabIndex={-1}>
          Schemas
        </h1>
        <p class="hint">What the fields of each kind mean.</p>
      </div>
      <div class="toolbar">
        <input type="search" placeholder="Find a kind" aria-label="Find a kind" value={search} onInput={(event) => setSearch(event.currentTarget.value)} />
      </div>
      <ul class="columns">
        {found.map((resource) => (
          <li>
            <a data-row href={link(["schema", ...listParts(resource).slice(1)])}>
              {resource.kind}
            </a>{" "}
            <span class="hint">{groupVersion(resource)}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}

async function load(resource, signal) {
  const index = await getJson("/openapi/v3", { signal });
  const place = resource.group ? `apis/${resource.group}/${resource.version}` : `api/${resource.version}`;
  const entry = index.paths[place];
  if (!entry) throw new Error(`There is no OpenAPI document for ${groupVersion(resource)}.`);
  const { components } = await getJson(entry.serverRelativeURL, { signal });
  const is = (known) => known.group === resource.group && known.version === resource.version && known.kind === resource.kind;
  const root = Object.values(components.schemas).find((schema) => schema["x-kubernetes-group-version-kind"]?.some(is));
  if (!root) throw new Error(`The OpenAPI document of ${groupVersion(resource)} has no ${resource.kind}.`);
  return { root, schemas: components.schemas };
}

function Kind({ resource }) {
  const heading = useTitle(`${resource.kind} schema`);
  const [search, setSearch] = useState("");
  const document = useLoaded((signal) => load(resource, signal), [resource.group, resource.version, resource.kind]);
  const words = wordsOf(search);
  const found = useMemo(() => (document.value && words.length ? findFields(document.value, words) : null), [document.value, search]);
  return (
    <section class="view schema">
      <div class="title">
        <p class="crumbs">
          <a data-up href={link(["schema"])}>
            Schemas
          </a>
        </p>
        <h1 ref={heading} tabIndex={-1}>
          {resource.kind}
        </h1>
        <p class="hint">
          {groupVersion(resource)} · <a href={link(listParts(resource))}>objects</a>
          {resource.versions.length > 1 && " · versions: "}
          {resource.versions.length > 1 &&
            resource.versions.map((version) => (
              <>
                {" "}
                <a href={link(["schema", resource.group || "core", version, resource.name])} aria-current={version === resource.version ? "true" : undefined}>
                  {version}
                </a>
              </>
            ))}
        </p>
      </div>
      <div class="toolbar">
        <input type="search" placeholder="Find a field" aria-label="Find a field" value={search} onInput={(event) => setSearch(event.currentTarget.value)} />
      </div>
      {document.error && <Failure error={document.error} />}
      {document.loading && <p class="hint">Reading the schema…</p>}
      {found && (
        <ul class="fields" aria-label="Fields found">
          {found.map(({ path, schema }) => (
            <li>
              <code>{path}</code> <span class="type">{typeName(schema)}</span>
              <p>
                <Prose text={schema.description} />
              </p>
            </li>
          ))}
          {found.length === 0 && <li class="hint">No field is called so.</li>}
        </ul>
      )}
      {document.value && !found && (
        <div class="panel">
          <p class="description">
            <Prose text={document.value.root.description} />
          </p>
          <Fields schema={document.value.root} schemas={document.value.schemas} open />
        </div>
      )}
    </section>
  );
}

/** A schema with its references followed; what stands beside a reference counts more. */
function resolve(schema, schemas) {
  const ref = schema.$ref ?? (schema.allOf?.length === 1 ? schema.allOf[0].$ref : undefined);
  if (!ref) return schema;
  const target = schemas[ref.split("/").at(-1)] ?? {};
  const { $ref, allOf, ...own } = schema;
  return { ...resolve(target, schemas), ...Object.fromEntries(Object.entries(own).filter(([key, value]) => key !== "default" || Object.keys(value ?? {}).length)) };
}

/** The fields inside: of an object, of the items of a list, of the values of a map. */
function inside(schema, schemas) {
  let inner = schema;
  for (let depth = 0; depth < 8; depth++) {
    if (inner.properties) return inner;
    const next = inner.items ?? (typeof inner.additionalProperties === "object" ? inner.additionalProperties : undefined);
    if (!next) return undefined;
    inner = resolve(next, schemas);
  }
  return undefined;
}

function typeName(schema, schemas = {}) {
  if (schema.items) return `[]${typeName(resolve(schema.items, schemas), schemas)}`;
  if (typeof schema.additionalProperties === "object") return `map of ${typeName(resolve(schema.additionalProperties, schemas), schemas)}`;
  if (schema["x-kubernetes-int-or-string"] || schema.format === "int-or-string" || schema.oneOf) return "int or string";
  return schema.format && schema.type !== "object" ? `${schema.type} (${schema.format})` : (schema.type ?? "any");
}

const FACTS = ["default", "enum", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "pattern", "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type", "x-kubernetes-patch-merge-key"];

function Fields({ schema, schemas, open }) {
  const inner = inside(schema, schemas);
  if (!inner) return null;
  const required = new Set(inner.required ?? []);
  return (
    <ul class="fields">
      {Object.entries(inner.properties).map(([name, given]) => (
        <Field name={name} schema={resolve(given, schemas)} schemas={schemas} required={required.has(name)} open={open && name === "spec"} />
      ))}
    </ul>
  );
}

function Field({ name, schema, schemas, required, open }) {
  const [isOpen, setOpen] = useState(open);
  const hasMore = Boolean(inside(schema, schemas));
  const title = (
    <>
      <code>{name}</code> <span class="type">{typeName(schema, schemas)}</span>
      {required && <span class="badge">required</span>}
    </>
  );
  const facts = FACTS.filter((fact) => schema[fact] !== undefined);
  const about = (
    <div class="about">
      {schema.description && (
        <p>
          <Prose text={schema.description} />
        </p>
      )}
      {facts.length > 0 && (
        <dl>
          {facts.map((fact) => (
            <div>
              <dt>{fact.replace("x-kubernetes-", "")}</dt>
              <dd>
                <code>{typeof schema[fact] === "string" ? schema[fact] : JSON.stringify(schema[fact])}</code>
              </dd>
            </div>
          ))}
        </dl>
      )}
      {(schema["x-kubernetes-validations"] ?? []).map((rule) => (
        <p>
          <span class="badge">rule</span> <code>{rule.rule}</code> {rule.message}
        </p>
      ))}
    </div>
  );
  if (!hasMore) {
    return (
      <li>
        <div class="leaf">{title}</div>
        {about}
      </li>
    );
  }
  return (
    <li>
      <details open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>{title}</summary>
        {isOpen && about}
        {isOpen && <Fields schema={schema} schemas={schemas} />}
      </details>
      {!isOpen && about}
    </li>
  );
}

/** Fields whose path or description has all words, the nearest first. */
function findFields({ root, schemas }, words) {
  const found = [];
  let level = [{ path: "", schema: root }];
  for (let depth = 0; depth < SEARCH_DEPTH_MAX && level.length && found.length < SEARCH_RESULTS_MAX; depth++) {
    const next = [];
    for (const { path, schema } of level) {
      const inner = inside(schema, schemas);
      for (const [name, given] of Object.entries(inner?.properties ?? {})) {
        const field = { path: `${path}.${name}`, schema: resolve(given, schemas) };
        next.push(field);
        const text = field.path.toLowerCase();
        if (words.every((word) => text.includes(word)) && found.length < SEARCH_RESULTS_MAX) found.push(field);
      }
    }
    // Wide and deep kinds grow fast; the fields dropped here are far from the root.
    level = next.slice(0, 4000);
  }
  return found;
}
