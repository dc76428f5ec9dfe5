/**
 * Would catch: an ignored field, a field that overrides a flag, a value whose meaning differs from the kubelet's, and a setting that is
 * silently not applied.
 */
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Command } from "commander";
import { afterAll, beforeAll, describe, expect, it, test } from "vitest";

import { registerNode } from "../../../../cli/node.ts";
import { applyKubeletConfig } from "../../../../cli/node/kubelet-config.ts";
import { FIELDS } from "../../../../cli/node/kubelet-config-fields.ts";
import type { Fields } from "../../../../cli/node/kubelet-config-fields.ts";
import { kubeletConfiguration } from "../../../../cli/node/node-configuration.ts";
import type { NodeFlags } from "../../../../cli/node/node-flags.ts";
import { nodeOptions } from "../../../../cli/node/serve-node.ts";

const HEAD = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
let folder: string;
let file: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "deltaloop-kubelet-config-"));
  file = join(folder, "kubelet.yaml");
});
afterAll(() => rm(folder, { recursive: true }));

function nodeCommand(...args: readonly string[]): Command {
  const program = new Command();
  registerNode(program);
  const [node] = program.commands;
  if (node === undefined) throw new Error("there is that one command");
  node.parseOptions(["--node-ip", "10.0.0.7", ...args]);
  return node;
}

async function flagsOf(content: string, ...args: readonly string[]): Promise<NodeFlags> {
  await writeFile(file, content.startsWith("{") ? content : HEAD + content);
  const command = nodeCommand(...args);
  await applyKubeletConfig(command, file);
  return command.opts<NodeFlags>();
}

describe("a KubeletConfiguration [node-agent 440]", () => {
  test.each([
    { field: "maxPods: 30", want: { maxPods: 30 } },
    { field: "clusterDNS: [10.96.0.10, 10.96.0.11]", want: { clusterDns: ["10.96.0.10", "10.96.0.11"] } },
    {
      field: "evictionHard: {memory.available: 5%, nodefs.available: 1Gi}",
      want: { evictionHard: "memory.available<5%,nodefs.available<1Gi" },
    },
    { field: "evictionHard: {}", want: { evictionHard: "" } },
    { field: 'kubeReserved: {cpu: 200m, pid: "1000"}', want: { kubeReserved: "cpu=200m,pid=1000" } },
    { field: "evictionPressureTransitionPeriod: 1m30s", want: { evictionPressureTransitionPeriod: 90_000 } },
    { field: "enforceNodeAllocatable: [pods, system-reserved]", want: { enforceNodeAllocatable: "pods,system-reserved" } },
    { field: "enforceNodeAllocatable: []", want: { enforceNodeAllocatable: "" } },
    { field: "enforceNodeAllocatable: [none]", want: { enforceNodeAllocatable: "none" } },
    {
      field: "registerWithTaints: [{key: dedicated, value: batch, effect: NoSchedule}, {key: x, effect: NoExecute}]",
      want: { registerWithTaints: "dedicated=batch:NoSchedule,x:NoExecute" },
    },
    {
      field: "staticPodURLHeader: {x-key: [a, b]}",
      want: {
        manifestUrlHeader: [
          ["x-key", "a"],
          ["x-key", "b"],
        ],
      },
    },
    { field: "authentication: {x509: {clientCAFile: /ca.crt}, anonymous: {enabled: false}}", want: { clientCaFile: "/ca.crt" } },
    { field: "serverTLSBootstrap: true\nrotateCertificates: true", want: { rotateServerCertificates: true, rotateCertificates: true } },
    { field: "healthzPort: 0", want: { healthzPort: 0 } },
    { field: 'resolvConf: ""', want: { resolvConf: "" } },
    { field: "serializeImagePulls: false\nmaxParallelImagePulls: 3", want: { serializeImagePulls: false, maxParallelImagePulls: 3 } },
    {
      field: "shutdownGracePeriod: 1m\nshutdownGracePeriodCriticalPods: 10s",
      want: { shutdownGracePeriod: 60_000, shutdownGracePeriodCriticalPods: 10_000 },
    },
    {
      field:
        "shutdownGracePeriodByPodPriority: [{priority: -10, shutdownGracePeriodSeconds: 60}, {shutdownGracePeriodSeconds: 5}, {priority: 9}]",
      want: {
        shutdownGracePeriodByPodPriority: [
          { priority: -10, seconds: 60 },
          { priority: 0, seconds: 5 },
          { priority: 9, seconds: 0 },
        ],
      },
    },
    { field: "shutdownGracePeriodByPodPriority: []", want: { shutdownGracePeriodByPodPriority: [] } },
    { field: "logging: {format: text}", want: { loggingFormat: "text" } },
    { field: "cgroupsPerQOS: false", want: { cgroupsPerQos: false } },
  ])("a KubeletConfiguration sets $field", async ({ field, want }) => expect(await flagsOf(field)).toMatchObject(want));

  it("paths in a KubeletConfiguration are relative to its file", async () => {
    expect(await flagsOf("staticPodPath: manifests\ntlsCertFile: /etc/tls.crt")).toMatchObject({
      manifests: join(folder, "manifests"),
      tlsCertFile: "/etc/tls.crt",
    });
  });

  it("flags override a KubeletConfiguration, even with default values", async () => {
    const flags = await flagsOf("maxPods: 30\nclusterDNS: [10.96.0.10]\nport: 1234", "--max-pods", "110", "--cluster-dns", "10.0.0.10");
    expect(flags).toMatchObject({ maxPods: 110, clusterDns: ["10.0.0.10"], port: 1234 });
  });

  it("a KubeletConfiguration may be JSON, as kubeadm writes it", async () => {
    const written = {
      apiVersion: "kubelet.config.k8s.io/v1beta1",
      kind: "KubeletConfiguration",
      authentication: {
        anonymous: { enabled: false },
        webhook: { cacheTTL: "0s", enabled: true },
        x509: { clientCAFile: "/etc/kubernetes/pki/ca.crt" },
      },
      authorization: { mode: "Webhook", webhook: { cacheAuthorizedTTL: "0s", cacheUnauthorizedTTL: "0s" } },
      ...{
        cgroupDriver: "systemd",
        clusterDNS: ["10.96.0.10"],
        clusterDomain: "cluster.local",
        containerRuntimeEndpoint: "",
        crashLoopBackOff: {},
      },
      ...{
        cpuManagerReconcilePeriod: "0s",
        evictionPressureTransitionPeriod: "0s",
        fileCheckFrequency: "0s",
        healthzBindAddress: "127.0.0.1",
      },
      ...{ healthzPort: 10_248, httpCheckFrequency: "0s", imageMaximumGCAge: "0s", imageMinimumGCAge: "0s", memorySwap: {} },
      logging: { flushFrequency: 0, options: { json: { infoBufferSize: "0" }, text: { infoBufferSize: "0" } }, verbosity: 0 },
      ...{ nodeStatusReportFrequency: "0s", nodeStatusUpdateFrequency: "0s", rotateCertificates: true, runtimeRequestTimeout: "0s" },
      ...{ shutdownGracePeriod: "0s", shutdownGracePeriodCriticalPods: "0s", staticPodPath: "/etc/kubernetes/manifests" },
      ...{ streamingConnectionIdleTimeout: "0s", syncFrequency: "0s", volumeStatsAggPeriod: "0s" },
    };
    const flags = await flagsOf(JSON.stringify(written));
    expect(flags).toMatchObject({ cgroupDriver: "systemd", rotateCertificates: true });
    expect(flags).not.toHaveProperty("imageMaximumGcAge");
  });
});

describe("ignored fields of a KubeletConfiguration [node-agent 441]", () => {
  test.each([
    { field: "maxPod: 30", warning: 'unknown field "maxPod"' },
    { field: "authentication: {x509: {clientCA: /a}}", warning: 'unknown field "authentication.x509.clientCA"' },
    { field: "toString: 1", warning: 'unknown field "toString"' },
    { field: "maxPods: 20\nmaxPods: 30", warning: 'field "maxPods" is set more than once: the last one counts' },
  ])("warns about $field", async ({ field, warning }) => {
    await writeFile(file, HEAD + field);
    expect(await applyKubeletConfig(nodeCommand(), file)).toEqual([warning]);
  });
});

describe("a rejected KubeletConfiguration [node-agent 441]", () => {
  test.each([
    { field: "featureGates: {X: true}", wrong: "featureGates is not supported by this agent: remove it" },
    { field: "cpuManagerPolicy: static", wrong: 'cpuManagerPolicy: this agent supports only "none": set this value, or remove the field' },
    { field: "enableServer: false", wrong: "enableServer: this agent supports only true" },
    { field: "eventRecordQPS: 0", wrong: "eventRecordQPS: this agent supports only 50" },
    { field: "authentication: {anonymous: {enabled: true}}", wrong: "authentication.anonymous.enabled: this agent supports only false" },
    { field: "syncFrequency: 30s", wrong: 'syncFrequency: this agent supports only "1m"' },
    { field: 'maxPods: "30"', wrong: "maxPods is a string, not a whole number (int32)" },
    { field: "maxPods: 100000", wrong: "maxPods: --max-pods takes a whole number from 1 to 1000" },
    { field: "clusterDNS: 10.96.0.10", wrong: "clusterDNS is a string, not a list" },
    { field: "evictionHard: [a]", wrong: "evictionHard is a list, not an object" },
    { field: "authentication: yes", wrong: "authentication is a boolean, not an object" },
    { field: "shutdownGracePeriod: -1s", wrong: "shutdownGracePeriod: --shutdown-grace-period takes a duration such as 90s" },
    { field: "shutdownGracePeriodByPodPriority: {a: 1}", wrong: "shutdownGracePeriodByPodPriority is an object, not a list" },
    {
      field: "shutdownGracePeriodByPodPriority: [{priority: high, shutdownGracePeriodSeconds: 1}]",
      wrong: "shutdownGracePeriodByPodPriority[0].priority is a string, not a whole number (int32)",
    },
    { field: "cgroupDriver: cgroups", wrong: "cgroupDriver: must be cgroupfs or systemd" },
    { field: "imageMinimumGCAge: 2 minutes", wrong: "imageMinimumGCAge is not a duration such as 1m30s" },
  ])("rejects $field", async ({ field, wrong }) => await expect(flagsOf(field)).rejects.toThrow(wrong));

  it("lists all errors, one per line", async () => {
    await expect(flagsOf("kubeReserved: {pid: 1000}\nfeatureGates: {X: true}\nmaxPods: 0.5")).rejects.toThrow(
      [
        `--config ${file}: kubeReserved[pid] is a number, not a string`,
        `--config ${file}: maxPods is a number, not a whole number (int32)`,
        `--config ${file}: featureGates is not supported by this agent: remove it`,
      ].join("\n"),
    );
  });

  test.each([
    { name: "another kind", content: '{"apiVersion": "v1", "kind": "Pod"}', wrong: "not a KubeletConfiguration" },
    { name: "no kind", content: '{"maxPods": 1}', wrong: "not a KubeletConfiguration" },
    { name: "invalid YAML", content: "a: [", wrong: "not YAML" },
  ])("a KubeletConfiguration is rejected: $name", async ({ content, wrong }) => await expect(flagsOf(content)).rejects.toThrow(wrong));

  it("rejects a missing file", async () => {
    await expect(applyKubeletConfig(nodeCommand(), join(folder, "none.yaml"))).rejects.toThrow("cannot be read");
  });
});

describe("the table of fields [node-agent 442]", () => {
  const options = (fields: Fields): readonly string[] =>
    Object.values(fields).flatMap((field) =>
      field.kind === "option" ? [field.option] : field.kind === "fields" ? options(field.fields) : [],
    );

  it("contains only existing options, each once", () => {
    const there = nodeCommand().options.map(({ long }) => long);
    expect(options(FIELDS).filter((option) => !there.includes(option))).toEqual([]);
    expect(new Set(options(FIELDS)).size).toBe(options(FIELDS).length);
  });

  it("accepts the /configz of an agent with default options", async () => {
    const flags = nodeCommand().opts<NodeFlags>();
    const told = kubeletConfiguration(flags, nodeOptions(flags));
    const again = await flagsOf(JSON.stringify(told));
    expect(kubeletConfiguration(again, nodeOptions(again))).toEqual(told);
    expect(await readFile(file, "utf8")).toContain("evictionHard");
  });
});
