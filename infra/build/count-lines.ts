/** `npm run lines`: prints the lines of product code by package or top-level folder, the lines of tests, and the largest folder. */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { dirname } from "node:path";

const SOURCE = /\.(tsx?|css|lua|js|mjs)$/;
const PRODUCT = /^(shared|cli|functions|infra)\//;

const files = execFileSync("git", ["ls-files"], { encoding: "utf8" })
  .split("\n")
  .filter((path) => SOURCE.test(path))
  .map((path) => ({ path, lines: readFileSync(path, "utf8").split("\n").length - 1 }));
const product = files.filter(({ path }) => PRODUCT.test(path) && !path.includes(".test."));
const sum = (some: typeof files): number => some.reduce((total, { lines }) => total + lines, 0);

const packages = Map.groupBy(product, ({ path }) =>
  path
    .split("/")
    .slice(0, path.startsWith("shared/") ? 2 : 1)
    .join("/"),
);
for (const [name, some] of [...packages].toSorted(([a], [b]) => (a < b ? -1 : 1))) console.log(`${String(sum(some)).padStart(8)}  ${name}`);
console.log(`${String(sum(product)).padStart(8)}  product`);
console.log(`${String(sum(files.filter(({ path }) => path.startsWith("test/")))).padStart(8)}  test`);
const [[folder, inside]] = [...Map.groupBy(product, ({ path }) => dirname(path))].toSorted(([, a], [, b]) => b.length - a.length) as [
  [string, typeof files],
]; // the list has at least one folder
console.log(`largest folder: ${folder}, ${inside.length} files`);
