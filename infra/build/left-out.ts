/**
 * Removes code that functions do not use from their bundles, since V8 parses it at every cold start. The build fails if a package no longer
 * has one of these files.
 */
import { glob, readFile } from "node:fs/promises";
import { join } from "node:path";

import type { Plugin } from "esbuild";

import { packedModule } from "./inline-scripts.ts";

import * as table from "@deltaloop/base/metrics";

const IOREDIS = "node_modules/ioredis/built/";
const COMMANDS = "node_modules/@ioredis/commands/built/commands.json";
const METRIC_TABLE = "shared/base/metrics/metric-table.ts";

/** The source that replaces a file: CommonJS for ioredis, an ES module for ours. */
const REPLACEMENTS: Readonly<Record<string, string>> = {
  // DEBUG is not set in Lambda.
  [`${IOREDIS}utils/debug.js`]: "exports.default = () => Object.assign(() => undefined, { enabled: false });",
  // Certificates of one Redis provider, used only with its TLS profile.
  [`${IOREDIS}constants/TLSProfiles.js`]: "exports.default = {};",
  // Implements the option shardedSubscribers, which functions do not set, because they subscribe to nothing.
  [`${IOREDIS}cluster/ClusterSubscriberGroup.js`]:
    'exports.default = class { constructor() { throw new Error("sharded pub/sub is not supported in functions"); } };',
  // Implements the command HIMPORT, which functions do not use.
  [`${IOREDIS}himport/HimportCoordinator.js`]: `const [nothing, no] = [() => undefined, () => false];
Object.assign(exports, { hasHimportCoordinator: Symbol("hasHimportCoordinator"), cloneHimportFieldsets: nothing, getHimportBinding: nothing });
Object.assign(exports, { bindHimportCoordinator: nothing, unbindHimportCoordinator: nothing, setHimportRole: nothing });
Object.assign(exports, { interceptHimportCommand: no, interceptHimportPipeline: no, interceptHimportControlCommand: no });
Object.assign(exports, { isInternalHimportCommand: no, isHimportControlCommand: no });
exports.default = class { constructor() { throw new Error("HIMPORT is not supported in functions"); } };`,
  [`${IOREDIS}connectors/SentinelConnector/index.js`]:
    'exports.default = class { constructor() { throw new Error("Redis Sentinel is not supported in functions"); } };\nexports.SentinelIterator = exports.default;',
  // Called by the watcher's audit and by `deltaloop keys`.
  ["shared/store/redis/key-store.ts"]: `const no = () => Promise.reject(new Error("functions do not count keys"));
export const createKeyStore = () => ({ keyUse: no });
export const readGhosts = no;`,
};

/** Returns the esbuild plugin that replaces these files. */
export function leftOut(root: string): Plugin {
  return {
    name: "left-out",
    setup(build) {
      const found = new Set<string>();
      const at = (path: string): RegExp => new RegExp(`[\\\\/]${path.replaceAll(/[.]/g, "\\.").replaceAll("/", "[\\\\/]")}$`);
      for (const [path, contents] of Object.entries(REPLACEMENTS))
        build.onLoad({ filter: at(path) }, () => {
          found.add(path);
          return { contents, loader: "js" };
        });
      build.onLoad({ filter: at(COMMANDS) }, async ({ path }) => {
        found.add(COMMANDS);
        const all = JSON.parse(await readFile(path, "utf8")) as Readonly<Record<string, object>>; // keyed by command name
        const isNamed = await namesIn(root);
        return { contents: JSON.stringify(Object.fromEntries(Object.entries(all).filter(([name]) => isNamed(name)))), loader: "json" };
      });
      build.onLoad({ filter: at(METRIC_TABLE) }, () => {
        found.add(METRIC_TABLE);
        // Functions write metrics to a log in a format without help texts.
        const rows = Object.entries(table.METRICS).map(([name, { type, labels, unit }]) => [name, { type, labels, unit }]);
        return { contents: packedModule({ ...table, METRICS: Object.fromEntries(rows) }), loader: "js" };
      });
      build.onEnd(() => {
        const missing = [...Object.keys(REPLACEMENTS), COMMANDS, METRIC_TABLE].filter((path) => !found.has(path));
        return { errors: missing.map((path) => ({ text: `${path} is not in the bundle: update infra/build/left-out.ts` })) };
      });
    },
  };
}

/** Returns a filter for the Redis commands that the client or our adapter calls. The client defines two methods for each command it keeps. */
async function namesIn(root: string): Promise<(name: string) => boolean> {
  const texts: string[] = [];
  for await (const file of glob(["shared/store/redis/**/*.ts", `${IOREDIS}**/*.js`], { cwd: root }))
    texts.push(await readFile(join(root, file), "utf8"));
  const named = new Set(
    texts.flatMap((text) => [...text.matchAll(/\.([a-z_]+)\(|["']([a-z_]+)["']/g)].map(([, called, quoted]) => called ?? quoted)),
  );
  return (name) => named.has(name);
}
