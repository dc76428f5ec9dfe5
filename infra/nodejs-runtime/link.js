/**
 * Runs after `npm ci` (script prepare): node_modules/.bin/node leads to the one platform package that npm installed. npm 11 and 12
 * link it themselves; npm 10 takes the link away with the packages of the other platforms, whose command has the same name.
 * Plain JavaScript of the oldest kind, as shared/base/nodejs/node-version.js is.
 */
import { existsSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { join } from "node:path";

const [root = "."] = process.argv.slice(2);
const { optionalDependencies } = JSON.parse(readFileSync(join(root, "infra", "nodejs-runtime", "package.json"), "utf8"));
const link = join(root, "node_modules", ".bin", "node");
const installed = Object.keys(optionalDependencies).find((name) => existsSync(join(root, "node_modules", name, "bin", "node")));
if (installed !== undefined) {
  rmSync(link, { force: true });
  symlinkSync(join("..", installed, "bin", "node"), link);
}
