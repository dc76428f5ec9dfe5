/** Definitions as plain data. Catches: a function or `undefined` in them, and a mask that includes hidden values. */
import { describe, expect, it } from "vitest";

import { customResource, defineController, kind, only, own, s, watch } from "../../../shared/sdk/index.ts";
import { ConfigMap, Deployment, Pod, Secret } from "../../../shared/sdk/kinds.ts";

const sync = () => undefined;
const spec = s.object({
  user: s.string(),
  password: s.string().secret(),
  template: s.podTemplate(),
  tls: s.object({ host: s.string(), key: s.string().secret() }),
  logins: s.array(s.object({ token: s.string().secret() })),
});
const Login = customResource({ group: "x.example.com", version: "v1", kind: "Login", spec });
const Plain = customResource({
  group: "x.example.com",
  version: "v1",
  kind: "Plain",
  plural: "plains",
  spec: s.object({ a: s.string() }),
  status: s.object({ b: s.string() }),
});

describe("visible fields", () => {
  it.each([
    { what: "spec and status of a primary with a schema from `s`", controller: { for: Plain }, want: { spec: true, status: true } },
    {
      what: "not secret fields, nor lists that contain one",
      controller: { for: Login },
      want: { spec: { user: true, tls: { host: true } } },
    },
    { what: "the status of any other primary", controller: { for: Pod }, want: { status: true } },
    {
      what: "status and what `see` adds",
      controller: { for: Deployment, see: { spec: { replicas: true } } },
      want: { status: true, spec: { replicas: true } },
    },
    {
      what: "what `see` names instead of the default",
      controller: { for: Pod, see: { status: { phase: true } } },
      want: { status: { phase: true } },
    },
    { what: "only the metadata of a ConfigMap", controller: { for: ConfigMap }, want: {} },
  ] as const)("are $what", ({ controller, want }) => {
    expect(defineController({ name: "a", sync, ...controller } as never).definition.see).toEqual(want);
  });

  it("include only the status of owned and watched objects, even of kinds with a schema from `s`", () => {
    const { definition } = defineController({
      name: "a",
      for: Pod,
      owns: [Plain, own(Deployment, { spec: { replicas: "digest" } }, { prune: false })],
      watches: [watch(Plain, { by: { label: "x" } }), watch(only(Secret, { namespace: "n", name: "s" }), { by: { all: "cluster" } })],
      reads: [Plain, only(Secret, { namespace: "n" })],
      sync,
    });
    expect(definition).toMatchObject({
      owns: [
        { kind: { plural: "plains" }, see: { status: true } },
        { see: { status: true, spec: { replicas: "digest" } }, prune: false },
      ],
      watches: [
        { by: { label: "x" }, see: { status: true } },
        { place: { namespace: "n", name: "s" }, see: {} },
      ],
      reads: [{ kind: { plural: "plains" } }, { place: { namespace: "n" } }],
    });
    expect(definition.owns[0]?.see).toEqual({ status: true });
  });
});

it("a definition is unchanged after a round trip through JSON", () => {
  const { definition } = defineController({ name: "a", for: Login, owns: [Pod], resync: "1h", sync });
  expect(JSON.parse(JSON.stringify(definition))).toStrictEqual(definition);
});

it("a body has apiVersion and kind, and no undefined field", () => {
  interface Certificate {
    readonly spec: { readonly dnsNames: readonly string[]; readonly issuer?: string };
  }
  const id = { group: "cert-manager.io", version: "v1", kind: "Certificate", plural: "certificates", scope: "Namespaced" } as const;
  const Certificate = kind<Certificate>()(id);
  expect(
    Certificate({ metadata: { name: "a", namespace: undefined }, spec: { dnsNames: ["a.example.com"], issuer: undefined } }),
  ).toStrictEqual({
    apiVersion: "cert-manager.io/v1",
    kind: "Certificate",
    metadata: { name: "a" },
    spec: { dnsNames: ["a.example.com"] },
  });
});
