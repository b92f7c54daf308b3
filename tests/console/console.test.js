// The console in a real browser.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { chromium } from "playwright-core";
import { managersOf, ownersOf, writersOf } from "../../crates/console/web/src/ownership.js";
import { BINARY, Server } from "./server.js";

const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
/** Most bytes that come over the wire for everything that the console can show. */
const PAGE_BYTES_MAX = 300 * 1024;
const FIRST_VIEW_MS_MAX = 300;
const MAPS = "/api/v1/namespaces/default/configmaps";

let server;
let browser;
let admin;
let visitor;

before(async () => {
  server = await Server.start();
  admin = await server.token("admin", "cluster-admin");
  visitor = await server.token("visitor", "view");
  browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

/** A page whose console must stay empty. */
async function open(options = {}, work) {
  const context = await browser.newContext({ ignoreHTTPSErrors: true, viewport: { width: 1280, height: 800 }, ...options });
  const page = await context.newPage();
  const problems = [];
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && problems.push(message.text()));
  page.on("pageerror", (error) => problems.push(String(error)));
  page.setDefaultTimeout(10000);
  try {
    await work(page, problems);
    assert.deepEqual(problems, []);
  } catch (error) {
    if (process.env.CONSOLE_SHOTS) await page.screenshot({ path: `${process.env.CONSOLE_SHOTS}/failure.png` });
    throw error;
  } finally {
    await context.close();
  }
}

/** The browser itself logs each answer that is no success. */
function forgive(problems, pattern) {
  problems.splice(0, problems.length, ...problems.filter((text) => !pattern.test(text)));
}

async function signIn(page, token = admin, place = "") {
  // The token is set before any script runs: most tests are not about the form.
  await page.addInitScript((value) => sessionStorage.getItem("pintle-token") ?? sessionStorage.setItem("pintle-token", value), token);
  await page.goto(`${server.url}/console/${place}`);
}

const place = (name, tab) => `#/object/core/v1/configmaps/default/${name}${tab ? `?tab=${tab}` : ""}`;
const configMap = (name, data, more) => ({ apiVersion: "v1", kind: "ConfigMap", metadata: { name, ...more }, data });
/** The text of an editor: only what is visible of a long one. */
const editor = (page, label) => page.getByRole("textbox", { name: label });
async function retype(page, label, change) {
  const field = editor(page, label);
  await field.click();
  const text = (await field.locator(".cm-line").allInnerTexts()).map((line) => (line === "\n" ? "" : line)).join("\n");
  await page.keyboard.press("Control+a");
  await field.evaluate((element, wanted) => {
    const clipboardData = new DataTransfer();
    clipboardData.setData("text/plain", wanted);
    element.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true, composed: true }));
  }, change(text));
}

test("a token signs in, and a wrong one does not", () =>
  open({}, async (page) => {
    await page.goto(`${server.url}/console`);
    assert.equal(page.url(), `${server.url}/console/`);
    const field = page.getByLabel("Bearer token");
    await field.fill("not-a-token");
    await page.keyboard.press("Enter");
    await page.getByText("This token is not valid").waitFor();
    await field.fill(admin);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("heading", { name: "All resources" }).waitFor();
    await page.getByText("system:serviceaccount:default:admin").first().waitFor();
    const kept = await page.evaluate(() => ({ url: location.href, local: JSON.stringify(localStorage), cookies: document.cookie }));
    assert.ok(!JSON.stringify(kept).includes(admin), "the token is nowhere but in the session storage");
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByLabel("Bearer token").waitFor();
    assert.equal(await page.evaluate(() => sessionStorage.length), 0);
  }));

test("a client certificate signs in by itself", async () => {
  // A browser cannot be given a certificate here without its database; the page asks this path who it is.
  const who = async (options) => (await server.request("GET", "/console/api/session", undefined, options)).json.user;
  assert.deepEqual(await who(), { groups: ["system:masters", "system:authenticated"], username: "kubernetes-admin" });
  assert.equal(await who({ anonymous: true }), null);
  assert.equal(await who({ anonymous: true, headers: { Authorization: "Bearer wrong" } }), null);
});

test("the link of pintle console signs in once", () =>
  open({}, async (page, problems) => {
    const made = spawnSync(BINARY, ["console", "--kubeconfig", server.kubeconfig, "--no-open"], { encoding: "utf8" });
    const link = made.stdout.trim();
    assert.match(link, /^https:\/\/127\.0\.0\.1:\d+\/console\/#code=[\w-]{43}$/, made.stderr);
    await page.goto(link);
    await page.getByText("signed in as kubernetes-admin").first().waitFor();
    assert.equal(page.url(), `${server.url}/console/#/`);
    await page.goto("about:blank");
    await page.goto(link);
    await page.getByText("This link was used before").waitFor();
    forgive(problems, /status of 401/);
  }));

test("resources are found, listed and followed live", () =>
  open({}, async (page) => {
    await server.must("POST", MAPS, configMap("first", { a: "1" }, { labels: { app: "one" } }));
    await signIn(page);
    await page.getByLabel("Search resources").fill("cm");
    await page.getByRole("row", { name: /ConfigMap/ }).getByRole("link", { name: "ConfigMap", exact: true }).click();
    await page.getByRole("heading", { name: "ConfigMap", exact: true }).waitFor();
    await page.getByText("Live").waitFor();
    for (const column of ["Namespace", "Name", "Data", "Age"]) await page.getByRole("columnheader", { name: column, exact: true }).waitFor();
    const row = page.locator("tr[data-name=first]");
    assert.match(await row.innerText(), /default\s+first\s+1\s+\d+s/);

    await server.must("POST", MAPS, configMap("second", { a: "1", b: "2" }));
    await page.locator("tr[data-name=second]").waitFor();
    await server.must("PATCH", `${MAPS}/second`, { data: { c: "3" } }, { type: "application/merge-patch+json" });
    await page.locator("tr[data-name=second]", { hasText: /second3\d+s/ }).waitFor();
    await server.must("DELETE", `${MAPS}/second`);
    await page.locator("tr[data-name=second]").waitFor({ state: "detached" });

    await page.getByLabel("Namespace").selectOption("default");
    await page.getByRole("columnheader", { name: "Namespace" }).waitFor({ state: "detached" });
    await page.getByLabel("Label selector").fill("app=one");
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => document.querySelectorAll("main tbody tr").length === 1);
    await page.getByLabel("Filter rows").fill("nothing like it");
    await page.getByText("No row matches the filter.").waitFor();
  }));

test("long lists come in pages", () =>
  open({}, async (page) => {
    await server.must("POST", "/api/v1/namespaces", { metadata: { name: "many" } });
    for (let start = 0; start < 520; start += 40) {
      const names = Array.from({ length: 40 }, (_, index) => `item-${String(start + index).padStart(3, "0")}`);
      await Promise.all(names.map((name) => server.must("POST", "/api/v1/namespaces/many/configmaps", configMap(name, {}, { labels: { of: "many" } }))));
    }
    await signIn(page, admin, "#/list/core/v1/configmaps?namespace=many&selector=of%3Dmany");
    await page.getByText("500 shown").waitFor();
    // The filter does not know the rows that are not loaded, and says so.
    await page.getByLabel("Filter rows").fill("item-519");
    await page.getByText("No row that is loaded matches the filter; there are others.").waitFor();
    await page.getByLabel("Filter rows").fill("");
    await page.getByRole("button", { name: /Load more/ }).click();
    await page.getByText("520 shown").waitFor();
    await server.must("DELETE", "/api/v1/namespaces/many");
  }));

test("custom resources have their columns and their schema", () =>
  open({}, async (page) => {
    const schema = {
      type: "object",
      properties: {
        spec: {
          type: "object",
          required: ["size"],
          properties: {
            size: { type: "integer", minimum: 1, default: 3, description: "How large the gadget is, in `mm`." },
            parts: { type: "array", items: { type: "object", properties: { title: { type: "string" } } } },
          },
        },
      },
    };
    const columns = [{ name: "Size", type: "integer", jsonPath: ".spec.size" }];
    await server.must("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", {
      metadata: { name: "gadgets.example.com" },
      spec: {
        group: "example.com",
        scope: "Namespaced",
        names: { plural: "gadgets", kind: "Gadget", shortNames: ["gd"] },
        versions: [{ name: "v1", served: true, storage: true, schema: { openAPIV3Schema: schema }, additionalPrinterColumns: columns }],
      },
    });
    await server.must("POST", "/apis/example.com/v1/namespaces/default/gadgets", { apiVersion: "example.com/v1", kind: "Gadget", metadata: { name: "gear" }, spec: { size: 7 } });
    await signIn(page);
    await page.getByRole("navigation").getByRole("link", { name: "Gadget" }).waitFor();
    await page.getByRole("navigation").getByLabel("Find a resource").fill("gd");
    await page.keyboard.press("Enter");
    await page.locator("tr[data-name=gear]", { hasText: "7" }).waitFor();
    await page.getByRole("columnheader", { name: "Size" }).waitFor();
    await page.getByRole("link", { name: "schema", exact: true }).click();
    await page.getByText("How large the gadget is, in mm.").waitFor();
    assert.equal(await page.locator(".about code", { hasText: /^mm$/ }).count(), 1);
    await page.getByText("required").waitFor();
    await page.getByLabel("Find a field").fill("title");
    await page.getByText(".spec.parts.title").waitFor();
  }));

test("each line has its owner", () =>
  open({ viewport: { width: 1280, height: 1600 } }, async (page) => {
    const path = "/apis/apps/v1/namespaces/default/deployments/owned";
    const container = { name: "web", image: "nginx:1" };
    const template = { metadata: { labels: { app: "web" } }, spec: { containers: [container] } };
    const spec = { selector: { matchLabels: { app: "web" } }, template };
    await server.apply(path, { apiVersion: "apps/v1", kind: "Deployment", metadata: { name: "owned" }, spec }, "author");
    const scaler = { apiVersion: "apps/v1", kind: "Deployment", metadata: { name: "owned" }, spec: { replicas: 4 } };
    await server.apply(path, scaler, "scaler");
    const imager = { spec: { template: { spec: { containers: [{ name: "web", image: "nginx:2" }] } } } };
    await server.apply(path, { ...scaler, ...imager }, "imager");
    await signIn(page, admin, "#/object/apps/v1/deployments/default/owned");
    const content = editor(page, "Object as YAML");
    const ownerOf = async (line) => {
      await content.getByText(line, { exact: typeof line === "string" }).first().click();
      return page.locator(".line-owner").innerText();
    };
    assert.match(await ownerOf("replicas: 4"), /^\.spec\.replicas scaler \(Apply\) since/);
    assert.match(await ownerOf("- image: nginx:2"), /\.containers\[0\]\.image imager \(Apply\)/);
    // An atomic map belongs to its owner with all that is in it.
    assert.match(await ownerOf("matchLabels:"), /author \(Apply\)/);
    assert.match(await ownerOf(/^ *uid: /), /^\.metadata\.uid has no owner/);
    const marks = await page.locator(".editor").first().locator(".cm-owner").allInnerTexts();
    assert.ok(["author", "scaler", "imager"].every((name) => marks.some((mark) => mark.includes(name))), marks.join("|"));
    await page.getByText("3 managers").click();
    await page.getByRole("row", { name: /scaler Apply/ }).waitFor();
  }));

test("two writers within a second are told apart", () => {
  const entry = (manager, fields, time = "2026-01-01T00:00:00Z") => ({ manager, operation: "Update", time, fieldsV1: fields });
  const colour = { "f:data": { "f:colour": {} } };
  const names = (managed, previous) => writersOf(managed, previous).map((writer) => writer.manager);
  const cases = [
    ["the first version", [entry("a", colour)], [], ["a"]],
    ["a new entry of the same second", [entry("a", {}), entry("b", colour)], [entry("a", colour)], ["b"]],
    ["an entry that grew", [entry("a", { ...colour, "f:x": {} }), entry("b", {})], [entry("a", colour), entry("b", {})], ["a"]],
    ["an entry that is newer", [entry("a", colour, "2026-01-01T00:00:01Z")], [entry("a", colour)], ["a"]],
    ["nothing tells", [entry("a", colour)], [entry("a", colour)], []],
  ];
  for (const [what, managed, previous, expected] of cases) assert.deepEqual(names(managed, previous), expected, what);
});

test("owners are found by field, key, value and as a whole", () => {
  const object = { data: { k: "x" }, spec: { list: [{ name: "a" }, { name: "b", ports: [{ port: 80, protocol: "TCP" }] }], values: ["u", "v"], whole: { a: { b: 1 } } } };
  const key = (fields) => `k:${JSON.stringify(fields)}`;
  const list = { [key({ name: "b" })]: { ".": {}, "f:ports": { [key({ protocol: "TCP", port: 80 })]: {} } } };
  const managers = managersOf([
    { manager: "one", fieldsV1: { "f:data": {}, "f:spec": { "f:list": list, "f:values": { 'v:"v"': {} }, "f:whole": {} } } },
    // This one took over all that the first one had in a map that is not atomic.
    { manager: "two", fieldsV1: { "f:data": { "f:k": {} } } },
  ]);
  const cases = [
    [["data"], ["one"]],
    [["data", "k"], ["two"]],
    [["spec"], []],
    [["spec", "list", 0], []],
    [["spec", "list", 1], ["one"]],
    [["spec", "list", 1, "name"], []],
    [["spec", "list", 1, "ports", 0, "port"], ["one"]],
    [["spec", "values", 0], []],
    [["spec", "values", 1], ["one"]],
    [["spec", "whole", "a", "b"], ["one"]],
  ];
  const names = (path) => ownersOf(managers, object, path).map((owner) => owner.manager);
  for (const [path, expected] of cases) assert.deepEqual(names(path), expected, path.join("."));
});

test("an object with very many fields opens", () =>
  open({}, async (page) => {
    const keys = Array.from({ length: 20000 }, (_, index) => [`key-${index}`, "value"]);
    await server.must("POST", MAPS, configMap("very-many", Object.fromEntries(keys)));
    await signIn(page, admin, place("very-many"));
    await editor(page, "Object as YAML").getByText("key-0: value").waitFor();
    await page.locator(".cm-owner").first().waitFor();
    await server.must("DELETE", `${MAPS}/very-many`);
  }));

test("an edit is previewed, then saved", () =>
  open({}, async (page) => {
    await server.must("POST", MAPS, configMap("edited", { colour: "red" }));
    await signIn(page, admin, place("edited", "edit"));
    await retype(page, "Object to write", (text) => text.replace("colour: red", "colour: blue"));
    await page.keyboard.press("Control+Enter");
    const preview = page.getByRole("region", { name: "Preview" });
    await preview.getByText("colour: blue").waitFor();
    await preview.getByText("colour: red").waitFor();
    assert.equal((await server.must("GET", `${MAPS}/edited`)).data.colour, "red", "a preview stores nothing");
    await preview.getByRole("button", { name: "Save" }).click();
    await page.getByText("Saved as resource version").waitFor();
    const saved = await server.must("GET", `${MAPS}/edited`);
    assert.equal(saved.data.colour, "blue");
    assert.ok(saved.metadata.managedFields.some((entry) => entry.manager === "pintle-console"));
    await page.getByRole("tab", { name: "History" }).click();
    await page.getByRole("button", { name: /pintle-console/ }).waitFor();
    await page.locator(".history-diff").getByText("colour: blue").waitFor();

    await page.getByRole("tab", { name: "Edit" }).click();
    await retype(page, "Object to write", (text) => text.replace("colour: blue", "colour: [1"));
    await page.getByRole("button", { name: "Preview" }).click();
    await page.getByRole("alert").getByText(/Line \d+:/).waitFor();
  }));

test("an object without a retained version has a history of what was seen", () =>
  open({}, async (page) => {
    await server.must("POST", MAPS, configMap("untouched", { a: "1" }));
    // As after a restore, or on etcd some minutes after the last write.
    const none = { kind: "ObjectHistory", apiVersion: "pintle.dev/v1", metadata: {}, since: "9", hasOlder: false, items: [] };
    await page.route(/history=true/, (route) => route.fulfill({ json: none }));
    await signIn(page, admin, place("untouched", "history"));
    await page.getByText("this server retains no older version").waitFor();
    await page.getByText("This is the oldest version that is known here.").waitFor();
  }));

test("a conflict of updates is resolved by choice", () =>
  open({}, async (page, problems) => {
    const patch = (data) => server.must("PATCH", `${MAPS}/fought`, { data }, { type: "application/merge-patch+json" });
    await server.must("POST", MAPS, configMap("fought", { mine: "0", theirs: "0" }));
    await signIn(page, admin, place("fought", "edit"));
    await retype(page, "Object to write", (text) => text.replace('mine: "0"', 'mine: "1"'));
    await patch({ theirs: "1" });
    await page.getByText("The object has changed since you began.").waitFor();
    await page.getByRole("button", { name: "Preview" }).click();
    const conflict = page.getByRole("alert", { name: "Conflict" });
    await conflict.getByText("Somebody else changed the object").waitFor();
    await conflict.getByRole("button", { name: "Overwrite with mine" }).click();
    await page.getByText("Saved as resource version").waitFor();
    assert.deepEqual((await server.must("GET", `${MAPS}/fought`)).data, { mine: "1", theirs: "0" });

    await retype(page, "Object to write", (text) => text.replace('mine: "1"', 'mine: "2"'));
    await patch({ theirs: "3" });
    await page.getByRole("button", { name: "Preview" }).click();
    await conflict.getByRole("button", { name: "Take theirs" }).click();
    await editor(page, "Object to write").getByText('theirs: "3"').waitFor();
    assert.deepEqual((await server.must("GET", `${MAPS}/fought`)).data, { mine: "1", theirs: "3" });
    forgive(problems, /status of 409/);
  }));

test("a conflict of owners is resolved by choice", () =>
  open({}, async (page, problems) => {
    const path = `${MAPS}/shared`;
    await server.apply(path, configMap("shared", { colour: "red", size: "1" }), "painter");
    await signIn(page, admin, place("shared", "edit"));
    await page.getByLabel("Apply", { exact: true }).check();
    await retype(page, "Object to write", (text) => `${text.trimEnd()}\ndata:\n  colour: blue\n  shape: round\n`);
    await page.getByRole("button", { name: "Preview" }).click();
    const conflict = page.getByRole("alert", { name: "Conflict" });
    await conflict.getByText(/conflict with "painter"/).waitFor();
    await conflict.getByRole("button", { name: "Leave them to their owners" }).click();
    await page.getByRole("button", { name: "Preview" }).click();
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("Saved as resource version").waitFor();
    assert.deepEqual((await server.must("GET", path)).data, { colour: "red", shape: "round", size: "1" });

    await retype(page, "Object to write", (text) => text.replace("shape: round", "colour: green"));
    await page.getByRole("button", { name: "Preview" }).click();
    await conflict.getByRole("button", { name: "Take them over" }).click();
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("Saved as resource version").waitFor();
    assert.deepEqual((await server.must("GET", path)).data, { colour: "green", size: "1" });
    forgive(problems, /status of 409/);
  }));

test("objects are created and deleted", () =>
  open({}, async (page) => {
    await signIn(page, admin, "#/create/core/v1/configmaps?namespace=default");
    await retype(page, "Object to create", (text) => text.replace("example", "made-here"));
    await page.getByRole("button", { name: "Create" }).click();
    await page.getByRole("heading", { name: "made-here" }).waitFor();
    await page.getByRole("button", { name: "Delete" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("button", { name: "Keep" }).click();
    assert.equal((await server.request("GET", `${MAPS}/made-here`)).code, 200);
    await page.getByRole("button", { name: "Delete" }).click();
    await dialog.getByRole("button", { name: "Delete" }).click();
    await page.getByRole("heading", { name: "ConfigMap", exact: true }).waitFor();
    assert.equal((await server.request("GET", `${MAPS}/made-here`)).code, 404);
  }));

test("the workbench evaluates expressions and says what they cost", () =>
  open({}, async (page) => {
    await signIn(page, admin, "#/cel");
    const answer = page.locator(".answer");
    await answer.getByText("true").waitFor();
    await answer.getByText(/of 1,000,000/).waitFor();
    await retype(page, "Expression", () => "object.spec.gone");
    await answer.getByText("no such key: gone").waitFor();
    await retype(page, "Expression", () => "object.spec.replicas +");
    await answer.getByText("Does not compile").waitFor();
  }));

test("charts show what the server does", () =>
  open({}, async (page) => {
    await signIn(page, admin, "#/charts");
    const watches = page.getByRole("figure").filter({ hasText: "Open watches" });
    await watches.locator("dd", { hasText: /^\d/ }).waitFor();
    await page.locator("canvas").nth(3).waitFor();
    await page.goto(`${server.url}/console/#/cel`);
    await page.getByRole("heading", { name: "CEL workbench" }).waitFor();
    // Errors of observers are reported with the next frame.
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  }));

test("what a user may not do is said, not hidden", () =>
  open({}, async (page, problems) => {
    await signIn(page, visitor, "#/list/core/v1/secrets");
    await page.getByText("You may not do this.").waitFor();
    await page.getByText(/secrets is forbidden: User "system:serviceaccount:default:visitor"/).waitFor();
    await page.getByText("You may have the right in single namespaces").waitFor();
    await page.goto(`${server.url}/console/#/charts`);
    await page.getByText("You may not read the metrics").waitFor();
    forgive(problems, /status of 403/);
  }));

test("nothing in an object becomes code", () =>
  open({}, async (page, problems) => {
    const evil = `<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>javascript:window.hacked=1`;
    await server.must("POST", MAPS, configMap("evil", { text: evil, [`a.b-c_d`]: evil }, { annotations: { "example.com/x": evil } }));
    const events = "/api/v1/namespaces/default/events";
    const involved = { kind: "Pod", name: evil, namespace: "default" };
    await server.must("POST", events, { metadata: { name: "evil" }, involvedObject: involved, reason: evil, message: evil, type: "Normal" });
    await signIn(page, admin, "#/list/core/v1/events?namespace=default");
    await page.locator("tr", { hasText: "onerror" }).waitFor();
    for (const tab of ["", "edit", "history"]) {
      await page.goto(`${server.url}/console/${place("evil", tab)}`);
      await page.getByRole("tabpanel").waitFor();
    }
    await page.goto(`${server.url}/console/#/object/core/v1/configmaps/default/${encodeURIComponent(evil)}`);
    await page.goto(`${server.url}/console/#/%3Cscript%3Ewindow.hacked=1%3C/script%3E`);
    await page.getByRole("heading", { name: "Not here" }).waitFor();
    assert.equal(await page.evaluate(() => window.hacked), undefined);
    // There is no object with the impossible name.
    forgive(problems, /status of 40[04]/);
  }));

test("characters that nobody sees are shown", () =>
  open({}, async (page) => {
    // The override would display the rest of the line backwards, so that it reads as another value.
    await server.must("POST", MAPS, configMap("disguised", { text: "user\u202E\u2066# nimda" }));
    await signIn(page, admin, place("disguised"));
    const shown = editor(page, "Object as YAML").locator(".cm-specialChar");
    await shown.nth(1).waitFor();
    assert.deepEqual(await shown.evaluateAll((all) => all.map((one) => one.getAttribute("aria-label"))), ["Control character right-to-left override", "Control character left-to-right isolate"]);
  }));

test("pages outlive a restart of the server", async () => {
  const restarted = await Server.start();
  try {
    const token = await restarted.token("admin", "cluster-admin");
    await restarted.must("POST", MAPS, configMap("lasting", { a: "before" }));
    await open({}, async (page, problems) => {
      await page.addInitScript((value) => sessionStorage.setItem("pintle-token", value), token);
      const status = page.locator(".status");
      const list = await page.context().newPage();
      await list.addInitScript((value) => sessionStorage.setItem("pintle-token", value), token);
      await list.goto(`${restarted.url}/console/#/list/core/v1/configmaps?namespace=default`);
      await list.locator("tr[data-name=lasting]").waitFor();
      await page.goto(`${restarted.url}/console/${place("lasting")}`);
      await status.getByText("Live").waitFor();
      await restarted.terminate();
      await status.getByText("Reconnecting…").waitFor();
      await list.locator(".status").getByText("Reconnecting…").waitFor();
      await page.getByText("before").waitFor();
      await restarted.resume();
      await restarted.must("PATCH", `${MAPS}/lasting`, { data: { a: "after" } }, { type: "application/merge-patch+json" });
      await restarted.must("POST", MAPS, configMap("later", {}));
      await page.getByText("after").waitFor();
      await status.getByText("Live").waitFor();
      await list.locator("tr[data-name=later]").waitFor();
      forgive(problems, /ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED_ENCODING|ERR_HTTP2_/);
    });
  } finally {
    await restarted.stop();
  }
});

test("the keyboard reaches everything", () =>
  open({}, async (page) => {
    await server.must("POST", MAPS, configMap("key-a", {}));
    await server.must("POST", MAPS, configMap("key-b", {}));
    await signIn(page, admin, "#/list/core/v1/configmaps?namespace=default");
    await page.locator("tr[data-name=key-b]").waitFor();
    await page.keyboard.press("/");
    await page.keyboard.type("key-");
    await page.waitForFunction(() => document.querySelectorAll("main tbody tr").length === 2);
    await page.keyboard.press("Escape");
    await page.keyboard.press("j");
    await page.keyboard.press("j");
    assert.equal(await page.evaluate(() => document.activeElement.textContent), "key-b");
    await page.keyboard.press("k");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "key-a" }).waitFor();
    await page.getByRole("tab", { name: "YAML" }).focus();
    await page.keyboard.press("ArrowRight");
    await page.getByRole("tab", { name: "Edit", selected: true }).waitFor();
    await page.keyboard.press("?");
    await page.getByRole("dialog", { name: "Keys" }).waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("dialog", { name: "Keys" }).waitFor({ state: "hidden" });
    await page.keyboard.press("Escape");
    await page.getByRole("heading", { name: "ConfigMap", exact: true }).waitFor();
  }));

const VIEWS = [
  ["all resources", "#/", "main [data-row]"],
  ["list", "#/list/core/v1/configmaps", "main [data-row]"],
  ["object", place("looked-at"), ".cm-line"],
  ["edit", place("looked-at", "edit"), ".cm-line"],
  ["history", place("looked-at", "history"), ".history ol li"],
  ["schema", "#/schema/apps/v1/deployments", ".fields .fields"],
  ["workbench", "#/cel", ".answer"],
  ["activity", "#/charts", "canvas"],
];

for (const colorScheme of ["light", "dark"]) {
  test(`pages are accessible and fit their width (${colorScheme})`, () =>
    open({ colorScheme }, async (page) => {
      await server.request("POST", MAPS, configMap("looked-at", { a: "1", b: "text\nof lines" }));
      await page.goto(`${server.url}/console/`);
      await page.getByLabel("Bearer token").waitFor();
      await checkPage(page, "sign-in", colorScheme);
      await signIn(page);
      for (const [name, where, ready] of VIEWS) {
        await page.goto(`${server.url}/console/${where}`);
        await page.locator(ready).first().waitFor();
        await checkPage(page, name, colorScheme);
      }
    }));
}

async function checkPage(page, name, colorScheme) {
  for (const width of [390, 1024, 1600]) {
    await page.setViewportSize({ width, height: 900 });
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    assert.ok(overflow <= 0, `${name} at ${width}: ${overflow} px too wide`);
    if (name === "all resources" && width > 390) {
      const hidden = await page.locator(".scroll").evaluate((element) => element.scrollWidth - element.clientWidth);
      assert.ok(hidden <= 0, `the table of resources at ${width}: ${hidden} px too wide`);
    }
    if (process.env.CONSOLE_SHOTS) {
      await page.waitForTimeout(name === "activity" ? 4500 : 300);
      await page.screenshot({ path: `${process.env.CONSOLE_SHOTS}/${name.replace(" ", "-")}-${width}-${colorScheme}.png` });
    }
    // Colours are the same at all widths, and structure is the same in both schemes.
    if (width === 1600 || (width === 390 && colorScheme === "light")) await checkAccess(page, `${name} at ${width}`);
  }
}

async function checkAccess(page, what) {
  // The policy of the page forbids script elements; the tool comes through the debugger.
  if (!(await page.evaluate("Boolean(window.axe)"))) await page.evaluate(`${AXE}; undefined`);
  const result = await page.evaluate(`axe.run(document, { resultTypes: ["violations"] })`);
  const found = result.violations.map((v) => `${v.id}: ${v.nodes.map((node) => node.target.join(" ")).slice(0, 3).join(", ")}`);
  assert.deepEqual(found, [], what);
}

test("the page is small and quick", () =>
  open({}, async (page) => {
    const client = await page.context().newCDPSession(page);
    await client.send("Network.enable");
    let bytes = 0;
    client.on("Network.loadingFinished", (event) => (bytes += event.encodedDataLength));
    await signIn(page);
    await page.getByRole("heading", { name: "All resources" }).waitFor();
    const loaded = bytes;
    // The second time, as for a user who comes back; the best of five, because the machine does other things, too.
    let best = Infinity;
    for (let round = 0; round < 5; round++) {
      await page.reload();
      await page.getByRole("heading", { name: "All resources" }).waitFor();
      const paint = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0].startTime);
      best = Math.min(best, paint);
    }
    assert.ok(best < FIRST_VIEW_MS_MAX, `first view after ${best} ms`);
    assert.ok(loaded < PAGE_BYTES_MAX, `${loaded} bytes`);
  }));

test("files are sent with a strict policy, compressed, and not twice", async () => {
  const anonymous = { anonymous: true };
  const page = await server.request("GET", "/console/", undefined, anonymous);
  assert.equal(page.code, 200);
  assert.match(page.headers["content-security-policy"], /default-src 'none'; script-src 'self'; style-src 'self'/);
  assert.equal(page.headers["x-content-type-options"], "nosniff");
  assert.equal(page.headers["referrer-policy"], "no-referrer");
  assert.equal(page.headers["cache-control"], "no-cache");
  const again = await server.request("GET", "/console/", undefined, { ...anonymous, headers: { "If-None-Match": page.headers.etag } });
  assert.deepEqual([again.code, again.bytes], [304, 0]);
  const script = page.text.match(/main-\w+\.js/)[0];
  const packed = await server.request("GET", `/console/${script}`, undefined, { ...anonymous, headers: { "Accept-Encoding": "gzip" } });
  assert.equal(packed.headers["content-encoding"], "gzip");
  assert.match(packed.headers["cache-control"], /immutable/);
  for (const [method, path, code] of [
    ["GET", "/console", 308],
    ["GET", "/console/nothing.js", 404],
    ["POST", "/console/", 405],
    ["POST", "/console/api/cel", 403],
    ["POST", "/console/api/links", 403],
  ]) {
    const answer = await server.request(method, path, method === "POST" ? {} : undefined, anonymous);
    assert.equal(answer.code, code, `${method} ${path}`);
  }
});

test("links are for oneself, once, and sessions end with their credential", async () => {
  const ask = (options) => server.request("POST", "/console/api/links", {}, options);
  const redeem = (code, headers) => server.request("POST", "/console/api/session", { code }, { anonymous: true, headers });
  const { code } = (await ask()).json;
  assert.match(code, /^[\w-]{43}$/);
  assert.equal((await redeem(code, { Origin: "https://evil.example" })).code, 403, "another page cannot use it");
  const session = (await redeem(code)).json;
  assert.equal((await redeem(code)).code, 401, "only once");
  assert.equal((await redeem("A".repeat(43))).code, 401);
  const bearer = (token) => ({ anonymous: true, headers: { Authorization: `Bearer ${token}` } });
  const who = async (options) => {
    const review = { apiVersion: "authentication.k8s.io/v1", kind: "SelfSubjectReview" };
    const answer = await server.request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", review, options);
    return answer.json.status?.userInfo?.username ?? answer.code;
  };
  assert.equal(await who(bearer(session.token)), "kubernetes-admin");
  assert.equal((await ask(bearer(session.token))).code, 403, "a session cannot prolong itself");
  assert.equal((await ask({ headers: { "Impersonate-User": "ann", "Impersonate-Group": "system:masters" } })).code, 403);
  assert.equal((await ask({ headers: { "Sec-Fetch-Site": "cross-site" } })).code, 403);
  assert.equal((await server.request("POST", "/console/api/links", "{}", { type: "text/plain" })).code, 415);
  await server.request("DELETE", "/console/api/session", undefined, bearer(session.token));
  assert.equal(await who(bearer(session.token)), 401);

  const token = await server.token("leaver", "cluster-admin");
  const link = (await ask(bearer(token))).json;
  const second = (await redeem(link.code)).json;
  assert.equal(await who(bearer(second.token)), "system:serviceaccount:default:leaver");
  await server.must("DELETE", "/api/v1/namespaces/default/serviceaccounts/leaver");
  assert.equal(await who(bearer(second.token)), 401, "the account is gone");
});

test("the audit has no codes and no tokens", async () => {
  const folder = mkdtempSync(join(tmpdir(), "pintle-console-audit-"));
  const [policy, log] = [join(folder, "policy.yaml"), join(folder, "audit.log")];
  writeFileSync(policy, "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: RequestResponse}]\n");
  const other = await Server.start("--audit-policy-file", policy, "--audit-log-path", log);
  const { code } = (await other.request("POST", "/console/api/links", {})).json;
  const { token } = (await other.request("POST", "/console/api/session", { code }, { anonymous: true })).json;
  await other.stop();
  const text = readFileSync(log, "utf8");
  rmSync(folder, { recursive: true, force: true });
  assert.match(text, /console\/api\/links/);
  assert.ok(code && token && !text.includes(code) && !text.includes(token));
});

test("the console is off in the place of a kube-apiserver", async () => {
  for (const [flags, code] of [
    [["--service-cluster-ip-range=10.0.0.0/24", "--bind-address=127.0.0.1"], 403],
    [["--console=false"], 403],
  ]) {
    const other = await Server.start(...flags);
    const answer = await other.request("GET", "/console/", undefined, { anonymous: true });
    await other.stop();
    assert.equal(answer.code, code, flags.join(" "));
  }
});
