/**
 * Every rule of the map, broken once. Catches: a rule whose pattern matches nothing, a rule nobody proved, and a
 * dependency-cruiser that reads no TypeScript and finds everything in order.
 */
import { cp, mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { cruiseFolder, RULES } from "../../infra/build/cruise.ts";

type Files = Readonly<Record<string, string>>;

/** Files that keep every rule; each sample below adds the one that does not. */
const GOOD: Files = {
  "shared/api/pod.ts": 'import type { V1Pod } from "@kubernetes/client-node";\nexport type Pod = V1Pod;\nexport const KIND = "Pod";\n',
  "shared/ports/clock.ts": 'import type { Pod } from "../api/pod.ts";\nexport interface Clock { now(pod: Pod): number }\n',
  "shared/ports/errors.ts": "export class GoneError extends Error {}\n",
  "shared/cache/hash.ts":
    'import { createHash } from "node:crypto";\nexport const hash = (text: string) => createHash("sha256").update(text).digest("hex");\n',
  "shared/controller/perform.ts": 'import { GoneError } from "../ports/errors.ts";\nexport const perform = () => new GoneError();\n',
  "shared/replicaset/sync.ts":
    'import { perform } from "../controller/perform.ts";\nimport { scale } from "./scale.ts";\nexport const sync = () => [perform(), scale()];\n',
  "shared/replicaset/scale.ts":
    'import { KIND } from "../api/pod.ts";\nimport type { Clock } from "../ports/clock.ts";\nexport const scale = (clock?: Clock) => [KIND, clock];\n',
  "shared/replication/sync.ts": 'import { sync } from "../replicaset/sync.ts";\nexport const syncController = sync;\n',
  "shared/adapters/redis/store.ts":
    'import { Redis } from "ioredis";\nimport { readFileSync } from "node:fs";\nexport const store = [Redis, readFileSync];\n',
  "shared/adapters/memory/store/store.ts": "export const memory = 1;\n",
  "shared/lambda/wiring.ts": 'import { store } from "../adapters/redis/store.ts";\nexport const wiring = store;\n',
  "shared/local/host.ts":
    'import type { KubeConfig } from "@kubernetes/client-node";\nimport { wiring } from "../lambda/wiring.ts";\nexport const host: [unknown, KubeConfig?] = [wiring];\n',
  "functions/sync/handler.ts":
    'import { wiring } from "../../shared/lambda/wiring.ts";\nimport { sync } from "../../shared/replicaset/sync.ts";\nexport const handler = [wiring, sync];\n',
  "functions/other/handler.ts": "export const handler = 1;\n",
  "cli/main.ts":
    'import { handler } from "../functions/sync/handler.ts";\nimport { host } from "../shared/local/host.ts";\nexport const main = [handler, host];\n',
  "test/unit/main.test.ts": 'import { main } from "../../cli/main.ts";\nexport const test = main;\n',
};

const value = (path: string, name: string) => `import { ${name} } from "${path}";\nexport const broken = ${name};\n`;
const type = (path: string, name: string) => `import type { ${name} } from "${path}";\nexport type Broken = ${name};\n`;

const BROKEN: Readonly<Record<string, readonly Files[]>> = {
  "no-cycles": [
    {
      "shared/cache/a.ts": value("./b.ts", "b") + "export const a = 1;\n",
      "shared/cache/b.ts": value("./a.ts", "a") + "export const b = 1;\n",
    },
  ],
  "no-type-cycles": [
    {
      "shared/cache/c.ts": type("./d.ts", "d") + "export const c = 1;\n",
      "shared/cache/d.ts": value("./c.ts", "c") + "export const d = 1;\n",
    },
  ],
  "shared-knows-no-caller": [
    { "shared/lambda/broken.ts": value("../../functions/other/handler.ts", "handler") },
    { "shared/api/broken.ts": type("../../cli/main.ts", "main") },
  ],
  "product-knows-no-infra": [
    { "infra/build/zip.ts": "export const zip = 1;\n", "cli/broken.ts": value("../infra/build/zip.ts", "zip") },
    { "infra/build/zip.ts": "export const zip = 1;\n", "functions/sync/broken.ts": value("../../infra/build/zip.ts", "zip") },
  ],
  "product-knows-no-test": [{ "cli/broken.ts": value("../test/unit/main.test.ts", "test") }],
  "handlers-stand-alone": [{ "functions/sync/broken.ts": value("../other/handler.ts", "handler") }],
  "functions-carry-nothing-local": [
    { "functions/sync/broken.ts": value("../../shared/local/host.ts", "host") },
    {
      "shared/lambda/between.ts": value("../local/host.ts", "host"),
      "functions/other/broken.ts": value("../../shared/lambda/between.ts", "broken"),
    },
  ],
  "api-is-the-bottom": [{ "shared/api/broken.ts": type("../ports/clock.ts", "Clock") }],
  "ports-know-only-the-api": [{ "shared/ports/broken.ts": value("../cache/hash.ts", "hash") }],
  "machinery-knows-no-controller": [{ "shared/controller/broken.ts": value("../replicaset/scale.ts", "scale") }],
  "controllers-stand-on-the-machinery": [{ "shared/replication/broken.ts": type("../lambda/wiring.ts", "wiring") }],
  "no-controller-uses-another": [{ "shared/deployment/broken.ts": value("../replicaset/scale.ts", "scale") }],
  "decisions-are-pure": [
    { "shared/deployment/broken.ts": value("../ports/errors.ts", "GoneError") },
    { "shared/replicaset/broken.ts": value("../controller/perform.ts", "perform") },
  ],
  "registry-lists-and-no-more": [{ "shared/registry/broken.ts": type("../lambda/wiring.ts", "wiring") }],
  "adapters-are-chosen-outside": [{ "shared/cache/broken.ts": type("../adapters/memory/store/store.ts", "memory") }],
  "adapters-know-no-host": [{ "shared/adapters/memory/broken.ts": value("../../lambda/wiring.ts", "wiring") }],
  "stand-ins-stand-aside": [{ "shared/node-agent/broken.ts": value("../local/host.ts", "host") }],
  "platform-types-stay-in-their-adapter": [{ "shared/adapters/redis/broken.ts": value("../memory/store/store.ts", "memory") }],
  "io-at-the-edge": [
    { "shared/cache/broken.ts": value("node:fs/promises", "readFile") },
    { "shared/controller/broken.ts": value("node:timers/promises", "setTimeout") },
    { "functions/sync/broken.ts": value("node:https", "request") },
  ],
  "packages-at-the-edge": [{ "shared/controller/broken.ts": value("valibot", "object") }],
  "one-adapter-per-package": [
    { "shared/lambda/broken.ts": value("ioredis", "Redis") },
    { "cli/broken.ts": value("@aws-sdk/client-sqs", "SQSClient") },
  ],
  "client-node-is-types": [{ "cli/broken.ts": value("@kubernetes/client-node", "KubeConfig") }],
  "no-unresolvable": [{ "shared/cache/broken.ts": value("./nowhere.ts", "nothing") }],
  "time-is-handed-in": [{ "shared/cache/broken.ts": "export const now = new Date();\n" }],
};

/** All lie in one folder, which is read once; what is `broken.ts` above has the number of its sample there. */
const SAMPLES = Object.entries(BROKEN)
  .flatMap(([rule, samples]) => samples.map((files) => ({ rule, files: Object.entries(files) })))
  .map(({ rule, files }, number) => ({
    rule,
    files: files.map(([path, text]) => [path.replace("broken.ts", `broken-${number}.ts`), text] as const),
  }));

let scratch: string;
beforeAll(async () => {
  scratch = await mkdtemp(join(tmpdir(), "deltaloop-architecture-"));
});
afterAll(async () => {
  await rm(scratch, { recursive: true });
});

let projects = 0;
async function cruiseWith(extra: Files) {
  const folder = join(scratch, String(projects++));
  for (const [path, text] of Object.entries({ ...GOOD, ...extra })) {
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await writeFile(join(folder, path), text);
  }
  const root = process.cwd();
  await symlink(join(root, "node_modules"), join(folder, "node_modules"));
  for (const file of ["package.json", "tsconfig.json"]) await cp(join(root, file), join(folder, file));
  return await cruiseFolder(folder);
}

it("reads every file of a folder that keeps the map, and finds nothing", async () => {
  const { modules, dependencies, violations } = await cruiseWith({});
  expect(violations).toEqual([]);
  expect(modules).toBe(Object.keys(GOOD).length);
  expect(dependencies).toBeGreaterThanOrEqual(modules);
});

it("has a broken sample for every rule", () => {
  expect([...RULES, "time-is-handed-in"].toSorted()).toEqual(Object.keys(BROKEN).toSorted());
});

describe("with every rule broken", () => {
  let found: Awaited<ReturnType<typeof cruiseFolder>>["violations"];
  beforeAll(async () => {
    ({ violations: found } = await cruiseWith(Object.fromEntries(SAMPLES.flatMap(({ files }) => files))));
  });

  it.each(SAMPLES.map(({ rule, files }) => ({ rule, paths: files.map(([path]) => path), name: files.at(-1)?.[0] })))(
    "$rule fails on $name",
    ({ rule, paths }) => {
      const there = found.filter((violation) => violation.rule === rule && paths.includes(violation.from));
      expect(there).not.toEqual([]);
    },
  );
});
