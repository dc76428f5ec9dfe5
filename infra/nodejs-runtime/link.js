/**
 * Links node_modules/.bin/node to the platform package after `npm ci` (script prepare). npm 11 and 12 link it themselves; npm 10
 * removes the link with the packages of other platforms, whose command has the same name. Any Node that runs npm can run this file.
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
