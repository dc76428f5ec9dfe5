/**
 * Mistakes of definitions. Each row has one mistake; without it, the definition has none. Catches: a mistake that is not reported, and a
 * report without a remedy.
 */
import { expect, it } from "vitest";

import { problemsOf } from "../../../shared/sdk/definitions.ts";
import { customResource, defineController, only, own, s, watch } from "../../../shared/sdk/index.ts";
import { ClusterRole, ConfigMap, Deployment, Namespace, Pod, Secret } from "../../../shared/sdk/kinds.ts";

const ID = { group: "demo.example.com", version: "v1", kind: "Website" } as const;
const spec = s.object({ image: s.string(), token: s.string().secret() });
const status = s.object({ ready: s.integer().optional() });
const Website = customResource({ ...ID, spec, status });

/** The parameter is `unknown`, because mistakes that the compiler finds in TypeScript must also be reported in JavaScript. */
function problems(changes: Readonly<Record<string, unknown>>, taken?: readonly string[]): readonly string[] {
  const defined = { name: "a", for: Website, owns: [Deployment], sync: () => undefined, ...changes };
  return problemsOf([defineController(defined as never).definition], taken);
}

function ofKind(changes: Readonly<Record<string, unknown>>): readonly string[] {
  return problems({ for: customResource({ ...ID, spec, status, ...changes } as never) });
}

it("a correct definition has no problems", () => {
  expect(
    problems({
      where: {
        labels: { "a.example.com/b": "*" },
        annotations: { b: "*" },
        namespaces: ["shop"],
        fields: { "spec.image": ["a"], "metadata.name": ["b"] },
      },
      see: { status: { ready: true } },
      watches: [watch(only(Secret, { namespace: "n", name: "s" }), { by: { all: "cluster" } }), watch(ConfigMap, { by: { name: "same" } })],
      reads: [Secret],
      resync: "1.5h",
      concurrency: 100,
    }),
  ).toEqual([]);
});

it.each([
  { mistake: { name: "Website" }, want: /^"Website": `name` must be a DNS label of at most 32 characters: use/ },
  { mistake: { name: "a".repeat(33) }, want: /must be a DNS label/ },
  { mistake: { where: { labels: { "a b": "*" } } }, want: /^a: `where.labels` has "a b", which is not a valid key: use/ },
  { mistake: { where: { annotations: { "/x": "*" } } }, want: /`where.annotations` has "\/x"/ },
  {
    mistake: { where: { fields: { "spec.imag": ["x"] } } },
    want: /^a: `where.fields` has the path spec.imag, which the schema of Website lacks: correct/,
  },
  {
    mistake: { where: { fields: { "spec.token": ["x"] } } },
    want: /`where.fields` has the path spec.token, which is never visible: read it by `live`/,
  },
  { mistake: { where: { namespaces: ["A"] } }, want: /`where.namespaces` has "A"/ },
  {
    mistake: { for: Namespace, where: { namespaces: ["a"] } },
    want: /`where.namespaces` is set, but Namespace is cluster-scoped: select by labels/,
  },
  { mistake: { see: { status: { redy: true } } }, want: /`see` has the path status.redy/ },
  { mistake: { see: { spec: { token: true } } }, want: /`see` has the path spec.token, which is never visible/ },
  { mistake: { annotations: ["a b"] }, want: /`annotations` has "a b"/ },
  {
    mistake: { for: ConfigMap, owns: [], see: { data: true } },
    want: /`see` shows only the metadata of a ConfigMap: read its data by `live`/,
  },
  { mistake: { owns: [own(Secret, { data: true })] }, want: /`owns of Secret` shows only the metadata of a Secret/ },
  { mistake: { owns: [Pod, own(Pod, {})] }, want: /`owns` has Pod twice: keep one/ },
  { mistake: { owns: [ClusterRole] }, want: /a namespaced Website cannot own the cluster-scoped ClusterRole: make/ },
  { mistake: { watches: [watch(Pod, { by: { label: "a b" } })] }, want: /`watches of Pod: label` has "a b"/ },
  { mistake: { watches: [watch(Namespace, { by: { name: "same" } })] }, want: /\{ name: "same" \} needs two kinds of one scope: use/ },
  { mistake: { watches: [watch(Pod, { by: { namespace: "own" } })] }, want: /\{ namespace: "own" \} maps a Namespace/ },
  {
    mistake: { watches: [watch(Namespace, { by: { all: "namespace" } })] },
    want: /\{ all: "namespace" \} needs two namespaced kinds: use/,
  },
  { mistake: { watches: [watch(Pod, { by: { path: "spec.x" } as never })] }, want: /`by` must be \{ label \}/ },
  {
    mistake: { watches: [watch(Website, { by: { name: "same" }, see: { spec: { imag: true } } as never })] },
    want: /`watches of Website` has the path spec.imag/,
  },
  {
    mistake: { watches: [watch(only(Secret, { namespace: "n", name: "s" }), { by: { name: "same" } })] },
    want: /names one object: map it/,
  },
  {
    mistake: { reads: [only(Namespace, { namespace: "n" })] },
    want: /`only` of Namespace has a namespace, but the kind is cluster-scoped/,
  },
  { mistake: { concurrency: 0 }, want: /`concurrency` must be a whole number from 1 to 100, not 0/ },
  { mistake: { resync: "5 minutes" }, want: /`resync` must be a duration such as "10m", not "5 minutes"/ },
  { mistake: { resync: "0s" }, want: /`resync` must be a duration/ },
])("reports one problem for a definition with $mistake", ({ mistake, want }) => {
  expect(problems(mistake)).toEqual([expect.stringMatching(want)]);
});

it.each([
  { mistake: { group: "demo" }, want: /^Website: `group` must be a domain/ },
  { mistake: { group: "x.k8s.io" }, want: /reserved by Kubernetes: use a domain of your own/ },
  { mistake: { version: "1" }, want: /`version` must look like v1/ },
  { mistake: { kind: "website", plural: "websites" }, want: /`kind` must look like Website/ },
  { mistake: { plural: "Websites" }, want: /"Websites" is not a valid resource name/ },
  { mistake: { shortNames: ["W"] }, want: /"W" is not a valid resource name/ },
  {
    mistake: { columns: { Ready: "status.ready" } },
    want: /the column Ready has "status.ready", which is not a JSONPath: start it with a dot/,
  },
  { mistake: { columns: { Ready: ".status.redy" } }, want: /the column Ready has the path .status.redy, which the schema lacks/ },
  { mistake: { spec: s.object({ a: s.enum([]) }) }, want: /spec.a: an enum needs a value/ },
  { mistake: { spec: s.object({ a: s.integer({ minimum: 2, maximum: 1 }) }) }, want: /spec.a: the minimum 2 is above the maximum 1/ },
  { mistake: { spec: s.object({ a: s.integer({ minimum: 2, default: 1 }) }) }, want: /spec.a: the default 1 is out of its bounds/ },
  { mistake: { spec: s.object({ a: s.integer({ default: 1.5 }) }) }, want: /spec.a: the default 1.5 is not an integer: use s.number/ },
  {
    mistake: { spec: s.object({ a: s.string({ pattern: "^a$", default: "b" }) }) },
    want: /spec.a: the default "b" does not match its pattern/,
  },
  {
    mistake: { spec: s.object({ a: s.array(s.object({ b: s.string().optional() })).mapKeys("b") }) },
    want: /spec.a: the map key b must be a field of each element, and not optional/,
  },
  { mistake: { spec: s.object({ a: s.map(s.object({ b: s.enum([]) })) }) }, want: /spec.a.\*.b: an enum/ },
])("rejects an invalid custom resource definition: $mistake", ({ mistake, want }) => {
  expect(ofKind(mistake)).toEqual([expect.stringMatching(want)]);
});

it("reports the name of another controller, and a kind that is declared twice", () => {
  const [first, second] = ["a", "b"].map((image) => {
    const Changed = customResource({ ...ID, spec: s.object({ image: s.string({ default: image }) }) });
    return defineController({ name: "web", for: Changed, sync: () => undefined }).definition;
  });
  if (!first || !second) throw new Error("two were made");
  expect(problemsOf([first, second])).toEqual([
    '"web": the name is taken by another controller: choose another one',
    "Website.demo.example.com: is declared in 2 ways: declare it once, and import it",
  ]);
  expect(problems({ name: "deployment" }, ["deployment"])).toEqual([expect.stringContaining("is taken")]);
});
