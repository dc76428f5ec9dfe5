/** Every lint rule that the project relies on, with a sample that violates it. */
import { spawn } from "node:child_process";
import { cp, mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

import { expect, it } from "vitest";

const ROOT = process.cwd();

const SAMPLES: readonly { readonly rule: string; readonly file: string; readonly text: string }[] = [
  {
    rule: "no-floating-promises",
    file: "shared/controllers/cache/floating.ts",
    text: "export function f(): void {\n  Promise.resolve(1);\n}\n",
  },
  {
    rule: "no-misused-promises",
    file: "shared/controllers/cache/misused.ts",
    text: "export const f = (list: readonly Promise<void>[]): void => list.forEach(async (each) => await each);\n",
  },
  {
    rule: "switch-exhaustiveness-check",
    file: "shared/controllers/cache/exhaustive.ts",
    text: 'export function f(kind: "a" | "b"): void {\n  switch (kind) {\n    case "a":\n      return;\n  }\n}\n',
  },
  {
    rule: "no-explicit-any",
    file: "shared/controllers/cache/any.ts",
    text: "export const f: (value: string) => string = (value: any) => `${value}`;\n",
  },
  { rule: "explicit-module-boundary-types", file: "shared/controllers/cache/types.ts", text: "export function f() {\n  return 1;\n}\n" },
  { rule: "no-default-export", file: "shared/controllers/cache/default.ts", text: "export default 1;\n" },
  {
    rule: "consistent-type-imports",
    file: "shared/controllers/cache/imports.ts",
    text: 'import { Server } from "node:http";\nexport const f = (s: Server): unknown => s;\n',
  },
  { rule: "no-restricted-properties", file: "shared/controllers/kit/now.ts", text: "export const now = (): number => Date.now();\n" },
  { rule: "no-restricted-properties", file: "functions/f/random.ts", text: "export const random = (): number => Math.random();\n" },
  { rule: "no-restricted-globals", file: "shared/controllers/kit/timer.ts", text: "setTimeout(() => undefined, 1);\n" },
  { rule: "no-restricted-globals", file: "functions/f/environment.ts", text: 'export const home = process.env["HOME"];\n' },
  { rule: "TS2322", file: "shared/controllers/cache/assignable.ts", text: 'export const count: number = "1";\n' },
  { rule: "expect-expect", file: "test/nothing.test.ts", text: 'import { it } from "vitest";\nit("asserts nothing", () => undefined);\n' },
  {
    rule: "valid-expect",
    file: "test/half.test.ts",
    text: 'import { expect, it } from "vitest";\nit("ends early", () => void expect(1));\n',
  },
  {
    rule: "valid-expect",
    file: "test/lost.test.ts",
    text: 'import { expect, it } from "vitest";\nit("is not awaited", () => void expect(Promise.resolve(1)).resolves.toBe(1));\n',
  },
  {
    rule: "no-focused-tests",
    file: "test/only.test.ts",
    text: 'import { expect, it } from "vitest";\nit.only("hides others", () => expect(1).toBe(1));\n',
  },
  {
    rule: "no-identical-title",
    file: "test/twice.test.ts",
    text: 'import { expect, it } from "vitest";\nit("is", () => expect(1).toBe(1));\nit("is", () => expect(2).toBe(2));\n',
  },
  { rule: "no-console", file: "shared/local/console.ts", text: 'console.log("x");\n' },
];

/** Samples that must remain allowed in these places. */
const GOOD = {
  "shared/base/system/clock.ts": "export const now = (): number => Date.now();\nsetTimeout(() => undefined, 1);\n",
  "shared/controllers/lambda/wiring.ts": 'export const home = process.env["HOME"];\n',
  "vitest.config.ts": "export default 1;\n",
};

it("each rule finds its invalid sample and nothing else", async () => {
  const scratch = await mkdtemp(join(tmpdir(), "deltaloop-lint-"));
  try {
    const files = { ...Object.fromEntries(SAMPLES.map(({ file, text }) => [file, text])), ...GOOD };
    for (const [path, text] of Object.entries(files)) {
      await mkdir(dirname(join(scratch, path)), { recursive: true });
      await writeFile(join(scratch, path), text);
    }
    for (const file of [".oxlintrc.json", "tsconfig.json", "package.json"]) await cp(join(ROOT, file), join(scratch, file));
    await symlink(join(ROOT, "node_modules"), join(scratch, "node_modules"));
    const found = await oxlint(scratch);
    expect(found.toSorted()).toEqual(SAMPLES.map(({ rule, file }) => `${file} ${rule}`).toSorted());
  } finally {
    await rm(scratch, { recursive: true });
  }
});

/** Returns the findings as `file rule`. */
async function oxlint(cwd: string): Promise<readonly string[]> {
  const child = spawn(
    join(ROOT, "node_modules/.bin/oxlint"),
    ["--type-aware", "--type-check", "--format=unix", "shared", "functions", "test", "vitest.config.ts"],
    { cwd, stdio: ["ignore", "pipe", "pipe"] },
  );
  let output = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => (output += text));
  await new Promise((resolve, reject) => child.once("error", reject).once("close", resolve));
  return [...output.matchAll(/^(\S+?):\d+:\d+: .*\[\w+\/\w+\(([\w-]+)\)\]$/gm)].map(([, file, rule]) => `${file} ${rule}`);
}
