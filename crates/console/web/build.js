// Bundles src/ into a folder (../dist by default). The same sources and lock file give the same bytes.
import { build } from "esbuild";
import { copyFileSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const out = process.argv[2] ?? join(here, "../dist");
process.chdir(here);
rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });

const result = await build({
  entryPoints: ["src/main.jsx", "src/style.css"],
  bundle: true,
  minify: true,
  splitting: true,
  format: "esm",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  outdir: out,
  entryNames: "[name]-[hash]",
  chunkNames: "chunk-[hash]",
  metafile: true,
});

const names = Object.keys(result.metafile.outputs).map((path) => basename(path));
const only = (start, end) => names.find((name) => name.startsWith(start) && name.endsWith(end));
// Preload what the first view needs, instead of one import after another.
const [, main] = Object.entries(result.metafile.outputs).find(([path]) => basename(path).startsWith("main-"));
const first = main.imports.filter((file) => file.kind === "import-statement").map((file) => basename(file.path));
const preloads = first.map((name) => `    <link rel="modulepreload" href="${name}">\n`).join("");
const page = readFileSync("src/index.html", "utf8")
  .replace("  </head>", `${preloads}  </head>`)
  .replace("main.js", only("main-", ".js"))
  .replace("style.css", only("style-", ".css"));
writeFileSync(join(out, "index.html"), page);
copyFileSync("src/icon.svg", join(out, "icon.svg"));
writeFileSync(join(out, "licenses.txt"), licenses(Object.keys(result.metafile.inputs)));

// The licences of all packages in the bundle, sorted by name.
function licenses(inputs) {
  const packages = new Set();
  for (const input of inputs) {
    const match = input.match(/node_modules\/((?:@[^/]+\/)?[^/]+)\//);
    if (match) packages.add(match[1]);
  }
  const texts = [...packages].sort().map((name) => {
    const folder = join("node_modules", name);
    const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    const file = readdirSync(folder).find((file) => /^licen[cs]e/i.test(file));
    if (!file || !existsSync(join(folder, file))) throw new Error(`${name} has no licence file`);
    return `${name} ${version} (${license})\n\n${readFileSync(join(folder, file), "utf8").trim()}\n`;
  });
  return `The console of Pintle contains these packages.\n\n${texts.join(`\n${"-".repeat(80)}\n\n`)}`;
}
