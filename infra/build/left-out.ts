/**
 * What functions have no use for, left out of their bundles: each is read by V8 at every cold start, used or not. A package that has changed so that
 * one of these is not met any more fails the build.
 */
import { glob, readFile } from "node:fs/promises";
import { join } from "node:path";

import type { Plugin } from "esbuild";

import { packedModule } from "./inline-scripts.ts";

import * as table from "@deltaloop/base/metrics";

const IOREDIS = "node_modules/ioredis/built/";
const COMMANDS = "node_modules/@ioredis/commands/built/commands.json";
const METRIC_TABLE = "shared/base/metrics/metric-table.ts";

/** CommonJS in the place of a file. */
const INSTEAD: Readonly<Record<string, string>> = {
  // Nobody sets DEBUG in Lambda; `debug` looks for a terminal and its colours.
  [`${IOREDIS}utils/debug.js`]: "exports.default = () => Object.assign(() => undefined, { enabled: false });",
  // Endpoints of a single provider, used only with a profile of that provider.
  [`${IOREDIS}constants/TLSProfiles.js`]: "exports.default = {};",
  [`${IOREDIS}connectors/SentinelConnector/index.js`]:
    'exports.default = class { constructor() { throw new Error("functions know no sentinels"); } };\nexports.SentinelIterator = exports.default;',
};

export function leftOut(root: string): Plugin {
  return {
    name: "left-out",
    setup(build) {
      const met = new Set<string>();
      const at = (path: string): RegExp => new RegExp(`[\\\\/]${path.replaceAll(/[.]/g, "\\.").replaceAll("/", "[\\\\/]")}$`);
      for (const [path, contents] of Object.entries(INSTEAD))
        build.onLoad({ filter: at(path) }, () => {
          met.add(path);
          return { contents, loader: "js" };
        });
      build.onLoad({ filter: at(COMMANDS) }, async ({ path }) => {
        met.add(COMMANDS);
        const all = JSON.parse(await readFile(path, "utf8")) as Readonly<Record<string, object>>; // by the name of each command
        const isNamed = await namesIn(root);
        return { contents: JSON.stringify(Object.fromEntries(Object.entries(all).filter(([name]) => isNamed(name)))), loader: "json" };
      });
      build.onLoad({ filter: at(METRIC_TABLE) }, () => {
        met.add(METRIC_TABLE);
        // Who writes metrics to a log says nothing of what they mean.
        const rows = Object.entries(table.METRICS).map(([name, { type, labels, unit }]) => [name, { type, labels, unit }]);
        return { contents: packedModule({ ...table, METRICS: Object.fromEntries(rows) }), loader: "js" };
      });
      build.onEnd(() => {
        const missing = [...Object.keys(INSTEAD), COMMANDS, METRIC_TABLE].filter((path) => !met.has(path));
        return { errors: missing.map((path) => ({ text: `${path} is not in the bundle: see infra/build/left-out.ts` })) };
      });
    },
  };
}

/** Whether a command of Redis is called by the client itself or by our adapter; each has its two functions on every prototype. */
async function namesIn(root: string): Promise<(name: string) => boolean> {
  const texts: string[] = [];
  for await (const file of glob(["shared/store/redis/**/*.ts", `${IOREDIS}**/*.js`], { cwd: root }))
    texts.push(await readFile(join(root, file), "utf8"));
  const named = new Set(
    texts.flatMap((text) => [...text.matchAll(/\.([a-z_]+)\(|["']([a-z_]+)["']/g)].map(([, called, quoted]) => called ?? quoted)),
  );
  return (name) => named.has(name);
}
