// Would catch: a volume in the wrong place, or on disk instead of in memory; an ignored volume; and a tmpfs without a size limit.
import { describe, expect, it } from "vitest";
import type { VolumeSpec } from "../../../../shared/node-agent/kubelet/types/pod.ts";
import { fsGroupOf, volumePlans } from "../../../../shared/node-agent/kubelet/volume/volumes.ts";
import type { VolumePlan } from "../../../../shared/node-agent/kubelet/volume/volumes.ts";
import { containerSpec, nodePod, sidecarSpec } from "../fixtures.ts";

const MI = 1024 * 1024;
const withMemory = (name: string, memory: string) => containerSpec(name, { resources: { limits: { memory } } });

describe("volumePlans", () => {
  const emptyDir = { name: "v", plugin: "kubernetes.io~empty-dir", kind: "emptyDir" } as const;
  const table: { name: string; volume: Omit<VolumeSpec, "name">; want: VolumePlan }[] = [
    { name: "[node-agent 110] an emptyDir", volume: { emptyDir: {} }, want: emptyDir },
    { name: "a volume without a source, which is an emptyDir", volume: {}, want: emptyDir },
    {
      name: "an emptyDir with a size limit, which eviction enforces",
      volume: { emptyDir: { sizeLimit: "1.5Mi" } },
      want: { ...emptyDir, sizeLimitBytes: 1.5 * MI },
    },
    {
      name: "[node-agent 110] an emptyDir in memory",
      volume: { emptyDir: { medium: "Memory", sizeLimit: "64Mi" } },
      want: { ...emptyDir, medium: "Memory", sizeLimitBytes: 64 * MI },
    },
    {
      name: "an emptyDir in memory without a limit",
      volume: { emptyDir: { medium: "Memory" } },
      want: { ...emptyDir, medium: "Memory" },
    },
    {
      name: "[node-agent 110] a hostPath of a type",
      volume: { hostPath: { path: "/srv", type: "DirectoryOrCreate" } },
      want: { name: "v", plugin: "kubernetes.io~host-path", kind: "hostPath", path: "/srv", type: "DirectoryOrCreate" },
    },
    {
      name: "a hostPath without a type check",
      volume: { hostPath: { path: "/srv" } },
      want: { name: "v", plugin: "kubernetes.io~host-path", kind: "hostPath", path: "/srv", type: "" },
    },
    {
      name: "[node-agent 108] a ConfigMap, which may be stored on disk",
      volume: { configMap: { name: "c" } },
      want: { name: "v", plugin: "kubernetes.io~configmap", kind: "payload", tmpfs: false },
    },
    {
      name: "[node-agent 108] a Secret, which is never stored on disk",
      volume: { secret: { secretName: "s" } },
      want: { name: "v", plugin: "kubernetes.io~secret", kind: "payload", tmpfs: true },
    },
    {
      name: "the pod's fields",
      volume: { downwardAPI: { items: [] } },
      want: { name: "v", plugin: "kubernetes.io~downward-api", kind: "payload", tmpfs: true },
    },
    {
      name: "[node-agent 109] several sources in one volume, one of them a token",
      volume: { projected: { sources: [{ serviceAccountToken: { path: "token" } }, { configMap: { name: "c" } }] } },
      want: { name: "v", plugin: "kubernetes.io~projected", kind: "payload", tmpfs: true },
    },
    {
      name: "a PersistentVolumeClaim, which is not supported",
      volume: { persistentVolumeClaim: { claimName: "c" } },
      want: {
        name: "v",
        plugin: "",
        kind: "unsupported",
        message: "volume type persistentVolumeClaim is not supported by this node agent",
      },
    },
    {
      name: "an image, which is not supported",
      volume: { image: { reference: "x" } },
      want: { name: "v", plugin: "", kind: "unsupported", message: "volume type image is not supported by this node agent" },
    },
    {
      name: "huge pages, which are not supported",
      volume: { emptyDir: { medium: "HugePages-2Mi" } },
      want: { name: "v", plugin: "", kind: "unsupported", message: "emptyDir medium HugePages-2Mi is not supported by this node agent" },
    },
    {
      name: "[node-agent 512] trust bundles and certificates in a projected volume, which is never stored on disk",
      volume: {
        projected: {
          sources: [{ clusterTrustBundle: { path: "ca" } }, { podCertificate: { signerName: "a.test/s", keyType: "ED25519" } }],
        },
      },
      want: { name: "v", plugin: "kubernetes.io~projected", kind: "payload", tmpfs: true },
    },
    {
      name: "a projected source of an unknown type, which is not supported",
      // The field does not exist.
      volume: { projected: { sources: [{ secret: { name: "s" } }, { moon: { path: "ca" } } as object] } },
      want: { name: "v", plugin: "", kind: "unsupported", message: "projected source moon is not supported by this node agent" },
    },
  ];
  it.each(table)("a volume plan: $name", ({ volume, want }) => {
    expect(volumePlans(nodePod({ spec: { volumes: [{ name: "v", ...volume }] } }))).toEqual([want]);
  });

  it("keeps the order of the spec, and is empty for a pod without volumes", () => {
    const volumes = [{ name: "b" }, { name: "a", hostPath: { path: "/a" } }];
    expect(volumePlans(nodePod({ spec: { volumes } })).map(({ name }) => name)).toEqual(["b", "a"]);
    expect(volumePlans(nodePod())).toEqual([]);
  });

  const boundTable: { name: string; sizeLimit?: string; pod: Parameters<typeof nodePod>[0]; allocatableMi?: number; wantMi: number }[] = [
    {
      name: "its own limit, if that is the smallest",
      sizeLimit: "1Mi",
      pod: { containers: [withMemory("a", "4Mi")] },
      allocatableMi: 9,
      wantMi: 1,
    },
    {
      name: "the pod's limit, if that is the smallest",
      sizeLimit: "5Mi",
      pod: { containers: [withMemory("a", "4Mi")] },
      allocatableMi: 9,
      wantMi: 4,
    },
    {
      name: "the node's allocatable memory, if that is the smallest",
      sizeLimit: "5Mi",
      pod: { containers: [withMemory("a", "4Mi")] },
      allocatableMi: 3,
      wantMi: 3,
    },
    { name: "the sum of the containers' limits", pod: { containers: [withMemory("a", "4Mi"), withMemory("b", "2Mi")] }, wantMi: 6 },
    {
      name: "the node's allocatable memory if a container has no limit",
      pod: { containers: [withMemory("a", "4Mi"), "b"] },
      allocatableMi: 9,
      wantMi: 9,
    },
    {
      name: "the limits of an init container and the sidecar before it, if their sum is larger",
      pod: {
        containers: [withMemory("a", "4Mi")],
        initContainers: [sidecarSpec("s", { resources: { limits: { memory: "1Mi" } } }), withMemory("i", "8Mi"), withMemory("j", "2Mi")],
      },
      wantMi: 9,
    },
    {
      name: "the limits of containers and sidecars plus the overhead",
      pod: {
        containers: [withMemory("a", "4Mi")],
        initContainers: [sidecarSpec("s", { resources: { limits: { memory: "1Mi" } } })],
        spec: { overhead: { memory: "2Mi" } },
      },
      wantMi: 7,
    },
  ];
  it.each(boundTable)("limits an in-memory volume to $name", ({ sizeLimit, pod, allocatableMi, wantMi }) => {
    const volumes = [{ name: "v", emptyDir: { medium: "Memory", ...(sizeLimit !== undefined && { sizeLimit }) } }];
    const plans = volumePlans(
      nodePod({ ...pod, spec: { ...pod?.spec, volumes } }),
      allocatableMi === undefined ? undefined : allocatableMi * MI,
    );
    expect(plans).toEqual([
      { name: "v", plugin: "kubernetes.io~empty-dir", kind: "emptyDir", medium: "Memory", sizeLimitBytes: wantMi * MI },
    ]);
  });
});

it("returns the pod's fsGroup", () => {
  expect(fsGroupOf(nodePod({ spec: { securityContext: { fsGroup: 2000 } } }))).toBe(2000);
  expect(fsGroupOf(nodePod())).toBeUndefined();
});
