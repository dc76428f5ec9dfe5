// Would catch: a path that escapes its volume, a volume that is mounted writable despite readOnly, a hosts file that hides the container's
// own mount, and a hosts file without the pod's name or aliases.
import { describe, expect, it } from "vitest";
import { ContainerConfigError } from "../../../../shared/node-agent/kubelet/kuberuntime/environment.ts";
import type { EnvironmentVariable } from "../../../../shared/node-agent/kubelet/kuberuntime/environment.ts";
import { hostsFile } from "../../../../shared/node-agent/kubelet/kuberuntime/dns-config.ts";
import { isHostsFileManaged, planMounts } from "../../../../shared/node-agent/kubelet/kuberuntime/container-config.ts";
import type { MountInput, PlannedMount } from "../../../../shared/node-agent/kubelet/kuberuntime/container-config.ts";
import type { ContainerSpec, VolumeSpec } from "../../../../shared/node-agent/kubelet/types/pod.ts";
import { OPTIONS } from "../../../harness/node/fixtures.ts";
import { containerSpec, nodePod } from "../fixtures.ts";

type VolumeMounts = NonNullable<ContainerSpec["volumeMounts"]>;

const VOLUMES: VolumeSpec[] = [
  { name: "disk", hostPath: { path: "/mnt/disk" } },
  { name: "scratch", emptyDir: {} },
  { name: "cm", configMap: { name: "cm" } },
  { name: "s", secret: { secretName: "s" } },
  { name: "d", downwardAPI: {} },
  { name: "p", projected: { sources: [] } },
];
const PATHS = Object.fromEntries(VOLUMES.map(({ name }) => [name, `/host/${name}`]));

function given(volumeMounts: VolumeMounts, more: Partial<MountInput> & { readonly container?: ContainerSpec } = {}): MountInput {
  const container = containerSpec("foo1", { volumeMounts, terminationMessagePath: "/dev/termination-log" });
  return { pod: nodePod({ containers: [container], spec: { volumes: VOLUMES } }), container, volumePaths: PATHS, env: [], ...more };
}

function only(mounts: VolumeMounts, env: readonly EnvironmentVariable[] = []): PlannedMount | undefined {
  return planMounts(given(mounts, { env })).mounts[0];
}

function refusal(mounts: VolumeMounts, env: readonly EnvironmentVariable[] = []): string {
  try {
    planMounts(given(mounts, { env }));
  } catch (error) {
    expect(error).toBeInstanceOf(ContainerConfigError);
    return (error as ContainerConfigError).message;
  }
  return "";
}

describe("planMounts", () => {
  it("mounts volumes in spec order, then hosts file and termination log", () => {
    const mounts: VolumeMounts = [
      { name: "disk", mountPath: "/mnt/path3", readOnly: false },
      { name: "disk", mountPath: "/mnt/path4", readOnly: true, mountPropagation: "HostToContainer" },
      { name: "scratch", mountPath: "data", mountPropagation: "Bidirectional" },
    ];
    expect(planMounts(given(mounts, { hostsFile: "/root/etc-hosts", terminationLog: "/root/log" })).mounts).toEqual([
      { containerPath: "/mnt/path3", hostPath: "/host/disk", readonly: false, propagation: "PROPAGATION_PRIVATE" },
      { containerPath: "/mnt/path4", hostPath: "/host/disk", readonly: true, propagation: "PROPAGATION_HOST_TO_CONTAINER" },
      { containerPath: "/data", hostPath: "/host/scratch", readonly: false, propagation: "PROPAGATION_BIDIRECTIONAL" },
      { containerPath: "/etc/hosts", hostPath: "/root/etc-hosts" },
      { containerPath: "/dev/termination-log", hostPath: "/root/log" },
    ]);
  });

  for (const [name, want] of Object.entries({ disk: false, scratch: false, cm: true, s: true, d: true, p: true }))
    it(`mounts ${name} ${want ? "read-only" : "writable"} by default`, () =>
      expect(only([{ name, mountPath: "/x" }])?.readonly).toBe(want));

  it("mounts the termination log at its path", () => {
    const container = containerSpec("foo1", { terminationMessagePath: "/tmp/last-words" });
    expect(planMounts(given([], { container, terminationLog: "/root/log" })).mounts).toEqual([
      { containerPath: "/tmp/last-words", hostPath: "/root/log" },
    ]);
  });

  const POD_NAME = [
    { key: "POD_NAME", value: "foo" },
    { key: "EMPTY", value: "" },
    { key: "UP", value: ".." },
    { key: "ABSOLUTE", value: "/tmp" },
  ];
  const subPaths: { name: string; mount: Partial<VolumeMounts[number]>; want: string | undefined }[] = [
    { name: "a plain subPath", mount: { subPath: "a/b..c" }, want: "a/b..c" },
    { name: "an empty subPath, which mounts the whole volume", mount: { subPath: "" }, want: undefined },
    { name: "a subPath with variables, which stay unexpanded", mount: { subPath: "$(POD_NAME)" }, want: "$(POD_NAME)" },
    { name: "an expanded expression", mount: { subPathExpr: "logs/$(POD_NAME)" }, want: "logs/foo" },
    { name: "an expression with an escaped reference", mount: { subPathExpr: "$$(POD_NAME)" }, want: "$(POD_NAME)" },
  ];
  for (const { name, mount, want } of subPaths)
    it(`[node-agent 106] accepts ${name}`, () => {
      const planned = only([{ name: "scratch", mountPath: "/x", ...mount }], POD_NAME);
      expect(planned?.subPath).toEqual(want === undefined ? undefined : { volumePath: "/host/scratch", path: want });
    });

  const refusals: { name: string; mount: Partial<VolumeMounts[number]>; want: string }[] = [
    { name: "an absolute path", mount: { subPath: "/tmp" }, want: "error SubPath `/tmp` must not be an absolute path" },
    {
      name: "an absolute path from a variable",
      mount: { subPathExpr: "$(ABSOLUTE)" },
      want: "error SubPath `/tmp` must not be an absolute path",
    },
    { name: "a path with ..", mount: { subPath: "a/../../b" }, want: "unable to provision SubPath `a/../../b`: must not contain '..'" },
    {
      name: "a path with .. from a variable",
      mount: { subPathExpr: "$(UP)" },
      want: "unable to provision SubPath `..`: must not contain '..'",
    },
    {
      name: "missing and empty variables",
      mount: { subPathExpr: "$(NONE)/$(EMPTY)/$(POD_NAME)" },
      want: "missing value for EMPTY, NONE",
    },
    { name: "an unknown propagation", mount: { mountPropagation: "Sideways" }, want: 'invalid MountPropagation mode: "Sideways"' },
  ];
  for (const { name, mount, want } of refusals)
    it(`[node-agent 106] rejects ${name}`, () => expect(refusal([{ name: "scratch", mountPath: "/x", ...mount }], POD_NAME)).toBe(want));

  it("rejects a volume that is not mounted, even one with the name of an Object.prototype property", () => {
    expect(refusal([{ name: "gone", mountPath: "/x" }])).toBe('cannot find volume "gone" to mount into container "foo1"');
    expect(refusal([{ name: "constructor", mountPath: "/x" }])).toBe('cannot find volume "constructor" to mount into container "foo1"');
  });
});

describe("isHostsFileManaged", () => {
  const own = containerSpec("foo1", { volumeMounts: [{ name: "disk", mountPath: "/etc/hosts" }] });
  const other = containerSpec("foo1", { volumeMounts: [{ name: "disk", mountPath: "/etc/hostsfile" }] });
  const table = [
    { name: "on the pod network", container: other, ips: ["10.0.0.12"], want: true },
    { name: "before the pod has an address", container: other, ips: [], want: false },
    { name: "on the host network, without an address", container: other, ips: [], hostNetwork: true, want: true },
    { name: "when the container mounts its own file", container: own, ips: ["10.0.0.12"], want: false },
    { name: "when the container mounts its own file on the host network", container: own, ips: [], hostNetwork: true, want: false },
  ];
  for (const { container, hostNetwork, ips, name, want } of table)
    it(`[node-agent 104] isHostsFileManaged is ${want} ${name}`, () =>
      expect(
        isHostsFileManaged(nodePod({ containers: [container], ...(hostNetwork !== undefined && { hostNetwork }) }), container, ips),
      ).toBe(want));
});

describe("hostsFile", () => {
  const loopback =
    "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\nfe00::0\tip6-localnet\n" +
    "fe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n";
  const hostAliases = [
    { ip: "123.45.67.89", hostnames: ["foo", "bar"] },
    { ip: "456.78.90.123", hostnames: ["park"] },
  ];
  const aliases = "\n# Entries added by HostAliases.\n123.45.67.89\tfoo\tbar\n456.78.90.123\tpark\n";

  it("[node-agent 104] the hosts file contains the pod for each of its addresses", () =>
    expect(hostsFile(nodePod(), ["10.0.0.12", "fd00::12"], "machine", OPTIONS)).toBe(`${loopback}10.0.0.12\tfoo\nfd00::12\tfoo\n`));

  it("the hosts file contains the FQDN if there is a subdomain", () =>
    expect(hostsFile(nodePod({ spec: { hostname: "web-0", subdomain: "web" } }), ["10.0.0.12"], "", OPTIONS)).toBe(
      `${loopback}10.0.0.12\tweb-0.web.new.svc.cluster.local\tweb-0\n`,
    ));

  it("[node-agent 103] adds the aliases, with all names of an address in one line", () =>
    expect(hostsFile(nodePod({ spec: { hostAliases } }), ["10.0.0.12"], "", OPTIONS)).toBe(`${loopback}10.0.0.12\tfoo\n${aliases}`));

  it("[node-agent 104] on the host network, the hosts file is the node's file with another header", () =>
    expect(hostsFile(nodePod({ hostNetwork: true, spec: { hostAliases } }), ["10.0.0.12"], "127.0.0.1\tlocalhost\n", OPTIONS)).toBe(
      `# Kubernetes-managed hosts file (host network).\n127.0.0.1\tlocalhost\n${aliases}`,
    ));
});
