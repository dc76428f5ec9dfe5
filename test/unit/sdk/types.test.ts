/**
 * Programs that the types reject. Each has one mistake and must fail on the marked line with its own error, so that another mistake, or
 * types that reject everything, do not pass the test. Also catches: types that take the compiler much longer.
 */
import { readFileSync } from "node:fs";
import { basename, join } from "node:path";

import ts from "typescript";
import { beforeAll, describe, expect, it } from "vitest";
import { blocksOf } from "../../support/pages.ts";

const ROOT = join(import.meta.dirname, "..", "..", "..");
const EXAMPLES = ["pod-janitor", "pull-secret", "scheduled-scaler", "team-guard", "website"].map((name) =>
  join(ROOT, "examples", name, `${name}.ts`),
);
const TUTORIAL = join(ROOT, "docs", "start", "own-controller.md");
/** Limit of type instantiations: 1.5 times the 17,950 that the design's sketch of the same programs needs. */
const INSTANTIATIONS_MAX = 26_925;

interface Wrong {
  readonly mistake: string;
  /** The source; the line with the mistake ends in `// <code>`. */
  readonly program: string;
  /** Part of the compiler's message. */
  readonly says: string;
}

const HEAD = `import { customResource, defineController, own, s, watch } from "deltaloop";
import { ConfigMap, Deployment, Namespace, Pod, Secret, Service } from "deltaloop/kinds";
import { Website } from "./website.ts";
export const used = { customResource, defineController, own, s, watch, ConfigMap, Deployment, Namespace, Pod, Secret, Service, Website };
`;

const WRONG: readonly Wrong[] = [
  {
    mistake: "a kind that is not owned",
    program: `
export const c = defineController({
  name: "a", for: Website, owns: [Service],
  sync: ({ owned }) => ({
    status: { ready: owned(Service).length + owned(Deployment).length }, // 2345
  }),
});`,
    says: "Type '\"Deployment\"' is not assignable to type '\"Service\"'",
  },
  {
    mistake: "a field that is not visible: a Deployment's spec",
    program: `
export const c = defineController({
  name: "a", for: Website, owns: [Deployment],
  sync: ({ owned }) => ({
    status: { ready: owned(Deployment, "x")?.spec?.replicas }, // 2339
  }),
});`,
    says: "Property 'spec' does not exist",
  },
  {
    mistake: "a kind that is not in reads",
    program: `
export const c = defineController({
  name: "a", for: Website, reads: [Service],
  sync: async ({ live }) => {
    await live(Service, "x");
    await live(Secret, "x"); // 2345
  },
});`,
    says: "Type '\"Secret\"' is not assignable to type '\"Service\"'",
  },
  {
    mistake: "an unknown field of a body",
    program: `
export const body = Deployment({
  metadata: { name: "x" },
  spec: { replica: 1 }, // 2561
});`,
    says: "'replica' does not exist",
  },
  {
    mistake: "a status field that is not declared",
    program: `
export const c = defineController({
  name: "a", for: Website,
  sync: () => ({ status: { redy: 1 } }), // 2322
});`,
    says: "Type '{ redy: number; }' has no properties in common",
  },
  {
    mistake: "a status field that is not declared, beside a declared one",
    program: `
export const c = defineController({
  name: "a", for: Website,
  sync: () => ({ status: { ready: 1, condition: [] } }), // 2322
});`,
    says: 'NoSuchField<"condition">',
  },
  {
    mistake: "a status field that is not declared, returned by an async function on one of two paths",
    program: `
export const c = defineController({
  name: "a", for: Website,
  sync: async ({ object, live }) => { // 2322
    if (object.spec.replicas === 0) return { again: "5m" };
    await live();
    return { status: { ready: 1, redy: 2 } };
  },
});`,
    says: 'NoSuchField<"redy">',
  },
  {
    mistake: "an unknown field in a condition",
    program: `
export const c = defineController({
  name: "a", for: Website,
  sync: ({ condition }) => ({ status: { conditions: [{ ...condition("Ready", true, "R"), mesage: "x" }] } }), // 2322
});`,
    says: 'NoSuchField<"mesage">',
  },
  {
    mistake: "an unknown field of the primary in self",
    program: `
export const c = defineController({
  name: "a", for: Deployment,
  sync: () => ({ self: { spec: { replicas: 3, replica: 4 } } }), // 2322
});`,
    says: 'NoSuchField<"replica">',
  },
  {
    mistake: "a mask of a field that the kind lacks",
    program: `
export const c = defineController({
  name: "a", for: Pod,
  see: { stat: true }, // 2353
  sync: () => undefined,
});`,
    says: "'stat' does not exist",
  },
  {
    mistake: "the value of an annotation that is not listed",
    program: `
export const c = defineController({
  name: "a", for: Namespace, annotations: ["x/y"],
  sync: ({ object }) => ({
    again: object.metadata.annotations["x/y"] === "1" ? "1s" : "2s",
    events: [{ type: "Normal", reason: "R", message: object.metadata.annotations["x/z"] ?? "" }], // 7053
  }),
});`,
    says: "Property 'x/z' does not exist",
  },
  {
    mistake: "a string that is not a duration",
    program: `
export const c = defineController({
  name: "a", for: Website,
  sync: () => ({ again: "5 minutes" }), // 2322
});`,
    says: "Type '\"5 minutes\"' is not assignable",
  },
  {
    mistake: "a kind that is not watched",
    program: `
export const c = defineController({
  name: "a", for: Website, watches: [watch(Secret, { by: { name: "same" } })],
  sync: ({ watched }) => {
    watched(Secret);
    watched(Service); // 2345
  },
});`,
    says: "Type '\"Service\"' is not assignable to type '\"Secret\"'",
  },
  {
    mistake: "a body of a kind that is not in owns",
    program: `
export const c = defineController({
  name: "a", for: Website, owns: [Service],
  sync: () => ({ apply: [Service({ metadata: { name: "x" } }), Deployment({ metadata: { name: "x" } })] }), // 2322
});`,
    says: "Type 'Applied<\"Deployment\">' is not assignable to type 'Applied<\"Service\">'",
  },
  {
    mistake: "remove beside apply",
    program: `
export const c = defineController({
  name: "a", for: Website, owns: [Service],
  sync: () => ({ remove: true, apply: [Service({ metadata: { name: "x" } })] }), // 2322
});`,
    says: "never",
  },
  {
    mistake: "a path in where that the schema lacks",
    program: `
export const c = defineController({
  name: "a", for: Website,
  where: { fields: { "spec.image": ["a"], "spec.imag": ["b"] } }, // 2322
  sync: () => undefined,
});`,
    says: "never",
  },
  {
    mistake: "a mapping by a path that the schema cannot contain",
    program: `
export const c = defineController({
  name: "a", for: Website,
  watches: [watch(ConfigMap, { by: { path: "spec.config" } })], // 2353
  sync: () => undefined,
});`,
    says: "'path' does not exist",
  },
  {
    mistake: "a secret field, which is never visible",
    program: `
const spec = s.object({ user: s.string(), password: s.string().secret() });
const Login = customResource({ group: "x.example.com", version: "v1", kind: "Login", spec });
export const c = defineController({
  name: "a", for: Login, owns: [ConfigMap],
  sync: ({ object, log }) => {
    log.info(object.spec.user);
    log.info(object.spec.password); // 2339
  },
});`,
    says: "Property 'password' does not exist",
  },
];

interface Found {
  readonly line: number;
  readonly code: number;
  readonly message: string;
}

describe("the types", () => {
  let errors: ReadonlyMap<string, readonly Found[]>;
  let instantiations = 0;
  const tutorial = new Map(
    blocksOf(TUTORIAL, readFileSync(TUTORIAL, "utf8")).flatMap((block) =>
      block.kind === "file" && block.path.endsWith(".ts")
        ? [[join(ROOT, "examples", "website", basename(block.path)), block.text] as const]
        : [],
    ),
  );

  /** What the compiler says about these files, by name. `texts` are files that exist in memory only. */
  function compile(files: readonly string[], texts: ReadonlyMap<string, string>) {
    const { config } = ts.readConfigFile(join(ROOT, "tsconfig.json"), ts.sys.readFile) as { readonly config: unknown };
    const { options } = ts.parseJsonConfigFileContent(config, ts.sys, ROOT);
    const host = ts.createCompilerHost(options);
    const { fileExists, readFile } = host;
    const program = ts.createProgram([...files, ...texts.keys()], options, {
      ...host,
      fileExists: (file) => texts.has(file) || fileExists(file),
      readFile: (file) => texts.get(file) ?? readFile(file),
      getSourceFile: (file, version) => {
        const text = texts.get(file) ?? readFile(file);
        return text === undefined ? undefined : ts.createSourceFile(file, text, version);
      },
    });
    const found = new Map<string, readonly Found[]>();
    for (const { file, start = 0, code, messageText } of ts.getPreEmitDiagnostics(program)) {
      const name = file?.fileName ?? "";
      const line = file?.getLineAndCharacterOfPosition(start).line ?? 0;
      found.set(name, [...(found.get(name) ?? []), { line, code, message: ts.flattenDiagnosticMessageText(messageText, "\n") }]);
    }
    return { errors: found, instantiations: program.getInstantiationCount() };
  }

  beforeAll(() => {
    const wrong = WRONG.map(({ program }, i) => [join(ROOT, "examples", "website", `wrong-${i}.ts`), HEAD + program] as const);
    ({ errors, instantiations } = compile(EXAMPLES, new Map(wrong)));
  });

  it.each(WRONG.map((wrong, i) => ({ ...wrong, i })))("reject $mistake", ({ program, says, i }) => {
    const found = errors.get(join(ROOT, "examples", "website", `wrong-${i}.ts`)) ?? [];
    const lines = (HEAD + program).split("\n");
    const wanted = lines.flatMap((line, at) => {
      const [, code] = / \/\/ (\d+)$/.exec(line) ?? [];
      return code === undefined ? [] : [{ line: at, code: Number(code), message: expect.stringContaining(says) as string }];
    });
    expect(found).toEqual(wanted);
    expect(wanted).toHaveLength(1);
  });

  it("accept the file of the tutorial", () => {
    expect([...tutorial.keys()].map((file) => basename(file))).toEqual(["expiry.ts"]);
    expect([...compile([], tutorial).errors]).toEqual([]);
  });

  it("accept the examples", () => {
    expect([...errors.keys()].filter((file) => !file.includes("wrong-"))).toEqual([]);
  });

  it("need at most 1.5 times the type instantiations of the design's sketch", () => {
    expect(instantiations).toBeGreaterThan(5_000);
    expect(instantiations).toBeLessThan(INSTANTIATIONS_MAX);
  });
});
