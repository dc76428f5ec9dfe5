/** The Go layout of a pod template: a single wrong character of the 3,440 changes the hash, and so the names of ReplicaSets and pods. */
import { describe, expect, it } from "vitest";
import { podTemplateHash, podTemplateHashState, podTemplateText } from "../../../shared/kube/pod-template/pod-template-hash.ts";
import type { PodTemplateSpec } from "../../../shared/kube/objects/wire.ts";
import { knownRelease } from "../../support/known-release.ts";
import { everyField, template } from "./templates.ts";

/** The release whose program printed the texts and hashes in this file; releases.test.ts has some of each release. */
const PRINTED_BY = knownRelease("1.36");

const probe = {
  httpGet: { path: "/ready", port: 8080, scheme: "HTTP" },
  timeoutSeconds: 1,
  periodSeconds: 10,
  successThreshold: 1,
  failureThreshold: 3,
};

const H: readonly { id: string; change: string; template: PodTemplateSpec; length: number; hash: string }[] = [
  { id: "H1", change: "nothing changed", template: template(), length: 3440, hash: "7f8fbb96d" },
  {
    id: "H2",
    change: "a template annotation",
    template: template({ metadata: { annotations: { "kubectl.kubernetes.io/restartedAt": "2026-01-02T03:04:05Z" } } }),
    length: 3494,
    hash: "8df88d5c6",
  },
  {
    id: "H3",
    change: "an env variable",
    template: template({ container: { env: [{ name: "A", value: "1" }] } }),
    length: 3503,
    hash: "8b77d4d46",
  },
  {
    id: "H4",
    change: "limits and requests",
    template: template({ container: { resources: { limits: { cpu: "500m", memory: "170Mi" }, requests: { cpu: "1", memory: "64Mi" } } } }),
    length: 4122,
    hash: "74467768b6",
  },
  {
    id: "H5",
    change: "a readiness probe on a numbered port",
    template: template({ container: { readinessProbe: probe } }),
    length: 3938,
    hash: "586bdf99f9",
  },
  {
    id: "H6",
    change: "a readiness probe on a named port",
    template: template({ container: { readinessProbe: { ...probe, httpGet: { ...probe.httpGet, port: "http" } } } }),
    length: 3939,
    hash: "59c86fd694",
  },
  {
    id: "H7",
    change: "a configMap volume and its mount",
    template: template({
      spec: { volumes: [{ name: "c", configMap: { name: "cm", items: [{ key: "k", path: "p" }], defaultMode: 420 } }] },
      container: { volumeMounts: [{ name: "c", mountPath: "/c", readOnly: true }] },
    }),
    length: 5144,
    hash: "78c8b7cbb8",
  },
  { id: "H8", change: "no pod securityContext", template: withoutSecurityContext(), length: 2936, hash: "74f6c6c747" },
  {
    id: "H9",
    change: "capabilities, a toleration and anti-affinity",
    template: template({
      container: { securityContext: { capabilities: { add: ["NET_BIND_SERVICE"], drop: ["ALL"] }, allowPrivilegeEscalation: false } },
      spec: {
        tolerations: [{ key: "k", operator: "Exists", effect: "NoSchedule" }],
        affinity: {
          podAntiAffinity: {
            preferredDuringSchedulingIgnoredDuringExecution: [
              {
                weight: 100,
                podAffinityTerm: {
                  labelSelector: { matchExpressions: [{ key: "app", operator: "In", values: ["nginx"] }] },
                  topologyKey: "kubernetes.io/hostname",
                },
              },
            ],
          },
        },
      },
    }),
    length: 4759,
    hash: "c976b5857",
  },
  {
    id: "H10",
    change: "the longest grace period",
    // Too large for a JavaScript number.
    template: template({ spec: { terminationGracePeriodSeconds: 9223372036854775807n as unknown as number } }),
    length: 3457,
    hash: "79cd7747c9",
  },
];

function withoutSecurityContext(): PodTemplateSpec {
  const whole = template();
  delete whole.spec?.securityContext;
  return whole;
}

describe("podTemplateHash", () => {
  it.each(H)(
    "[deployment $id] prints the template with $change in $length characters, whose hash is $hash",
    ({ template, length, hash }) => {
      expect(podTemplateText(template, PRINTED_BY)).toHaveLength(length);
      expect(podTemplateHash(podTemplateHashState(template, PRINTED_BY))).toBe(hash);
    },
  );

  it("[deployment H1] the FNV-1a state of H1 is 394966528", () => {
    expect(podTemplateHashState(template(), PRINTED_BY)).toBe(394966528);
  });

  it.each([
    { collisionCount: undefined, hash: "7f8fbb96d" },
    { collisionCount: 0, hash: "646474d8d4" },
    { collisionCount: 1, hash: "79dbfc4f57" },
    { collisionCount: 2, hash: "d9dbbb494" },
  ])("[deployment H1] collision count $collisionCount gives $hash", ({ collisionCount, hash }) => {
    expect(podTemplateHash(394966528, collisionCount)).toBe(hash);
  });

  it("[deployment T96] 1,000 templates that differ only in the image tag have 1,000 hashes", () => {
    const hashes = Array.from({ length: 1000 }, (_, tag) =>
      podTemplateHash(podTemplateHashState(template({ container: { image: `nginx:${tag}` } }))),
    );
    expect(new Set(hashes).size).toBe(1000);
    expect(hashes.filter((hash) => !/^[4-9bcdf]{1,10}$/.test(hash))).toEqual([]);
  });

  it("hashes a user's pod-template-hash label like any other label", () => {
    const labelled = template({ metadata: { labels: { app: "nginx", "pod-template-hash": "x" } } });
    expect(podTemplateHashState(labelled, PRINTED_BY)).not.toBe(394966528);
  });
});

// Each line was printed by upstream's own code (k8s.io/utils/dump over k8s.io/api v0.36, read from its protobuf form).
describe("podTemplateText", () => {
  it("prints a template with every field of the layout set, as upstream does", () => {
    const whole = everyField(PRINTED_BY);
    expect(podTemplateText(whole, PRINTED_BY)).toHaveLength(39506);
    expect(podTemplateHashState(whole, PRINTED_BY)).toBe(1379442171);
  });

  it.each<{ name: string; template: PodTemplateSpec; contains: string }>([
    {
      name: "prints a map's keys in byte order, even for characters outside the basic multilingual plane",
      template: template({ spec: { nodeSelector: { "\u{1f600}": "2", "\uffee": "1", Z: "0" } } }),
      contains: "NodeSelector:(map[string]string)map[Z:0 \uffee:1 \u{1f600}:2]",
    },
    {
      name: "prints empty lists and maps, and null entries, as absent",
      template: JSON.parse(
        '{"metadata":{"labels":{},"annotations":{"a":null}},"spec":{"containers":[{"args":[],"name":"c"}]}}',
      ) as PodTemplateSpec,
      contains: "Labels:(map[string]string)<nil> Annotations:(map[string]string)<nil>",
    },
    {
      name: "prints an embedded struct under its type's name",
      template: template({ container: { envFrom: [{ configMapRef: { name: "cm" } }] } }),
      contains:
        "EnvFrom:([]v1.EnvFromSource)[{Prefix:(string) ConfigMapRef:(*v1.ConfigMapEnvSource){LocalObjectReference:(v1.LocalObjectReference){Name:(string)cm} Optional:(*bool)<nil>} SecretRef:(*v1.SecretEnvSource)<nil>}]",
    },
    {
      name: "prints an absent divisor as the stored 0",
      template: template({ container: { env: [{ name: "CPU", valueFrom: { resourceFieldRef: { resource: "limits.cpu" } } }] } }),
      contains:
        "Divisor:(resource.Quantity){i:(resource.int64Amount){value:(int64)0 scale:(resource.Scale)0} d:(resource.infDecAmount){Dec:(*inf.Dec)<nil>} s:(string)0 Format:(resource.Format)DecimalSI}",
    },
    {
      name: "prints an ephemeral container's fields under EphemeralContainerCommon",
      template: template({ spec: { ephemeralContainers: [{ name: "debug", targetContainerName: "nginx" }] } }),
      contains:
        "EphemeralContainers:([]v1.EphemeralContainer)[{EphemeralContainerCommon:(v1.EphemeralContainerCommon){Name:(string)debug Image:(string) Command:([]string)<nil>",
    },
    {
      name: "prints the type of a non-nil pointer only once",
      template: template({ spec: { priority: 7, shareProcessNamespace: false } }),
      contains: "ShareProcessNamespace:(*bool)false SecurityContext:(*v1.PodSecurityContext){SELinuxOptions:(*v1.SELinuxOptions)<nil>",
    },
    {
      name: "prints strings without escaping",
      template: template({ container: { workingDir: "/ü {]:<nil>" } }),
      contains: "WorkingDir:(string)/ü {]:<nil> Ports:",
    },
  ])("podTemplateText $name", ({ template, contains }) => {
    expect(podTemplateText(template, PRINTED_BY)).toContain(contains);
  });

  it("prints any JSON without failing", () => {
    const odd = JSON.parse(
      '{"metadata":{"name":{"toString":1},"labels":7},"spec":{"containers":"c","priority":[1],"overhead":{"cpu":{}}}}',
    ) as PodTemplateSpec;
    expect(podTemplateText(odd, PRINTED_BY)).toContain('Name:(string){"toString":1} GenerateName:(string) ');
  });
});
