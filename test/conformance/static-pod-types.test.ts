/**
 * Types of a static pod's fields, compared with the API's decoder (the universal deserializer of client-go) on the same manifests. One
 * known difference: ours accepts 2^63 as an int64, because it is the same JavaScript number as 2^63 - 1.
 */
import { describe, expect, it } from "vitest";

import { StaticPodError } from "../../shared/node-agent/kubelet/config/static-pod.ts";
import { manifestPod } from "../../shared/node-agent/sources/manifest.ts";

interface Given {
  /** YAML flow mappings, without the outer braces. */
  readonly meta?: string;
  readonly spec?: string;
  readonly container?: string;
}

const VERDICTS: readonly (readonly ["accepted" | "rejected", Given])[] = [
  ["accepted", { container: "args: ['8080']" }],
  ["rejected", { container: "args: [8080]" }],
  ["accepted", { container: "args: [null]" }],
  ["rejected", { container: "args: text" }],
  ["accepted", { container: "args: null" }],
  ["rejected", { container: "args: {a: b}" }],
  ["rejected", { container: "args: [[a]]" }],
  ["rejected", { container: "args: [1.5]" }],
  ["rejected", { container: "args: [true]" }],
  ["rejected", { container: "command: [{a: b}]" }],
  ["accepted", { container: "env: [{name: A, value: null}]" }],
  ["rejected", { container: "env: [{name: A, value: 8080}]" }],
  ["rejected", { container: "env: [{name: A, value: true}]" }],
  ["accepted", { container: "env: [null]" }],
  ["rejected", { container: "env: {A: b}" }],
  ["rejected", { container: "env: [{name: A, valueFrom: {fieldRef: {fieldPath: 1}}}]" }],
  ["rejected", { container: "env: [{name: A, valueFrom: x}]" }],
  ["rejected", { container: "env: [A]" }],
  ["accepted", { container: "resources: {limits: {cpu: 1, memory: 134217728}}" }],
  ["accepted", { container: "resources: {limits: {cpu: 0.5}}" }],
  ["accepted", { container: "resources: {limits: {cpu: 1e3}}" }],
  ["rejected", { container: "resources: {limits: {memory: 1 Gi}}" }],
  ["rejected", { container: "resources: {limits: {memory: 128 MB}}" }],
  ["rejected", { container: "resources: {limits: {memory: ''}}" }],
  ["accepted", { container: "resources: {limits: {memory: null}}" }],
  ["rejected", { container: "resources: {limits: {memory: true}}" }],
  ["rejected", { container: "resources: {limits: {memory: [1]}}" }],
  ["rejected", { container: "resources: {limits: [1]}" }],
  ["accepted", { container: "resources: {limits: null}" }],
  ["rejected", { container: "resources: x" }],
  ["accepted", { container: "resources: {limits: {memory: ' 1Gi'}}" }],
  ["accepted", { container: "resources: {limits: {memory: .5Gi}}" }],
  ["rejected", { container: "resources: {limits: {memory: 1Gib}}" }],
  ["accepted", { container: "resources: {limits: {memory: -1}}" }],
  ["rejected", { container: "livenessProbe: {httpGet: {port: 80}, periodSeconds: 5s}" }],
  ["accepted", { container: "livenessProbe: {httpGet: {port: 80}, periodSeconds: 5.0}" }],
  ["rejected", { container: "livenessProbe: {httpGet: {port: 80}, periodSeconds: 5.5}" }],
  ["rejected", { container: "livenessProbe: {httpGet: {port: 80}, periodSeconds: 3000000000}" }],
  ["accepted", { container: "livenessProbe: {httpGet: {port: http}}" }],
  ["rejected", { container: "livenessProbe: {httpGet: {port: 80.5}}" }],
  ["rejected", { container: "livenessProbe: {httpGet: {port: true}}" }],
  ["accepted", { container: "livenessProbe: {httpGet: {port: null}}" }],
  ["rejected", { container: "livenessProbe: {httpGet: {port: 3000000000}}" }],
  ["accepted", { container: "livenessProbe: null" }],
  ["rejected", { container: "livenessProbe: x" }],
  ["rejected", { container: "workingDir: 3" }],
  ["rejected", { container: "stdin: 'true'" }],
  ["rejected", { container: "stdin: 1" }],
  ["accepted", { container: "stdin: yes" }],
  ["rejected", { container: "ports: [{containerPort: '80'}]" }],
  ["accepted", { container: "ports: [{containerPort: 0x50}]" }],
  ["rejected", { container: "ports: 80" }],
  ["accepted", { container: "unknown: [1]" }],
  ["rejected", { container: "securityContext: {runAsUser: '0'}" }],
  ["accepted", { container: "securityContext: {runAsUser: 9223372036854775807}" }],
  ["accepted", { container: "securityContext: {runAsUser: -1}" }],
  ["rejected", { container: "imagePullPolicy: 1" }],
  ["accepted", { container: "imagePullPolicy: Whatever" }],
  ["rejected", { spec: "hostNetwork: 'yes'" }],
  ["accepted", { spec: "hostNetwork: on" }],
  ["rejected", { spec: "terminationGracePeriodSeconds: '30'" }],
  ["rejected", { spec: "nodeSelector: {a: 1}" }],
  ["accepted", { spec: "nodeSelector: {a: null}" }],
  ["rejected", { spec: "nodeSelector: [a]" }],
  ["accepted", { spec: "volumes: [{name: v, emptyDir: {}}]" }],
  ["accepted", { spec: "volumes: [{name: v, emptyDir: null}]" }],
  ["rejected", { spec: "volumes: [{name: v, emptyDir: {sizeLimit: 1 Gi}}]" }],
  ["rejected", { spec: "volumes: {name: v}" }],
  ["rejected", { spec: "volumes: [{name: v, hostPath: /x}]" }],
  ["rejected", { spec: "tolerations: [{tolerationSeconds: 1.5}]" }],
  ["rejected", { spec: "hostAliases: [{ip: 1, hostnames: [a]}]" }],
  ["rejected", { spec: "securityContext: {supplementalGroups: ['1']}" }],
  ["rejected", { spec: "overhead: {cpu: x}" }],
  ["accepted", { spec: "unknown: 1" }],
  ["rejected", { meta: "name: web, labels: {a: 1}" }],
  ["accepted", { meta: "name: web, labels: {a: '1'}" }],
  ["accepted", { meta: "name: web, labels: {a: null}" }],
  ["rejected", { meta: "name: web, labels: a" }],
  ["rejected", { meta: "name: web, annotations: {a: true}" }],
  ["rejected", { meta: "name: web, annotations: {a: [b]}" }],
  ["rejected", { meta: "name: 7" }],
  ["accepted", { meta: "name: web, creationTimestamp: null" }],
  ["rejected", { meta: "name: web, creationTimestamp: yesterday" }],
  ["accepted", { meta: "name: web, creationTimestamp: 2026-01-02T03:04:05Z" }],
  ["rejected", { meta: "name: web, creationTimestamp: 1" }],
  ["rejected", { meta: "name: web, generation: x" }],
  ["rejected", { meta: "name: web, finalizers: a" }],
  ["accepted", { meta: "name: web, managedFields: [{fieldsV1: {a: 1}}]" }],
  ["rejected", { meta: "name: web, ownerReferences: [{controller: 'yes'}]" }],
];

function manifestOf({ meta = "name: web", spec, container }: Given): string {
  const [before, after] = [spec === undefined ? "" : `${spec}, `, container === undefined ? "" : `, ${container}`];
  return `apiVersion: v1\nkind: Pod\nmetadata: {${meta}}\nspec: {${before}containers: [{name: c, image: 'web:1'${after}}]}\n`;
}

const podOf = (given: Given) => manifestPod(manifestOf(given), "/manifests/web.yaml", "n1");

describe("a static pod is decoded into the API's types", () => {
  it.each(VERDICTS)("a manifest is %s: %j", (verdict, given) => {
    let error: unknown;
    try {
      podOf(given);
    } catch (thrown) {
      error = thrown;
    }
    if (verdict === "accepted") expect(error).toBeUndefined();
    else expect(error).toBeInstanceOf(StaticPodError);
  });

  it("reports the file, the path and the types of all errors, and quotes no value", () => {
    const spec = "hostNetwork: 'hunter2', nodeSelector: {a: 1}";
    expect(() => podOf({ spec, container: "args: [8080], resources: {limits: {memory: hunter2 Gi}}" })).toThrow(
      "manifest /manifests/web.yaml: spec.hostNetwork is a string, not true or false; spec.nodeSelector[a] is a number, not a string; " +
        "spec.containers[0].args[0] is a number, not a string; spec.containers[0].resources.limits[memory] is not a quantity such as 500m or 1Gi",
    );
  });

  it("decodes null as the zero value in a list and as absence in a field", () => {
    const { spec } = podOf({ container: "args: [null, a], command: null" });
    expect(spec.containers[0]).toMatchObject({ args: ["", "a"] });
    expect(spec.containers[0]).not.toHaveProperty("command");
  });
});
