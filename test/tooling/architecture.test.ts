/** Every architecture rule, with a sample that violates it. */
import { cp, mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { PACKAGE_IMPORTS } from "../../infra/build/architecture-rules.ts";
import { cruiseFolder, RULES } from "../../infra/build/cruise.ts";

type Files = Readonly<Record<string, string>>;

/** Files without a violation; each sample below adds one file with a violation. */
const GOOD: Files = {
  "shared/base/index.ts": 'export type { Clock } from "./clock.ts";\n',
  "shared/base/clock.ts": "export interface Clock { now(): number }\n",
  "shared/kube/objects.ts": 'export { KIND } from "./objects/pod.ts";\n',
  "shared/kube/objects/pod.ts":
    'import type { V1Pod } from "@kubernetes/client-node";\nexport type Pod = V1Pod;\nexport const KIND = "Pod";\n',
  "shared/kube/client.ts": 'export { GoneError } from "./client/errors.ts";\n',
  "shared/kube/client/errors.ts":
    'import type { Clock } from "../../base/index.ts";\nexport class GoneError extends Error { clock?: Clock }\n',
  "shared/store/memory.ts": 'export { memory } from "./memory/store/store.ts";\n',
  "shared/store/memory/store/store.ts": "export const memory = 1;\n",
  "shared/store/redis.ts": 'export { store } from "./redis/store.ts";\n',
  "shared/store/redis/store.ts":
    'import { Redis } from "ioredis";\nimport { readFileSync } from "node:fs";\nexport const store = [Redis, readFileSync];\n',
  "shared/controllers/cache/hash.ts":
    'import { createHash } from "node:crypto";\nexport const hash = (text: string) => createHash("sha256").update(text).digest("hex");\n',
  "shared/controllers/kit/perform/perform.ts":
    'import { GoneError } from "../../../kube/client.ts";\nexport const perform = () => new GoneError();\n',
  "shared/controllers/replicaset/sync.ts":
    'import { perform } from "../kit/perform/perform.ts";\nimport { scale } from "./scale.ts";\nexport const sync = () => [perform(), scale()];\n',
  "shared/controllers/replicaset/scale.ts":
    'import { KIND } from "../../kube/objects.ts";\nimport type { Clock } from "../../base/index.ts";\nexport const scale = (clock?: Clock) => [KIND, clock];\n',
  "shared/controllers/replication/sync.ts": 'import { sync } from "../replicaset/sync.ts";\nexport const syncController = sync;\n',
  "shared/controllers/replicaset.ts": 'export { sync } from "./replicaset/sync.ts";\n',
  "shared/controllers/lambda.ts": 'export { wiring } from "./lambda/wiring.ts";\n',
  "shared/controllers/lambda/wiring.ts": 'import { store } from "../../store/redis.ts";\nexport const wiring = store;\n',
  "shared/local/index.ts": 'export { host } from "./host.ts";\n',
  "shared/local/host.ts":
    'import type { KubeConfig } from "@kubernetes/client-node";\nimport { wiring } from "../controllers/lambda.ts";\nexport const host: [unknown, KubeConfig?] = [wiring];\n',
  "functions/sync/handler.ts":
    'import { wiring } from "../../shared/controllers/lambda.ts";\nimport { sync } from "../../shared/controllers/replicaset.ts";\nexport const handler = [wiring, sync];\n',
  "functions/other/handler.ts": "export const handler = 1;\n",
  "cli/main.ts":
    'import { handler } from "../functions/sync/handler.ts";\nimport { host } from "../shared/local/index.ts";\nexport const main = [handler, host];\n',
  "test/unit/main.test.ts": 'import { main } from "../../cli/main.ts";\nexport const test = main;\n',
};

const value = (path: string, name: string) => `import { ${name} } from "${path}";\nexport const broken = ${name};\n`;
const type = (path: string, name: string) => `import type { ${name} } from "${path}";\nexport type Broken = ${name};\n`;

/** For each package, a file that imports a package that it may not import. */
const ACROSS = Object.entries(PACKAGE_IMPORTS).map(([name, imports]) => {
  const other = ["api-server", "store", "controllers", "local"].find((each) => each !== name && !imports.includes(each)) ?? "docker";
  const files = { [`shared/${other}/across.ts`]: "export const across = 1;\n" };
  return [`package-${name}`, [{ ...files, [`shared/${name}/broken.ts`]: value(`../${other}/across.ts`, "across") }]] as const;
});

const BROKEN: Readonly<Record<string, readonly Files[]>> = {
  ...Object.fromEntries(ACROSS),
  "packages-through-exports": [
    { "cli/broken.ts": value("../shared/controllers/replicaset/sync.ts", "sync") },
    { "functions/sync/broken.ts": type("../../shared/base/clock.ts", "Clock") },
  ],
  "packages-through-exports-of-each-other": [{ "shared/store/broken.ts": value("../kube/client/errors.ts", "GoneError") }],
  "nothing-imports-cli": [
    { "infra/broken.ts": value("../cli/main.ts", "main") },
    { "shared/kube/broken.ts": type("../../cli/main.ts", "main") },
  ],
  "no-folder-cycles": [
    {
      "shared/kube/circle/a.ts": type("../round/b.ts", "broken").replaceAll("Broken", "A"),
      "shared/kube/round/b.ts": 'import type { A } from "../circle/a.ts";\nexport const broken: A | undefined = undefined;\n',
    },
  ],
  "no-cycles": [
    {
      "shared/controllers/cache/a.ts": value("./b.ts", "b") + "export const a = 1;\n",
      "shared/controllers/cache/b.ts": value("./a.ts", "a") + "export const b = 1;\n",
    },
  ],
  "no-type-cycles": [
    {
      "shared/controllers/cache/c.ts": type("./d.ts", "d") + "export const c = 1;\n",
      "shared/controllers/cache/d.ts": value("./c.ts", "c") + "export const d = 1;\n",
    },
  ],
  "shared-knows-no-caller": [
    { "shared/controllers/lambda/broken.ts": value("../../../functions/other/handler.ts", "handler") },
    { "shared/kube/broken.ts": type("../../test/unit/main.test.ts", "test") },
  ],
  "product-knows-no-infra": [
    { "infra/build/zip.ts": "export const zip = 1;\n", "cli/broken.ts": value("../infra/build/zip.ts", "zip") },
    { "infra/build/zip.ts": "export const zip = 1;\n", "functions/sync/broken.ts": value("../../infra/build/zip.ts", "zip") },
  ],
  "product-knows-no-test": [{ "cli/broken.ts": value("../test/unit/main.test.ts", "test") }],
  "handlers-stand-alone": [{ "functions/sync/broken.ts": value("../other/handler.ts", "handler") }],
  "functions-carry-nothing-local": [
    { "functions/sync/broken.ts": value("../../shared/local/index.ts", "host") },
    {
      "shared/controllers/lambda/between.ts": value("../../local/index.ts", "host"),
      "functions/other/broken.ts": value("../../shared/controllers/lambda/between.ts", "broken"),
    },
  ],
  "machinery-knows-no-controller": [{ "shared/controllers/kit/broken.ts": value("../replicaset/scale.ts", "scale") }],
  "replication-is-a-replicaset": [{ "shared/controllers/replication/broken.ts": type("../lambda/wiring.ts", "wiring") }],
  "no-controller-uses-another": [{ "shared/controllers/deployment/broken.ts": value("../replicaset/scale.ts", "scale") }],
  "decisions-are-pure": [
    { "shared/controllers/deployment/broken.ts": value("../../kube/client.ts", "GoneError") },
    { "shared/controllers/replicaset/broken.ts": value("../kit/perform/perform.ts", "perform") },
  ],
  "registry-lists-and-no-more": [{ "shared/controllers/registry/broken.ts": type("../lambda/wiring.ts", "wiring") }],
  "adapters-are-chosen-outside": [{ "shared/controllers/cache/broken.ts": type("../../store/memory.ts", "memory") }],
  "platform-types-stay-in-their-adapter": [{ "shared/store/redis/broken.ts": value("../memory/store/store.ts", "memory") }],
  "io-at-the-edge": [
    { "shared/controllers/cache/broken.ts": value("node:fs/promises", "readFile") },
    { "shared/controllers/kit/broken.ts": value("node:timers/promises", "setTimeout") },
    { "functions/sync/broken.ts": value("node:https", "request") },
  ],
  "packages-at-the-edge": [{ "shared/controllers/kit/broken.ts": value("valibot", "object") }],
  "one-adapter-per-package": [
    { "shared/controllers/lambda/broken.ts": value("ioredis", "Redis") },
    { "cli/broken.ts": value("@aws-sdk/client-sqs", "SQSClient") },
  ],
  "client-node-is-types": [{ "cli/broken.ts": value("@kubernetes/client-node", "KubeConfig") }],
  "no-unresolvable": [{ "shared/controllers/cache/broken.ts": value("./nowhere.ts", "nothing") }],
  "time-is-handed-in": [{ "shared/controllers/cache/broken.ts": "export const now = new Date();\n" }],
};

/** All samples are in one folder, which is checked once; `broken.ts` is renamed to the number of its sample. */
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

it("reads every file of a folder in the map, and finds nothing", async () => {
  const { modules, dependencies, violations } = await cruiseWith({});
  expect(violations).toEqual([]);
  expect(modules).toBe(Object.keys(GOOD).length);
  expect(dependencies).toBeGreaterThanOrEqual(modules);
});

it("has a broken sample for every rule", () => {
  expect([...RULES, "no-folder-cycles", "time-is-handed-in"].toSorted()).toEqual(Object.keys(BROKEN).toSorted());
});

describe("with every rule broken", () => {
  let found: Awaited<ReturnType<typeof cruiseFolder>>["violations"];
  beforeAll(async () => {
    ({ violations: found } = await cruiseWith(Object.fromEntries(SAMPLES.flatMap(({ files }) => files))));
  });

  it.each(SAMPLES.map(({ rule, files }) => ({ rule, paths: files.map(([path]) => path), name: files.at(-1)?.[0] })))(
    "$rule fails on $name",
    ({ rule, paths }) => {
      const there = found.filter(
        (violation) => violation.rule === rule && paths.some((path) => path === violation.from || dirname(path) === violation.from),
      );
      expect(there).not.toEqual([]);
    },
  );
});
