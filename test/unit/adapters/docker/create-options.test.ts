/** Docker's create options for pods and containers. */
import type Docker from "dockerode";
import { describe, expect, it } from "vitest";

import { containerOptions, sandboxOptions, updateOptions } from "../../../../shared/docker/create-options.ts";
import type { Machine } from "../../../../shared/docker/create-options.ts";
import { containerRecord, sandboxRecord, readContainer } from "../../../../shared/docker/records.ts";
import { createImages } from "../../../../shared/docker/images.ts";
import { textOfBytes } from "../../../../shared/base/byte-text.ts";
import type { ContainerConfig, LinuxContainerResources, PodSandboxConfig } from "../../../../shared/node-agent/ports/cri-types.ts";

const MACHINE: Machine = { oomScoreAdjMin: -1000 };
const SANDBOX: PodSandboxConfig = {
  metadata: { name: "web", namespace: "shop", uid: "u1", attempt: 2 },
  hostname: "web",
  logDirectory: "/logs/shop_web_u1/",
  linux: { cgroupParent: "/kubepods/podu1" },
};
const CONTAINER: ContainerConfig = { metadata: { name: "main", attempt: 1 }, image: { image: "sha256:1f" }, logPath: "main/1.log" };

type Security = NonNullable<NonNullable<ContainerConfig["linux"]>["securityContext"]>;

function container(config: Partial<ContainerConfig>, machine = MACHINE, sandbox = SANDBOX) {
  const whole = { ...CONTAINER, ...config };
  return containerOptions(whole, sandbox, containerRecord("5a", whole, sandbox, 7), machine);
}
function secured(securityContext: Security, machine = MACHINE) {
  return container({ linux: { securityContext } }, machine).HostConfig;
}
function sandbox(securityContext: NonNullable<NonNullable<PodSandboxConfig["linux"]>["securityContext"]>, machine = MACHINE) {
  const config = { ...SANDBOX, linux: { ...SANDBOX.linux, securityContext, sysctls: { "net.x": "1" } } };
  return sandboxOptions(config, sandboxRecord(config, 7), { image: "pause", machine });
}

describe("create options of a container [node-agent 407]", () => {
  it("a container keeps the image's command and arguments by default", () => {
    expect([container({ command: [], args: [] }).Entrypoint, container({ command: [], args: [] }).Cmd]).toEqual([undefined, undefined]);
    expect(container({ command: ["a"], args: ["b"] })).toMatchObject({ Entrypoint: ["a"], Cmd: ["b"] });
  });

  it("reports the variable whose value is not UTF-8, because Docker's JSON would change it", () => {
    const envs = [
      { key: "A", value: "é" },
      { key: "SEAL", value: textOfBytes(Buffer.from([0xff, 0x61])) },
    ];
    expect(container({ envs: envs.slice(0, 1) }).Env).toEqual(["A=é"]);
    expect(() => container({ envs })).toThrow("the value of environment variable SEAL is not valid UTF-8");
  });

  it("reports the registry whose password is not UTF-8", async () => {
    const { pullImage } = createImages({} as Docker); // rejected before Docker is called
    const auth = { auth: Buffer.from([0x6d, 0x65, 0x3a, 0xff]).toString("base64"), serverAddress: "r.test" };
    await expect(pullImage({ image: "r.test/i:1" }, { auth })).rejects.toThrow("the password for registry r.test is not valid UTF-8");
  });

  it("a container joins the sandbox's namespaces, has a sibling cgroup of the sandbox's, and logs to Docker's own file", () => {
    expect(container({}).HostConfig).toMatchObject({
      NetworkMode: "container:5a",
      IpcMode: "container:5a",
      PidMode: "",
      UTSMode: "",
      CgroupParent: "/kubepods/podu1",
      LogConfig: { Type: "json-file", Config: { "max-size": "10m", "max-file": "5" } },
    });
    const slice = { ...SANDBOX, linux: { cgroupParent: "/kubepods.slice/kubepods-podu1.slice" } };
    expect(container({}, MACHINE, slice).HostConfig).toMatchObject({ CgroupParent: "kubepods-podu1.slice" });
  });

  const namespaces = [
    { name: "its own PID namespace", given: { pid: "CONTAINER" }, want: { PidMode: "" } },
    { name: "the pod's PID namespace", given: { pid: "POD" }, want: { PidMode: "container:5a" } },
    { name: "the node's PID namespace", given: { pid: "NODE" }, want: { PidMode: "host" } },
    { name: "another container's PID namespace", given: { pid: "TARGET", targetId: "77" }, want: { PidMode: "container:77" } },
    { name: "the node's network", given: { network: "NODE" }, want: { NetworkMode: "container:5a", UTSMode: "host" } },
    { name: "the node's IPC namespace", given: { ipc: "NODE" }, want: { IpcMode: "host" } },
  ] as const;
  it.each(namespaces)("a container uses $name", ({ given, want }) => expect(secured({ namespaceOptions: given })).toMatchObject(want));

  it("a container runs with the user, groups, capabilities and other settings of its security context", () => {
    const security: Security = {
      runAsUser: { value: 1 },
      runAsGroup: { value: 2 },
      supplementalGroups: [3, 4],
      capabilities: { addCapabilities: ["NET_ADMIN"], dropCapabilities: ["ALL"] },
      readonlyRootfs: true,
      noNewPrivs: true,
      maskedPaths: ["/proc/kcore"],
      readonlyPaths: [],
      seccomp: { profileType: "RuntimeDefault" },
      selinuxOptions: { type: "t", level: "s0" },
    };
    expect(container({ linux: { securityContext: security } })).toMatchObject({
      User: "1:2",
      HostConfig: {
        GroupAdd: ["3", "4"],
        CapAdd: ["NET_ADMIN"],
        CapDrop: ["ALL"],
        ReadonlyRootfs: true,
        Privileged: false,
        SecurityOpt: ["no-new-privileges", "label=type:t", "label=level:s0"],
        MaskedPaths: ["/proc/kcore"],
        ReadonlyPaths: [],
      },
    });
    expect(container({ linux: { securityContext: { runAsUsername: "nobody" } } }).User).toBe("nobody");
    expect(container({ linux: { securityContext: { runAsGroup: { value: 2 } } } }).User).toBeUndefined();
  });

  it("sets the seccomp profile, and masks no paths of a privileged container", () => {
    expect(secured({ seccomp: { profileType: "Unconfined" } })?.SecurityOpt).toEqual(["seccomp=unconfined"]);
    const profile = { ...MACHINE, seccompProfile: '{"a":1}' };
    expect(secured({ seccomp: { profileType: "Localhost", localhostRef: "/p" } }, profile)?.SecurityOpt).toEqual(['seccomp={"a":1}']);
    expect(secured({ privileged: true, maskedPaths: ["/proc/kcore"] })).toMatchObject({ Privileged: true, MaskedPaths: [] });
  });

  it("sets a container's mounts, with colons in paths", () => {
    const mounts = [
      { hostPath: "/a:b", containerPath: "/c", readonly: true, propagation: "PROPAGATION_HOST_TO_CONTAINER" },
      { hostPath: "/d", containerPath: "/e" },
    ] as const;
    expect(container({ mounts }).HostConfig?.Mounts).toEqual([
      { Type: "bind", Source: "/a:b", Target: "/c", ReadOnly: true, BindOptions: { Propagation: "rslave" } },
      { Type: "bind", Source: "/d", Target: "/e", ReadOnly: false, BindOptions: { Propagation: "rprivate" } },
    ]);
  });

  it("sets a container's limits, allows no swap, and sets no oom_score_adj below the permitted minimum", () => {
    const resources = { cpuShares: 2, cpuPeriod: 100_000, cpuQuota: 5, memoryLimitInBytes: 9, oomScoreAdj: -997 };
    const host = { CpuShares: 2, CpuPeriod: 100_000, CpuQuota: 5, Memory: 9, MemorySwap: 9, OomScoreAdj: -997 };
    expect(container({ linux: { resources } }).HostConfig).toMatchObject(host);
    expect(container({ linux: { resources } }, { oomScoreAdjMin: 3 }).HostConfig?.OomScoreAdj).toBe(3);
    expect(updateOptions({ cpuShares: 4, cpuQuota: 0, memoryLimitInBytes: 0 })).toEqual({ CpuShares: 4 });
  });

  const refused: readonly { readonly name: string; readonly resources: LinuxContainerResources; readonly words: string }[] = [
    { name: "huge pages", resources: { hugepageLimits: [{ pageSize: "2MB", limit: 1 }] }, words: "huge pages" },
    { name: "memory.oom.group", resources: { unified: { "memory.oom.group": "1" } }, words: "--single-process-oom-kill" },
    { name: "another cgroup v2 setting", resources: { unified: { "memory.high": "1" } }, words: "memory.high" },
  ];
  it.each(refused)("rejects a setting that Docker does not support: $name", ({ resources, words }) => {
    expect(() => container({ linux: { resources } })).toThrow(words);
    expect(() => container({ linux: { resources: { hugepageLimits: [{ pageSize: "2MB", limit: 0 }] } } })).not.toThrow();
  });
});

describe("create options of a sandbox [node-agent 407]", () => {
  it("a sandbox leaves the network to CNI, and has namespaces that containers can join", () => {
    expect(sandbox({})).toMatchObject({
      Image: "pause",
      Hostname: "web",
      HostConfig: {
        NetworkMode: "none",
        UTSMode: "",
        IpcMode: "shareable",
        PidMode: "",
        CpuShares: 2,
        OomScoreAdj: -998,
        Sysctls: { "net.x": "1" },
      },
    });
    expect(sandbox({}, { oomScoreAdjMin: 0 }).HostConfig?.OomScoreAdj).toBe(0);
  });

  it("a sandbox uses the node's namespaces, without a hostname, if the pod requests them", () => {
    const all = sandbox({ namespaceOptions: { network: "NODE", pid: "NODE", ipc: "NODE" } });
    expect(all.HostConfig).toMatchObject({ NetworkMode: "host", UTSMode: "host", IpcMode: "host", PidMode: "host" });
    expect(all.Hostname).toBeUndefined();
  });
});

describe("the stored record of a container [node-agent 408]", () => {
  const labels = container({ labels: { app: "web" }, annotations: { note: "kept" } }).Labels ?? {};

  it("a container's record is read from the agent's own label, whatever labels the image has", () => {
    const mixed = { ...labels, "annotation.io.kubernetes.container.preStopHandler": "{}", "image.says": "x" };
    expect(readContainer("/k8s_main_web_shop_u1_1", mixed)).toEqual({
      metadata: { name: "main", attempt: 1 },
      podSandboxId: "5a",
      labels: { app: "web" },
      annotations: { note: "kept" },
      createdAtMs: 7,
      image: "sha256:1f",
      logPath: "/logs/shop_web_u1/main/1.log",
    });
  });

  it("ignores containers with another name or type, or without a record", () => {
    expect(readContainer("/mine", labels)).toBeUndefined();
    expect(readContainer("/k8s_main_web_shop_u1_1", { ...labels, "io.kubernetes.docker.type": "podsandbox" })).toBeUndefined();
    expect(readContainer("/k8s_main_web_shop_u1_1", { "io.kubernetes.docker.type": "container" })).toBeUndefined();
  });
});
