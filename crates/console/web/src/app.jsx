// The frame around all views: header, navigation, keys.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { discover } from "./api.js";
import { Failure, Lazy } from "./parts.jsx";
import { useLoaded } from "./hooks.js";
import { find, link, useRoute } from "./router.js";
import { nextTheme, theme } from "./theme.js";
import { Help, useKeys } from "./keys.jsx";
import { Navigation } from "./navigation.jsx";
import { Home } from "./home.jsx";
import { ResourceTable } from "./table.jsx";

const loadObject = () => import("./object.jsx").then((module) => module.ObjectView);
const loadCreate = () => import("./edit.jsx").then((module) => module.CreateView);
const loadSchema = () => import("./schema.jsx").then((module) => module.SchemaView);
const loadWorkbench = () => import("./workbench.jsx").then((module) => module.Workbench);
const loadCharts = () => import("./charts.jsx").then((module) => module.Charts);

export function App({ user, onSignOut }) {
  const route = useRoute();
  const [generation, setGeneration] = useState(0);
  const discovery = useLoaded(() => discover(), [generation]);
  const [menu, setMenu] = useState(false);
  const help = useRef(null);
  useKeys(help);
  useEffect(() => setMenu(false), [route]);
  const resources = discovery.value ?? [];
  const refresh = () => setGeneration((n) => n + 1);
  return (
    <div class="frame" data-menu={menu ? "open" : "closed"}>
      <a class="skip" href="#main" onClick={skipToMain}>
        Skip to content
      </a>
      <header class="top">
        <button class="menu plain" aria-expanded={menu} aria-controls="navigation" onClick={() => setMenu(!menu)}>
          <span aria-hidden="true">☰</span>
          <span class="visually-hidden">Menu</span>
        </button>
        <a class="brand" href="#/">
          <img src="icon.svg" alt="" width="22" height="22" />
          <span>Pintle</span>
        </a>
        <span class="grow" />
        <span class="user" title={(user.groups ?? []).join(", ")}>
          <span class="visually-hidden">Signed in as </span>
          {user.username}
        </span>
        <ThemeButton />
        <button class="plain" title="Keys (?)" onClick={() => help.current.showModal()}>
          <span aria-hidden="true">?</span>
          <span class="visually-hidden">Keyboard help</span>
        </button>
        <button class="plain" onClick={onSignOut}>
          Sign out
        </button>
      </header>
      <Navigation id="navigation" resources={resources} route={route} loading={discovery.loading} />
      <main id="main" tabIndex={-1}>
        {discovery.error ? (
          <Failure error={discovery.error} retry={refresh} />
        ) : discovery.value ? (
          <View route={route} resources={resources} refresh={refresh} user={user} />
        ) : (
          <p class="hint">Reading what the server has…</p>
        )}
      </main>
      <Help dialog={help} />
    </div>
  );
}

function skipToMain(event) {
  event.preventDefault();
  document.getElementById("main").focus();
}

function View({ route, resources, refresh, user }) {
  const [place, ...rest] = route.parts;
  const resource = useMemo(() => find(resources, rest), [resources, rest.join("/")]);
  const key = route.parts.join("/");
  switch (place) {
    case undefined:
      return <Home resources={resources} refresh={refresh} user={user} />;
    case "list":
      if (!resource) return <Unknown what={rest.join("/")} refresh={refresh} />;
      return <ResourceTable key={key} resource={resource} query={route.query} resources={resources} />;
    case "object":
      if (!resource) return <Unknown what={rest.join("/")} refresh={refresh} />;
      return <Lazy key={key} load={loadObject} resource={resource} namespace={rest[3] === "-" ? "" : rest[3]} name={rest[4]} query={route.query} />;
    case "create":
      if (!resource) return <Unknown what={rest.join("/")} refresh={refresh} />;
      return <Lazy key={key} load={loadCreate} resource={resource} namespace={route.query.get("namespace") ?? ""} />;
    case "schema":
      return <Lazy key={key} load={loadSchema} resources={resources} resource={resource} />;
    case "cel":
      return <Lazy key="cel" load={loadWorkbench} query={route.query} resources={resources} />;
    case "charts":
      return <Lazy key="charts" load={loadCharts} />;
    default:
      return <Unknown what={key} refresh={refresh} />;
  }
}

function Unknown({ what, refresh }) {
  return (
    <section class="view">
      <h1>Not here</h1>
      <p>The server has no “{what}”, or you came by an old link.</p>
      <p>
        <button onClick={refresh}>Look again</button> <a href={link([])}>All resources</a>
      </p>
    </section>
  );
}

function ThemeButton() {
  const [chosen, setChosen] = useState(theme());
  return (
    <button class="plain" onClick={() => setChosen(nextTheme())} title={`Theme: ${chosen}`}>
      <span aria-hidden="true">{{ auto: "◐", light: "☀", dark: "☾" }[chosen]}</span>
      <span class="visually-hidden">Theme: {chosen}</span>
    </button>
  );
}
