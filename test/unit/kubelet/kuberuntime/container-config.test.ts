// Would catch: a command that is not expanded or that wrongly hides the image's own; a container that cannot be found or stopped without
// its spec; and a container that runs as root or with more capabilities than its spec permits.
import { describe, expect, it } from "vitest";
import { containerConfig } from "../../../../shared/node-agent/kubelet/kuberuntime/container-config.ts";
import type { ContainerConfigInput } from "../../../../shared/node-agent/kubelet/kuberuntime/container-config.ts";
import { containerHash } from "../../../../shared/node-agent/kubelet/types/pod.ts";
import type { ContainerSpec, PodSpec } from "../../../../shared/node-agent/kubelet/types/pod.ts";
import { ContainerConfigError } from "../../../../shared/node-agent/kubelet/kuberuntime/environment.ts";
import { textOfBytes } from "../../../../shared/base/byte-text.ts";
import type { ContainerConfig, Image, LinuxContainerSecurityContext } from "../../../../shared/node-agent/ports/cri-types.ts";
import { containerSpec, IMAGE, nodePod } from "../fixtures.ts";
import type { PodOptions } from "../fixtures.ts";
import { MACHINE, OPTIONS } from "../../../harness/node/fixtures.ts";

const BUSYBOX: Image = { id: "sha256:abc", repoTags: [IMAGE], repoDigests: [], sizeBytes: 1, username: "", pinned: false };

interface Given {
  readonly container?: Partial<ContainerSpec>;
  readonly pod?: PodOptions;
  readonly image?: Partial<Image>;
  readonly more?: Partial<ContainerConfigInput>;
}

function config({ container: fields = {}, image = {}, more = {}, pod = {} }: Given = {}): ContainerConfig {
  const container = containerSpec("foo1", fields);
  return containerConfig({
    pod: nodePod({ containers: [container], ...pod }),
    container,
    restartCount: 3,
    image: { ...BUSYBOX, ...image },
    envs: [],
    mounts: [],
    options: OPTIONS,
    resources: MACHINE,
    ...more,
  });
}

describe("containerConfig", () => {
  it("rejects a command that references a variable whose value is not UTF-8, because CRI cannot carry it", () => {
    const envs = [{ key: "SEAL", value: textOfBytes(Buffer.from([0xff])) }];
    expect(() => config({ container: { args: ["$(SEAL)"] }, more: { envs } })).toThrow("the value of variable SEAL is not UTF-8");
  });

  it("the configuration of a plain container is complete", () => {
    const envs = [{ key: "A", value: "1" }];
    const mounts = [{ containerPath: "/x", hostPath: "/y" }];
    const { linux, ...rest } = config({ pod: { labels: { app: "web" } }, more: { envs, mounts } });
    expect(rest).toEqual({
      metadata: { name: "foo1", attempt: 3 },
      image: { image: "sha256:abc", userSpecifiedImage: IMAGE },
      command: [],
      args: [],
      envs,
      mounts,
      labels: {
        "io.kubernetes.pod.name": "foo",
        "io.kubernetes.pod.namespace": "new",
        "io.kubernetes.pod.uid": "12345678",
        "io.kubernetes.container.name": "foo1",
      },
      annotations: {
        "io.kubernetes.container.hash": containerHash({ name: "foo1", image: IMAGE }),
        "io.kubernetes.container.restartCount": "3",
        "io.kubernetes.container.terminationMessagePath": "/dev/termination-log",
        "io.kubernetes.container.terminationMessagePolicy": "File",
        "io.kubernetes.pod.terminationGracePeriod": "30",
      },
      logPath: "foo1/3.log",
      stdin: false,
      stdinOnce: false,
      tty: false,
    });
    expect(linux?.resources).toMatchObject({ cpuShares: 2, cpuQuota: 0, oomScoreAdj: 1000 });
  });

  it("stores the annotations needed to stop the container without its spec", () => {
    const preStop = { exec: { command: ["bye"] } };
    const { annotations } = config({
      container: {
        lifecycle: { preStop },
        ports: [{ name: "web", containerPort: 80 }],
        terminationMessagePath: "/tmp/last",
        terminationMessagePolicy: "FallbackToLogsOnError",
      },
      pod: { deletionTimestamp: "2026-03-01T10:00:00Z", deletionGracePeriodSeconds: 0 },
    });
    expect(annotations).toMatchObject({
      "io.kubernetes.container.terminationMessagePath": "/tmp/last",
      "io.kubernetes.container.terminationMessagePolicy": "FallbackToLogsOnError",
      "io.kubernetes.container.ports": '[{"name":"web","containerPort":80}]',
      "io.kubernetes.container.preStopHandler": JSON.stringify(preStop),
      "io.kubernetes.pod.deletionGracePeriod": "0",
    });
  });

  const commands: { id: string; name: string; spec: Partial<ContainerSpec>; command: string[]; args: string[] }[] = [
    { id: "[node-agent 105]", name: "neither command nor arguments", spec: {}, command: [], args: [] },
    { id: "[node-agent 105]", name: "arguments only", spec: { args: ["a", "b"] }, command: [], args: ["a", "b"] },
    { id: "[node-agent 105]", name: "a command only", spec: { command: ["/bin/x"] }, command: ["/bin/x"], args: [] },
    {
      id: "[node-agent 105]",
      name: "a command and arguments",
      spec: { command: ["/bin/x"], args: ["a"] },
      command: ["/bin/x"],
      args: ["a"],
    },
    {
      id: "[node-agent 106]",
      name: "variable references",
      spec: { command: ["$(SHELL)", "$$(SHELL)"], args: ["-c", "echo $(SHELL) $(NONE) $HOME"] },
      command: ["/bin/sh", "$(SHELL)"],
      args: ["-c", "echo /bin/sh $(NONE) $HOME"],
    },
  ];
  for (const { args, command, id, name, spec } of commands)
    it(`${id} passes the expected command and arguments for a spec with ${name}`, () =>
      expect(config({ container: spec, more: { envs: [{ key: "SHELL", value: "/bin/sh" }] } })).toMatchObject({ command, args }));

  it("passes terminal, stdin and working directory", () =>
    expect(config({ container: { stdin: true, stdinOnce: true, tty: true, workingDir: "/w" } })).toMatchObject({
      stdin: true,
      stdinOnce: true,
      tty: true,
      workingDir: "/w",
    }));
});

type ContainerSecurity = ContainerSpec["securityContext"];
type PodSecurity = PodSpec["securityContext"];

function security(own: ContainerSecurity, ofPod?: PodSecurity, more: Given = {}): LinuxContainerSecurityContext | undefined {
  return config({
    ...more,
    container: { ...(own && { securityContext: own }) },
    pod: { ...more.pod, spec: { ...more.pod?.spec, ...(ofPod && { securityContext: ofPod }) } },
  }).linux?.securityContext;
}

describe("security context", () => {
  it("the default security context uses the image's user, masks paths and allows privilege escalation", () => {
    const { maskedPaths, readonlyPaths, ...rest } = security(undefined) ?? {};
    expect(rest).toEqual({
      privileged: false,
      namespaceOptions: { network: "POD", ipc: "POD", pid: "CONTAINER" },
      runAsUser: { value: 0 },
      readonlyRootfs: false,
      supplementalGroups: [],
      noNewPrivs: false,
      seccomp: { profileType: "Unconfined" },
    });
    expect(maskedPaths).toEqual(expect.arrayContaining(["/proc/kcore", "/proc/keys", "/sys/firmware"]));
    expect(readonlyPaths).toEqual(["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"]);
  });

  const capabilities = { add: ["NET_ADMIN"], drop: ["ALL"] };
  const table: { id?: string; name: string; own?: ContainerSecurity; ofPod?: PodSecurity; image?: Partial<Image>; want: object }[] = [
    { id: "[node-agent 111]", name: "runAsUser of the container", own: { runAsUser: 65534 }, want: { runAsUser: { value: 65534 } } },
    {
      name: "the container's runAsUser, which overrides the pod's",
      own: { runAsUser: 1 },
      ofPod: { runAsUser: 2 },
      want: { runAsUser: { value: 1 } },
    },
    {
      name: "runAsUser and group of the pod",
      ofPod: { runAsUser: 2, runAsGroup: 3 },
      want: { runAsUser: { value: 2 }, runAsGroup: { value: 3 } },
    },
    {
      name: "the container's runAsUser 0, which overrides the pod's",
      own: { runAsUser: 0 },
      ofPod: { runAsUser: 2 },
      want: { runAsUser: { value: 0 } },
    },
    { name: "the image's user id", image: { uid: 1001 }, want: { runAsUser: { value: 1001 } } },
    { name: "the image's user name", image: { username: "www" }, want: { runAsUsername: "www" } },
    {
      name: "the spec's user, which overrides the image's user name",
      own: { runAsUser: 5 },
      image: { username: "www" },
      want: { runAsUser: { value: 5 } },
    },
    {
      name: "fsGroup and supplementalGroups",
      ofPod: { fsGroup: 2000, supplementalGroups: [3000] },
      want: { supplementalGroups: [2000, 3000] },
    },
    { id: "[node-agent 111]", name: "privileged false", own: { privileged: false }, want: { privileged: false } },
    { name: "privileged", own: { privileged: true }, want: { privileged: true } },
    {
      id: "[node-agent 111]",
      name: "a writable root filesystem",
      own: { readOnlyRootFilesystem: false },
      want: { readonlyRootfs: false },
    },
    { id: "[node-agent 103]", name: "a read-only root filesystem", own: { readOnlyRootFilesystem: true }, want: { readonlyRootfs: true } },
    {
      id: "[node-agent 111]",
      name: "no privilege escalation if forbidden",
      own: { allowPrivilegeEscalation: false },
      want: { noNewPrivs: true },
    },
    { id: "[node-agent 111]", name: "privilege escalation", own: { allowPrivilegeEscalation: true }, want: { noNewPrivs: false } },
    { name: "capabilities", own: { capabilities }, want: { capabilities: { addCapabilities: ["NET_ADMIN"], dropCapabilities: ["ALL"] } } },
    { name: "an unmasked /proc", own: { procMount: "Unmasked" }, want: { maskedPaths: [], readonlyPaths: [] } },
    {
      name: "the pod's SELinux options",
      ofPod: { seLinuxOptions: { level: "s0:c1" } },
      want: { selinuxOptions: { level: "s0:c1" } },
    },
    {
      name: "the container's SELinux options, which replace the pod's",
      own: { seLinuxOptions: { type: "spc_t", role: "r", user: "u" } },
      ofPod: { seLinuxOptions: { level: "s0:c1" } },
      want: { selinuxOptions: { type: "spc_t", role: "r", user: "u" } },
    },
    {
      name: "the pod's seccomp profile",
      ofPod: { seccompProfile: { type: "RuntimeDefault" } },
      want: { seccomp: { profileType: "RuntimeDefault" } },
    },
    {
      name: "the container's seccomp profile, which overrides the pod's",
      own: { seccompProfile: { type: "Localhost", localhostProfile: "my/p.json" } },
      ofPod: { seccompProfile: { type: "RuntimeDefault" } },
      want: { seccomp: { profileType: "Localhost", localhostRef: "/var/lib/kubelet/seccomp/my/p.json" } },
    },
    { name: "runAsNonRoot with another user", own: { runAsNonRoot: true, runAsUser: 1 }, want: { runAsUser: { value: 1 } } },
    {
      name: "runAsNonRoot with the image's non-root user",
      own: { runAsNonRoot: true },
      image: { uid: 7 },
      want: { runAsUser: { value: 7 } },
    },
    {
      name: "runAsNonRoot false, which overrides the pod's",
      own: { runAsNonRoot: false },
      ofPod: { runAsNonRoot: true },
      want: { runAsUser: { value: 0 } },
    },
  ];
  for (const { id = "", image = {}, name, ofPod, own, want } of table)
    it(`${id} has ${name}`.trim(), () => expect(security(own, ofPod, { image })).toMatchObject(want));

  it("sets a user name or a uid, never both", () => {
    expect(security(undefined, undefined, { image: { username: "www" } })).not.toHaveProperty("runAsUser");
    expect(security({ runAsUser: 5 }, undefined, { image: { username: "www" } })).not.toHaveProperty("runAsUsername");
  });

  const where = '(pod: "foo_new(12345678)", container: foo1)';
  const refusals: { name: string; own?: ContainerSecurity; ofPod?: PodSecurity; image?: Partial<Image>; want: string }[] = [
    {
      name: "runAsNonRoot for an image without a user",
      own: { runAsNonRoot: true },
      want: `container has runAsNonRoot and image will run as root ${where}`,
    },
    {
      name: "runAsNonRoot for an image with user 0",
      ofPod: { runAsNonRoot: true },
      image: { uid: 0 },
      want: `container has runAsNonRoot and image will run as root ${where}`,
    },
    {
      name: "runAsNonRoot for a spec with user 0",
      own: { runAsUser: 0 },
      ofPod: { runAsNonRoot: true },
      image: { uid: 7 },
      want: `container's runAsUser breaks non-root policy ${where}`,
    },
    {
      name: "runAsNonRoot for an image with a user name",
      own: { runAsNonRoot: true },
      image: { username: "www" },
      want: `container has runAsNonRoot and image has non-numeric user (www), cannot verify user is non-root ${where}`,
    },
    {
      name: "a Localhost seccomp profile without a file",
      own: { seccompProfile: { type: "Localhost" } },
      want: "localhostProfile must be set if seccompProfile type is Localhost.",
    },
  ];
  for (const { image = {}, name, ofPod, own, want } of refusals)
    it(`[node-agent 111] rejects ${name}`, () => {
      expect(() => security(own, ofPod, { image })).toThrow(ContainerConfigError);
      expect(() => security(own, ofPod, { image })).toThrow(want);
    });

  it("an ephemeral container shares its target's PID namespace, unless it already shares the pod's or host's", () => {
    const more = { targetContainerId: "c1" };
    expect(security(undefined, undefined, { more })?.namespaceOptions).toMatchObject({ pid: "TARGET", targetId: "c1" });
    expect(security(undefined, undefined, { more, pod: { spec: { shareProcessNamespace: true } } })?.namespaceOptions).toMatchObject({
      pid: "POD",
    });
    expect(security(undefined, undefined, { more, pod: { spec: { hostPID: true } } })?.namespaceOptions).toMatchObject({ pid: "NODE" });
  });
});
