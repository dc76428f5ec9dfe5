/**
 * CustomResourceDefinitions and rights. Catches: a schema that is not structural, and a right that is missing or broader than the
 * definition.
 */
import { describe, expect, it } from "vitest";

import { crdManifest, rbacManifests } from "../../../shared/sdk/definitions.ts";
import { customResource, defineController, only, s, watch } from "../../../shared/sdk/index.ts";
import type { Controller } from "../../../shared/sdk/index.ts";
import { ConfigMap, Namespace, Pod, Secret } from "../../../shared/sdk/kinds.ts";

const ID = { group: "demo.example.com", version: "v1", kind: "Website" } as const;
const sync = () => undefined;

function specOf(changes: Partial<Parameters<typeof customResource>[0]>): Record<string, never> {
  const { data } = customResource({ ...ID, spec: s.object({}), ...changes });
  return (crdManifest(data) as unknown as { readonly spec: Record<string, never> }).spec; // a manifest of this project
}

const version = (changes: Parameters<typeof specOf>[0]) =>
  (specOf(changes)["versions"] as unknown as readonly Record<string, unknown>[])[0];

describe("the schema of", () => {
  it.each([
    { what: "a string", schema: s.string({ pattern: "^a", maxLength: 3 }), want: { type: "string", pattern: "^a", maxLength: 3 } },
    {
      what: "an integer",
      schema: s.integer({ minimum: 0, default: 1 }),
      want: { type: "integer", format: "int64", minimum: 0, default: 1 },
    },
    { what: "a number", schema: s.number(), want: { type: "number" } },
    { what: "a boolean", schema: s.boolean({ default: true }), want: { type: "boolean", default: true } },
    { what: "an enum", schema: s.enum(["a", "b"], { default: "a" }), want: { type: "string", enum: ["a", "b"], default: "a" } },
    {
      what: "a list",
      schema: s.array(s.string(), { maxItems: 2 }),
      want: { type: "array", maxItems: 2, "x-kubernetes-list-type": "atomic", items: { type: "string" } },
    },
    {
      what: "a list with keys",
      schema: s.array(s.object({ name: s.string() })).mapKeys("name"),
      want: {
        type: "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        items: { type: "object", required: ["name"], properties: { name: { type: "string" } } },
      },
    },
    { what: "a map", schema: s.map(s.number()), want: { type: "object", additionalProperties: { type: "number" } } },
    {
      what: "an object, of which fields with a default are not required",
      schema: s.object({ a: s.string(), b: s.string({ default: "x" }), c: s.string().optional() }),
      want: {
        type: "object",
        required: ["a"],
        properties: { a: { type: "string" }, b: { type: "string", default: "x" }, c: { type: "string" } },
      },
    },
    {
      what: "an int-or-string",
      schema: s.intOrString(),
      want: { anyOf: [{ type: "integer" }, { type: "string" }], "x-kubernetes-int-or-string": true },
    },
    { what: "a pod template", schema: s.podTemplate(), want: { type: "object", "x-kubernetes-preserve-unknown-fields": true } },
    { what: "any JSON", schema: s.raw(), want: { "x-kubernetes-preserve-unknown-fields": true } },
    { what: "a secret string", schema: s.string().secret().describe("the token"), want: { type: "string", description: "the token" } },
    {
      what: "an immutable string",
      schema: s.string().immutable(),
      want: { type: "string", "x-kubernetes-validations": [{ rule: "self == oldSelf", message: "is immutable" }] },
    },
  ])("$what", ({ schema, want }) => {
    const spec = s.object({ field: (schema as ReturnType<typeof s.string>).optional() });
    const found = version({ spec })?.["schema"] as { readonly openAPIV3Schema: { readonly properties: { readonly spec: unknown } } };
    expect(found.openAPIV3Schema.properties.spec).toEqual({ type: "object", properties: { field: want } });
  });

  it("a quantity accepts the same values as the API server", () => {
    const { node } = s.quantity();
    for (const text of ["1", "500m", "1.5Gi", "1e3", "+2k", ".5"]) expect(text).toMatch(new RegExp(node.pattern ?? ""));
    for (const text of ["", "1GB", "m", "1 "]) expect(text).not.toMatch(new RegExp(node.pattern ?? ""));
  });
});

describe("a CustomResourceDefinition", () => {
  it("has the status subresource and the printer columns, with types from the schema, and the age", () => {
    const status = s.object({
      ready: s.integer().optional(),
      at: s.string({ format: "date-time" }).optional(),
      conditions: s.conditions(),
    });
    const columns = { Ready: ".status.ready", At: ".status.at", Ok: '.status.conditions[?(@.type=="Ready")].status' };
    expect(version({ status, columns } as never)).toMatchObject({
      subresources: { status: {} },
      additionalPrinterColumns: [
        { name: "Ready", type: "integer", jsonPath: ".status.ready" },
        { name: "At", type: "date" },
        { name: "Ok", type: "string" },
        { name: "Age", type: "date", jsonPath: ".metadata.creationTimestamp" },
      ],
    });
  });

  it("has no status subresource and no printer columns if the kind declares none", () => {
    expect(Object.keys(version({}) ?? {})).toEqual(["name", "served", "storage", "schema"]);
  });

  it("has the names of the kind", () => {
    expect(specOf({ kind: "Mouse", plural: "mice", shortNames: ["mo"], scope: "Cluster" })).toMatchObject({
      names: { kind: "Mouse", plural: "mice", singular: "mouse", listKind: "MouseList", shortNames: ["mo"] },
      scope: "Cluster",
    });
  });
});

/** Returns `ROLE[@NAMESPACE]: RESOURCE[=NAME] VERBS` for each rule. */
function rights({ definition }: Controller): readonly string[] {
  type Roles = readonly {
    readonly kind: string;
    readonly metadata: { readonly name: string; readonly namespace?: string };
    readonly rules?: readonly {
      readonly resources: readonly string[];
      readonly verbs: readonly string[];
      readonly resourceNames?: readonly string[];
    }[];
  }[];
  return (rbacManifests(definition) as unknown as Roles).flatMap(({ kind, metadata: { name, namespace }, rules = [] }) => {
    expect(kind === "Role" || kind === "RoleBinding" || kind === "ServiceAccount").toBe(namespace !== undefined);
    const place = name.replace("deltaloop-sync-", "") + (namespace === undefined ? "" : `@${namespace}`);
    return rules.map(
      ({ resources, verbs, resourceNames = [] }) => `${place}: ${[...resources, ...resourceNames].join("=")} ${verbs.join(",")}`,
    );
  });
}

describe("rights", () => {
  const status = s.object({ ready: s.integer() });
  const Website = customResource({ ...ID, spec: s.object({}), status });

  it("are exactly those that the definition needs", () => {
    const source = only(Secret, { namespace: "registry", name: "pull" });
    const watches = [watch(source, { by: { all: "cluster" } }), watch(ConfigMap, { by: { name: "same" } })] as const;
    expect(rights(defineController({ name: "web", for: Website, owns: [Pod], watches, reads: [source, Secret], sync }))).toEqual([
      "web: configmaps get,list,watch",
      "web: events create,patch",
      "web: namespaces=kube-system get",
      "web: pods get,list,watch,create,patch,delete",
      "web: secrets get",
      "web: customresourcedefinitions=websites.demo.example.com get",
      "web: websites get,list,watch",
      "web: websites/finalizers update",
      "web: websites/status patch",
      "web-self: websites patch,delete",
      "web@registry: secrets=pull get,list,watch",
    ]);
  });

  it("include the status of a kind declared elsewhere only together with `self` and `remove`", () => {
    expect(rights(defineController({ name: "guard", for: Namespace, sync }))).toEqual([
      "guard: events create,patch",
      "guard: namespaces get,list,watch",
      "guard: namespaces=kube-system get",
      "guard-self: namespaces patch,delete",
      "guard-self: namespaces/status patch",
    ]);
  });

  it("are limited to the namespaces in `where`, except for cluster-scoped kinds", () => {
    const watches = [watch(Namespace, { by: { namespace: "own" } })] as const;
    const found = rights(defineController({ name: "web", for: Website, where: { namespaces: ["a", "b"] }, watches, sync }));
    expect(found.filter((line) => !/^web(?:-self)?@[ab]: /.test(line))).toEqual([
      "web: namespaces get,list,watch",
      "web: namespaces=kube-system get",
      "web: customresourcedefinitions=websites.demo.example.com get",
    ]);
    expect(found.filter((line) => line.includes("@b"))).toEqual([
      "web@b: events create,patch",
      "web@b: websites get,list,watch",
      "web@b: websites/status patch",
      "web-self@b: websites patch,delete",
    ]);
  });
});
