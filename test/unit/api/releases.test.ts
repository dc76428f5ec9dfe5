/**
 * Upstream's hashes of four templates in each release (test/differential compares thousands for those that can be built). Those of 1.38 were
 * computed with k8s.io/api v0.38.0-beta.0, apimachinery v0.37.2 and v0.38's pkg/api/resource.
 */
import { describe, expect, it } from "vitest";

import { podTemplateHash, podTemplateHashState, podTemplateText } from "../../../shared/kube/pod-template/pod-template-hash.ts";
import { podTemplateLayout } from "../../../shared/kube/pod-template/pod-template-layout.ts";
import { typeTable } from "../../../shared/kube/pod-template/type-table.ts";
import { ACTING_RELEASES, ALL_RELEASES, releaseName } from "../../../shared/kube/releases.ts";
import type { Release } from "../../../shared/kube/releases.ts";
import type { PodTemplateSpec } from "../../../shared/kube/objects/wire.ts";
import { knownRelease } from "../../support/known-release.ts";
import { template } from "./templates.ts";

const resources = { limits: { cpu: "500m", memory: "170Mi" }, requests: { cpu: "1", memory: "64Mi" } };
const TEMPLATES: Readonly<Record<string, PodTemplateSpec>> = {
  bare: { metadata: { labels: { app: "a" } }, spec: { containers: [{ name: "c", image: "nginx" }] } },
  defaulted: template(),
  resources: template({ container: { resources } }),
  volumes: {
    metadata: { labels: { app: "d" } },
    spec: {
      volumes: [{ name: "v", projected: { sources: [{ configMap: { name: "m" } }], defaultMode: 420 } }],
      containers: [
        {
          name: "c",
          image: "nginx:1",
          env: [{ name: "E", valueFrom: { fieldRef: { apiVersion: "v1", fieldPath: "metadata.name" } } }],
          volumeMounts: [{ name: "v", mountPath: "/v" }],
          readinessProbe: { httpGet: { path: "/", port: 80 } },
          lifecycle: { preStop: { sleep: { seconds: 1 } } },
          securityContext: { seccompProfile: { type: "RuntimeDefault" } },
        },
      ],
    },
  },
};

interface Vector {
  readonly release: string;
  /** For each template, the hash without a collision count, and the length of the text. */
  readonly hashes: Readonly<Record<string, readonly [hash: string, length: number]>>;
  /** Hashes of the bare template with collision counts 0 and 1. */
  readonly collisions: readonly [zero: string, one: string];
}

const SAME_IN_132_AND_133 = { bare: ["bc894c45c", 2736], defaulted: ["5869d7778c", 3310], resources: ["57df6fb9d9", 3992] } as const;
const VECTORS: readonly Vector[] = [
  { release: "1.32", hashes: { ...SAME_IN_132_AND_133, volumes: ["6646bc58b8", 6140] }, collisions: ["5976cfc669", "86b55464dd"] },
  { release: "1.33", hashes: { ...SAME_IN_132_AND_133, volumes: ["5fc44bd44f", 6169] }, collisions: ["5976cfc669", "86b55464dd"] },
  {
    release: "1.34",
    hashes: { bare: ["56bf898d4d", 2820], defaulted: ["66686b6766", 3394], resources: ["5f745dc7fb", 4076], volumes: ["74fc98f8fc", 6342] },
    collisions: ["74f7c67db8", "7b985f445"],
  },
  {
    release: "1.35",
    hashes: { bare: ["5b589d4889", 2861], defaulted: ["56c45fd5ff", 3435], resources: ["b4bf4bd77", 4117], volumes: ["6987d6d55d", 6383] },
    collisions: ["776756d5df", "5c9b8b9c9b"],
  },
  {
    release: "1.36",
    hashes: { bare: ["65956c7646", 2866], defaulted: ["7f8fbb96d", 3440], resources: ["74467768b6", 4122], volumes: ["bf6dd6575", 6388] },
    collisions: ["79b7fcd98b", "d79bc7bd7"],
  },
  {
    release: "1.37",
    hashes: { bare: ["68b5f6bf4b", 2915], defaulted: ["69b9cdbbdd", 3489], resources: ["5f7f895b7d", 4171], volumes: ["76d95c995d", 6529] },
    collisions: ["6665fbd5db", "7cddb74b5f"],
  },
  {
    release: "1.38",
    hashes: { bare: ["68b5f6bf4b", 2915], defaulted: ["69b9cdbbdd", 3489], resources: ["744b9c96b6", 4411], volumes: ["5d77d6645b", 6563] },
    collisions: ["6665fbd5db", "7cddb74b5f"],
  },
];

describe("the hash of a template in each release", () => {
  it("covers every known release", () => {
    expect(ALL_RELEASES.map(({ name }) => name)).toEqual(VECTORS.map(({ release }) => release));
    expect(ACTING_RELEASES.map(({ name }) => name)).toEqual(["1.35", "1.36", "1.37"]);
  });

  it.each(VECTORS)("$release has upstream's hashes", ({ release: name, hashes, collisions }) => {
    const release = knownRelease(name);
    const ours = Object.entries(TEMPLATES).map(([kind, each]) => {
      return [kind, [podTemplateHash(podTemplateHashState(each, release)), podTemplateText(each, release).length]];
    });
    expect(Object.fromEntries(ours)).toEqual(hashes);
    const state = podTemplateHashState(TEMPLATES["bare"] ?? {}, release);
    expect([podTemplateHash(state, 0), podTemplateHash(state, 1)]).toEqual(collisions);
  });

  it.each([
    { text: "64Mi", printed: "{str:(string)64Mi format:(resource.formatCode)2}" },
    { text: "1000m", printed: "{str:(string)1 format:(resource.formatCode)3}" },
    { text: "1e3", printed: "{str:(string)1e3 format:(resource.formatCode)1}" },
    { text: "0", printed: "{str:(string)0 format:(resource.formatCode)3}" },
  ])("1.38 prints the text and format of quantity $text", ({ text, printed }) => {
    const whole = template({ spec: { overhead: { cpu: text } } });
    expect(podTemplateText(whole, knownRelease("1.38"))).toContain(`s:(resource.cachedString)${printed}`);
    expect(podTemplateText(whole, knownRelease("1.37"))).not.toContain("cachedString");
  });
});

describe("the table of types", () => {
  it("applies a release's changes in order", () => {
    const table = typeTable(["A{X:s Y:b} Gone{Z:s}", "A{-X !Y:i32 +W:s Y+V:*s} -Gone{} New{Q:s}"]);
    expect(Object.fromEntries(table)).toEqual({ A: ["Y:i32", "V:*s", "W:s"], New: ["Q:s"] });
  });

  it.each([
    { changes: "A{-X}", error: "changes A.X, which does not exist" },
    { changes: "A{Y:s}", error: "the table of types lists A twice" },
  ])("rejects the invalid change $changes", ({ changes, error }) => {
    expect(() => typeTable(["A{Y:b}", changes])).toThrow(error);
  });

  it("a table of types is rejected if a Quantity has fields that cannot be printed", () => {
    const [last] = ALL_RELEASES.slice(-1);
    if (last === undefined) throw new Error("no release");
    const next: Release = { ...last, name: "1.39", types: [...last.types, "resource.Quantity{+Unit:s}"] };
    expect(() => podTemplateLayout(next)).toThrow("resource.Quantity has unknown fields");
  });
});

describe("the release of a version", () => {
  it.each([
    { version: "v1.36.3", name: "1.36" },
    { version: "v1.35.4+k3s1", name: "1.35" },
    { version: "v1.37.0-eks-1a2b3c4", name: "1.37" },
    { version: "1.36", name: "1.36" },
    { version: "v1.360.1", name: "1.360" },
    { version: "unknown", name: undefined },
  ])("maps $version to $name", ({ version, name }) => {
    expect(releaseName(version)).toBe(name);
  });
});
