/** Would catch: a setting with another name or format than upstream's, a missing setting, and a secret that is exposed. */
import { Command } from "commander";
import { expect, it } from "vitest";

import { registerNode } from "../../../../cli/node.ts";
import { kubeletConfiguration } from "../../../../cli/node/node-configuration.ts";
import type { NodeFlags } from "../../../../cli/node/node-flags.ts";
import { nodeOptions } from "../../../../cli/node/serve-node.ts";

function configurationOf(...args: readonly string[]): Readonly<Record<string, unknown>> {
  const program = new Command();
  registerNode(program);
  const [node] = program.commands;
  node?.parseOptions(["--node-ip", "10.0.0.7", ...args]);
  const flags = node?.opts<NodeFlags>() as NodeFlags; // the program has exactly one command
  return kubeletConfiguration(flags, nodeOptions(flags)) as Record<string, unknown>; // the configuration is an object
}

it("[node-agent 305] reports options that are not set with upstream's defaults", () => {
  expect(configurationOf()).toMatchObject({
    ...{ kind: "KubeletConfiguration", apiVersion: "kubelet.config.k8s.io/v1beta1" },
    ...{ address: "10.0.0.7", port: 10_250, healthzPort: 10_248, healthzBindAddress: "127.0.0.1", oomScoreAdj: -999 },
    ...{ registryPullQPS: 5, registryBurst: 10, serializeImagePulls: true, imageMinimumGCAge: "2m0s", imageMaximumGCAge: "0s" },
    ...{ imageGCHighThresholdPercent: 85, imageGCLowThresholdPercent: 80, maxPods: 110, podPidsLimit: -1, cgroupRoot: "/" },
    ...{ evictionPressureTransitionPeriod: "5m0s", enforceNodeAllocatable: ["pods"], cgroupsPerQOS: true },
    ...{ shutdownGracePeriod: "0s", shutdownGracePeriodCriticalPods: "0s" },
    evictionHard: {
      "memory.available": "100Mi",
      "nodefs.available": "10%",
      "nodefs.inodesFree": "5%",
      "imagefs.available": "15%",
      "imagefs.inodesFree": "5%",
    },
    containerRuntimeEndpoint: "unix:///run/containerd/containerd.sock",
  });
  expect(configurationOf()).not.toHaveProperty("evictionSoft");
  expect(configurationOf()).not.toHaveProperty("staticPodPath");
});

it("[node-agent 305] reports the configured options, and no secrets", () => {
  const secret = "5ecret";
  const configuration = configurationOf(
    ...["--manifests", "/etc/manifests", "--manifest-url", `https://me:${secret}@pods.example/web?token=${secret}`],
    ...["--manifest-url-header", `x-key:${secret}`, "--cluster-dns", "10.0.0.10", "--max-parallel-image-pulls", "3"],
    ...["--eviction-hard", "memory.available<5%", "--eviction-soft", "nodefs.available<20%"],
    ...["--eviction-soft-grace-period", "nodefs.available=1m30s", "--kube-reserved", "cpu=100m,memory=256Mi"],
    ...["--shutdown-grace-period-by-pod-priority", "100=20,0=60"],
    ...["--image-maximum-gc-age", "1h30m", "--enforce-node-allocatable", "none", "--cgroups-per-qos", "false"],
  );
  expect(configuration).toMatchObject({
    ...{ staticPodPath: "/etc/manifests", staticPodURL: "https://pods.example/web", clusterDNS: ["10.0.0.10"] },
    ...{ maxParallelImagePulls: 3, serializeImagePulls: false, imageMaximumGCAge: "1h30m0s" },
    ...{ evictionHard: { "memory.available": "5%" }, evictionSoft: { "nodefs.available": "20%" } },
    ...{ evictionSoftGracePeriod: { "nodefs.available": "1m30s" }, kubeReserved: { cpu: "100m", memory: "256Mi" } },
    ...{ enforceNodeAllocatable: ["none"], cgroupsPerQOS: false },
    shutdownGracePeriodByPodPriority: [
      { priority: 100, shutdownGracePeriodSeconds: 20 },
      { priority: 0, shutdownGracePeriodSeconds: 60 },
    ],
  });
  expect(JSON.stringify(configuration)).not.toContain(secret);
});

it("[node-agent 454] rejects inconsistent shutdown periods, and accepts consistent ones", () => {
  const refused =
    (...args: readonly string[]) =>
    () =>
      configurationOf(...args);
  expect(refused("--shutdown-grace-period", "10s", "--shutdown-grace-period-critical-pods", "20s")).toThrow(
    "invalid configuration: shutdownGracePeriodCriticalPods 20s must be <= shutdownGracePeriod 10s",
  );
  expect(refused("--shutdown-grace-period", "10s", "--shutdown-grace-period-by-pod-priority", "0=10")).toThrow("Cannot specify both");
  for (const list of ["0", "0=", "=5", "0=-5", "a=5", "0=5;1=5", "2147483648=5", "0=5,"])
    expect(refused("--shutdown-grace-period-by-pod-priority", list)).toThrow("takes PRIORITY=SECONDS");
  expect(configurationOf("--shutdown-grace-period", "1m", "--shutdown-grace-period-critical-pods", "15s")).toMatchObject({
    shutdownGracePeriod: "1m0s",
    shutdownGracePeriodCriticalPods: "15s",
  });
});
