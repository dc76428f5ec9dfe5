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

const VERDICTS: readonly (readonly ["taken" | "refused", Given])[] = [
  ["taken", { container: "args: ['8080']" }],
  ["refused", { container: "args: [8080]" }],
  ["taken", { container: "args: [null]" }],
  ["refused", { container: "args: text" }],
  ["taken", { container: "args: null" }],
  ["refused", { container: "args: {a: b}" }],
  ["refused", { container: "args: [[a]]" }],
  ["refused", { container: "args: [1.5]" }],
  ["refused", { container: "args: [true]" }],
  ["refused", { container: "command: [{a: b}]" }],
  ["taken", { container: "env: [{name: A, value: null}]" }],
  ["refused", { container: "env: [{name: A, value: 8080}]" }],
  ["refused", { container: "env: [{name: A, value: true}]" }],
  ["taken", { container: "env: [null]" }],
  ["refused", { container: "env: {A: b}" }],
  ["refused", { container: "env: [{name: A, valueFrom: {fieldRef: {fieldPath: 1}}}]" }],
  ["refused", { container: "env: [{name: A, valueFrom: x}]" }],
  ["refused", { container: "env: [A]" }],
  ["taken", { container: "resources: {limits: {cpu: 1, memory: 134217728}}" }],
  ["taken", { container: "resources: {limits: {cpu: 0.5}}" }],
  ["taken", { container: "resources: {limits: {cpu: 1e3}}" }],
  ["refused", { container: "resources: {limits: {memory: 1 Gi}}" }],
  ["refused", { container: "resources: {limits: {memory: 128 MB}}" }],
  ["refused", { container: "resources: {limits: {memory: ''}}" }],
  ["taken", { container: "resources: {limits: {memory: null}}" }],
  ["refused", { container: "resources: {limits: {memory: true}}" }],
  ["refused", { container: "resources: {limits: {memory: [1]}}" }],
  ["refused", { container: "resources: {limits: [1]}" }],
  ["taken", { container: "resources: {limits: null}" }],
  ["refused", { container: "resources: x" }],
  ["taken", { container: "resources: {limits: {memory: ' 1Gi'}}" }],
  ["taken", { container: "resources: {limits: {memory: .5Gi}}" }],
  ["refused", { container: "resources: {limits: {memory: 1Gib}}" }],
  ["taken", { container: "resources: {limits: {memory: -1}}" }],
  ["refused", { container: "livenessProbe: {httpGet: {port: 80}, periodSeconds: 5s}" }],
  ["taken", { container: "livenessProbe: {httpGet: {port: 80}, periodSeconds: 5.0}" }],
  ["refused", { container: "livenessProbe: {httpGet: {port: 80}, periodSeconds: 5.5}" }],
  ["refused", { container: "livenessProbe: {httpGet: {port: 80}, periodSeconds: 3000000000}" }],
  ["taken", { container: "livenessProbe: {httpGet: {port: http}}" }],
  ["refused", { container: "livenessProbe: {httpGet: {port: 80.5}}" }],
  ["refused", { container: "livenessProbe: {httpGet: {port: true}}" }],
  ["taken", { container: "livenessProbe: {httpGet: {port: null}}" }],
  ["refused", { container: "livenessProbe: {httpGet: {port: 3000000000}}" }],
  ["taken", { container: "livenessProbe: null" }],
  ["refused", { container: "livenessProbe: x" }],
  ["refused", { container: "workingDir: 3" }],
  ["refused", { container: "stdin: 'true'" }],
  ["refused", { container: "stdin: 1" }],
  ["taken", { container: "stdin: yes" }],
  ["refused", { container: "ports: [{containerPort: '80'}]" }],
  ["taken", { container: "ports: [{containerPort: 0x50}]" }],
  ["refused", { container: "ports: 80" }],
  ["taken", { container: "unknown: [1]" }],
  ["refused", { container: "securityContext: {runAsUser: '0'}" }],
  ["taken", { container: "securityContext: {runAsUser: 9223372036854775807}" }],
  ["taken", { container: "securityContext: {runAsUser: -1}" }],
  ["refused", { container: "imagePullPolicy: 1" }],
  ["taken", { container: "imagePullPolicy: Whatever" }],
  ["refused", { spec: "hostNetwork: 'yes'" }],
  ["taken", { spec: "hostNetwork: on" }],
  ["refused", { spec: "terminationGracePeriodSeconds: '30'" }],
  ["refused", { spec: "nodeSelector: {a: 1}" }],
  ["taken", { spec: "nodeSelector: {a: null}" }],
  ["refused", { spec: "nodeSelector: [a]" }],
  ["taken", { spec: "volumes: [{name: v, emptyDir: {}}]" }],
  ["taken", { spec: "volumes: [{name: v, emptyDir: null}]" }],
  ["refused", { spec: "volumes: [{name: v, emptyDir: {sizeLimit: 1 Gi}}]" }],
  ["refused", { spec: "volumes: {name: v}" }],
  ["refused", { spec: "volumes: [{name: v, hostPath: /x}]" }],
  ["refused", { spec: "tolerations: [{tolerationSeconds: 1.5}]" }],
  ["refused", { spec: "hostAliases: [{ip: 1, hostnames: [a]}]" }],
  ["refused", { spec: "securityContext: {supplementalGroups: ['1']}" }],
  ["refused", { spec: "overhead: {cpu: x}" }],
  ["taken", { spec: "unknown: 1" }],
  ["refused", { meta: "name: web, labels: {a: 1}" }],
  ["taken", { meta: "name: web, labels: {a: '1'}" }],
  ["taken", { meta: "name: web, labels: {a: null}" }],
  ["refused", { meta: "name: web, labels: a" }],
  ["refused", { meta: "name: web, annotations: {a: true}" }],
  ["refused", { meta: "name: web, annotations: {a: [b]}" }],
  ["refused", { meta: "name: 7" }],
  ["taken", { meta: "name: web, creationTimestamp: null" }],
  ["refused", { meta: "name: web, creationTimestamp: yesterday" }],
  ["taken", { meta: "name: web, creationTimestamp: 2026-01-02T03:04:05Z" }],
  ["refused", { meta: "name: web, creationTimestamp: 1" }],
  ["refused", { meta: "name: web, generation: x" }],
  ["refused", { meta: "name: web, finalizers: a" }],
  ["taken", { meta: "name: web, managedFields: [{fieldsV1: {a: 1}}]" }],
  ["refused", { meta: "name: web, ownerReferences: [{controller: 'yes'}]" }],
];

function manifestOf({ meta = "name: web", spec, container }: Given): string {
  const [before, after] = [spec === undefined ? "" : `${spec}, `, container === undefined ? "" : `, ${container}`];
  return `apiVersion: v1\nkind: Pod\nmetadata: {${meta}}\nspec: {${before}containers: [{name: c, image: 'web:1'${after}}]}\n`;
}

const podOf = (given: Given) => manifestPod(manifestOf(given), "/manifests/web.yaml", "n1");

describe("a static pod is decoded into the API's types", () => {
  it.each(VERDICTS)("%s: %j", (verdict, given) => {
    let error: unknown;
    try {
      podOf(given);
    } catch (thrown) {
      error = thrown;
    }
    if (verdict === "taken") expect(error).toBeUndefined();
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
