// Runs the tests and ends with one line of counts, as the other suites do.
import { run } from "node:test";
import { spec } from "node:test/reporters";

const counts = { passed: 0, failed: 0 };
const isLeaf = (event) => event.details.type !== "suite" && event.nesting === 0 && !event.name.endsWith(".test.js");
const files = [new URL("console.test.js", import.meta.url).pathname];
run({ files, concurrency: 1, testNamePatterns: process.argv.slice(2).map((name) => new RegExp(name)) })
  .on("test:pass", (event) => isLeaf(event) && !event.skip && counts.passed++)
  .on("test:fail", (event) => (counts.failed++, (process.exitCode = 1)))
  .compose(spec)
  .on("end", () => setImmediate(() => console.log(`${counts.passed} passed, ${counts.failed} failed`)))
  .pipe(process.stdout, { end: false });
