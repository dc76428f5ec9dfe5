// Would catch: a sandbox in the wrong cgroup or namespaces, a sandbox that cannot be found again, a hostname that the kernel rejects, a
// wrong DNS server, and a port that is mapped twice.
import { describe, expect, it } from "vitest";
import { podDns, PodSandboxConfigError, resolvConfProblem } from "../../../../shared/node-agent/kubelet/kuberuntime/dns-config.ts";
import type { NodeOptions } from "../../../../shared/node-agent/kubelet/types/node-options.ts";
import type { PodSpec } from "../../../../shared/node-agent/kubelet/types/pod.ts";
import { podSandboxConfig } from "../../../../shared/node-agent/kubelet/kuberuntime/sandbox-config.ts";
import { podLogDirectory } from "../../../../shared/node-agent/kubelet/types/log-paths.ts";
import type { PodSandboxConfig } from "../../../../shared/node-agent/ports/cri-types.ts";
import { containerSpec, nodePod, sidecarSpec } from "../fixtures.ts";
import type { PodOptions } from "../fixtures.ts";
import { MACHINE, OPTIONS } from "../../../harness/node/fixtures.ts";

const RESOLV_CONF =
  "# made by hand\nnameserver 8.8.8.8\nnameserver 1.1.1.1\nsearch old.example\nsearch corp.example. local.\noptions timeout:1 rotate\n";

function config(pod: PodOptions = {}, options: Partial<NodeOptions> = {}): PodSandboxConfig {
  return podSandboxConfig({
    pod: nodePod(pod),
    attempt: 2,
    options: { ...OPTIONS, ...options },
    dns: podDns(nodePod(pod), { ...OPTIONS, ...options }, RESOLV_CONF).config,
    resources: MACHINE,
  });
}

describe("podSandboxConfig", () => {
  it("the configuration of a plain pod's sandbox is complete", () => {
    expect(config({ labels: { app: "web", "io.kubernetes.pod.name": "forged" }, annotations: { note: "x" } })).toEqual({
      metadata: { name: "foo", namespace: "new", uid: "12345678", attempt: 2 },
      hostname: "foo",
      logDirectory: "/var/log/pods/new_foo_12345678",
      dnsConfig: {
        servers: ["10.1.0.10"],
        searches: ["new.svc.cluster.local", "svc.cluster.local", "cluster.local", "corp.example", "local"],
        options: ["ndots:5"],
      },
      portMappings: [],
      labels: { app: "web", "io.kubernetes.pod.name": "foo", "io.kubernetes.pod.namespace": "new", "io.kubernetes.pod.uid": "12345678" },
      annotations: { note: "x" },
      linux: {
        cgroupParent: "/kubepods/besteffort/pod12345678",
        securityContext: {
          namespaceOptions: { network: "POD", ipc: "POD", pid: "CONTAINER" },
          supplementalGroups: [],
          privileged: false,
          seccomp: { profileType: "RuntimeDefault" },
        },
        sysctls: {},
        resources: { cpuShares: 2, cpuPeriod: 100_000, cpuQuota: 0 },
      },
    });
  });

  const namespaces: { name: string; spec: Partial<PodSpec>; want: object }[] = [
    { name: "the host's network", spec: { hostNetwork: true }, want: { network: "NODE", ipc: "POD", pid: "CONTAINER" } },
    {
      name: "the host's PID namespace",
      spec: { hostPID: true, shareProcessNamespace: true },
      want: { network: "POD", ipc: "POD", pid: "NODE" },
    },
    { name: "the host's IPC namespace", spec: { hostIPC: true }, want: { network: "POD", ipc: "NODE", pid: "CONTAINER" } },
    { name: "a PID namespace shared in the pod", spec: { shareProcessNamespace: true }, want: { network: "POD", ipc: "POD", pid: "POD" } },
  ];
  for (const { name, spec, want } of namespaces)
    it(`a sandbox uses ${name}`, () => expect(config({ spec }).linux?.securityContext?.namespaceOptions).toEqual(want));

  it("a sandbox has the pod's user, groups, SELinux options and sysctls, and is privileged if any container is privileged", () => {
    const securityContext = {
      runAsUser: 65534,
      runAsGroup: 100,
      fsGroup: 2000,
      supplementalGroups: [3000, 4000],
      seLinuxOptions: { level: "s0:c1" },
      sysctls: [
        { name: "net/ipv4/conf/eth0.1/rp_filter", value: "1" },
        { name: "kernel.shm_rmid_forced", value: "0" },
      ],
    };
    const { linux } = config({
      spec: { securityContext },
      containers: ["foo1", containerSpec("foo2", { securityContext: { privileged: true } })],
    });
    expect(linux?.securityContext).toMatchObject({
      runAsUser: { value: 65534 },
      runAsGroup: { value: 100 },
      supplementalGroups: [2000, 3000, 4000],
      selinuxOptions: { level: "s0:c1" },
      privileged: true,
    });
    expect(linux?.sysctls).toEqual({ "net.ipv4.conf.eth0/1.rp_filter": "1", "kernel.shm_rmid_forced": "0" });
  });

  const long = "a".repeat(62);
  const hostnames: { name: string; pod: PodOptions; want: string | undefined }[] = [
    { name: "in the spec", pod: { spec: { hostname: "web-0", subdomain: "web" } }, want: "web-0" },
    {
      name: "with the domain if setHostnameAsFQDN is set",
      pod: { spec: { hostname: "web-0", subdomain: "web", setHostnameAsFQDN: true } },
      want: "web-0.web.new.svc.cluster.local",
    },
    { name: "without a domain if there is no subdomain", pod: { spec: { setHostnameAsFQDN: true } }, want: "foo" },
    { name: "undefined on the host network", pod: { hostNetwork: true }, want: undefined },
    { name: "of at most 63 characters", pod: { name: "b".repeat(70) }, want: "b".repeat(63) },
    { name: "without a dash or dot at its end when truncated", pod: { name: `${long.slice(1)}.-and more` }, want: long.slice(1) },
    {
      name: "in hostnameOverride, if set",
      pod: { spec: { hostname: "x", subdomain: "y", hostnameOverride: "db.example.com" } },
      want: "db.example.com",
    },
  ];
  for (const { name, pod, want } of hostnames) it(`a sandbox has the hostname ${name}`, () => expect(config(pod).hostname).toBe(want));

  it("rejects an FQDN of 65 characters and accepts one of 64", () => {
    const fqdn = (length: number): PodOptions => ({
      spec: { hostname: "h".repeat(length - ".s.new.svc.cluster.local".length), subdomain: "s", setHostnameAsFQDN: true },
    });
    expect(config(fqdn(64)).hostname).toHaveLength(64);
    expect(() => config(fqdn(65))).toThrow(PodSandboxConfigError);
    expect(() => config(fqdn(65))).toThrow("is too long (64 characters is the max, 65 characters requested)");
  });

  it("maps the ports of sidecars and regular containers, each name and value once per container", () => {
    const ports = [
      { name: "web", containerPort: 80, hostPort: 8080 },
      { name: "web", containerPort: 81 },
      { containerPort: 53, protocol: "UDP", hostIP: "127.0.0.1" },
      { containerPort: 53, protocol: "TCP" },
      { containerPort: 53 },
    ];
    const pod = {
      containers: [
        containerSpec("foo1", { ports }),
        containerSpec("foo2", { ports: [{ name: "web", containerPort: 90, protocol: "SCTP" }] }),
      ],
      initContainers: [containerSpec("init1", { ports: [{ containerPort: 1 }] }), sidecarSpec("s1", { ports: [{ containerPort: 2 }] })],
    };
    expect(config(pod).portMappings).toEqual([
      { protocol: "TCP", containerPort: 2 },
      { protocol: "TCP", containerPort: 80, hostPort: 8080 },
      { protocol: "UDP", containerPort: 53, hostIp: "127.0.0.1" },
      { protocol: "TCP", containerPort: 53 },
      { protocol: "SCTP", containerPort: 90 },
    ]);
  });

  it("passes the cgroup parent, resources and overhead", () => {
    const withResources = (cpu: string, memory: string) =>
      containerSpec("foo1", { resources: { requests: { cpu, memory }, limits: { cpu, memory } } });
    const { linux } = config({
      containers: [withResources("250m", "64Mi"), withResources("500m", "64Mi")],
      spec: { overhead: { cpu: "100m", memory: "10Mi" } },
    });
    expect(linux?.resources).toMatchObject({ cpuShares: 768, cpuQuota: 75_000, memoryLimitInBytes: 128 * 2 ** 20 });
    expect(linux?.overhead).toMatchObject({ cpuShares: 102, cpuQuota: 10_000, memoryLimitInBytes: 10 * 2 ** 20 });
  });
});

describe("podLogDirectory", () => {
  it("separates logs of pods with the same name", () => expect(podLogDirectory(nodePod())).toBe("new_foo_12345678"));
});

describe("podDns", () => {
  const cluster = ["new.svc.cluster.local", "svc.cluster.local", "cluster.local", "corp.example", "local"];
  const ofCluster = { servers: ["10.1.0.10"], searches: cluster, options: ["ndots:5"] };
  const machines = { servers: ["8.8.8.8", "1.1.1.1"], searches: ["corp.example", "local"], options: ["timeout:1", "rotate"] };
  const none = { servers: [], searches: [], options: [] };
  const dnsConfig = {
    nameservers: ["9.9.9.9", "8.8.8.8"],
    searches: ["corp.example", "mine"],
    options: [{ name: "ndots", value: "2" }, { name: "edns0" }],
  };
  const table: { name: string; spec: Partial<PodSpec>; options?: Partial<NodeOptions>; want: object }[] = [
    { name: "ClusterFirst", spec: { dnsPolicy: "ClusterFirst" }, want: ofCluster },
    { name: "no policy", spec: {}, want: ofCluster },
    { name: "Default", spec: { dnsPolicy: "Default" }, want: machines },
    { name: "ClusterFirst in the host's network", spec: { dnsPolicy: "ClusterFirst", hostNetwork: true }, want: machines },
    { name: "ClusterFirstWithHostNet", spec: { dnsPolicy: "ClusterFirstWithHostNet", hostNetwork: true }, want: ofCluster },
    { name: "ClusterFirst in a cluster without DNS", spec: { dnsPolicy: "ClusterFirst" }, options: { clusterDns: [] }, want: machines },
    {
      name: "ClusterFirst without domain",
      spec: {},
      options: { clusterDomain: "" },
      want: { ...ofCluster, searches: ["corp.example", "local"] },
    },
    { name: "None", spec: { dnsPolicy: "None" }, want: none },
    {
      name: "None with its own servers",
      spec: { dnsPolicy: "None", dnsConfig },
      want: { servers: ["9.9.9.9", "8.8.8.8"], searches: ["corp.example", "mine"], options: ["ndots:2", "edns0"] },
    },
    {
      name: "ClusterFirst with additional settings",
      spec: { dnsConfig },
      want: { servers: ["10.1.0.10", "9.9.9.9", "8.8.8.8"], searches: [...cluster, "mine"], options: ["ndots:2", "edns0"] },
    },
  ];
  for (const { name, options = {}, spec, want } of table)
    it(`a pod's DNS configuration is correct for ${name}`, () =>
      expect(podDns(nodePod({ spec }), { ...OPTIONS, ...options }, RESOLV_CONF)).toEqual({
        config: want,
        problems: [],
        lacksClusterDns: name.endsWith("without DNS"),
      }));

  it("a pod's DNS configuration is empty without a resolv.conf", () =>
    expect(podDns(nodePod({ spec: { dnsPolicy: "Default" } }), OPTIONS, "").config).toEqual(none));

  it("uses the loopback address when no resolv.conf is configured [node-agent 436]", () => {
    const options = { ...OPTIONS, hostIps: ["192.0.2.7", "2001:db8::7"] };
    const dns = (spec: Partial<PodSpec>): object => podDns(nodePod({ spec }), options, undefined).config;
    expect(dns({ dnsPolicy: "Default" })).toEqual({ servers: ["127.0.0.1", "::1"], searches: ["."], options: [] });
    expect(dns({})).toEqual({ servers: ["10.1.0.10"], searches: cluster.slice(0, 3), options: ["ndots:5"] });
  });

  const resolvConfs: { name: string; text: string; want: object }[] = [
    {
      name: "options of several lines are combined, and the last value of an option is used",
      text: "options timeout:1 rotate\noptions timeout:2 edns0",
      want: { ...none, options: ["timeout:2", "rotate", "edns0"] },
    },
    {
      name: "the last search line is used, and the root domain is omitted",
      text: "search a b\nsearch . c. d",
      want: { ...none, searches: ["c", "d"] },
    },
    {
      name: "a comment is ignored",
      text: "#nameserver 1.1.1.1\n; search x\n  nameserver  8.8.8.8  # last",
      want: { ...none, servers: ["8.8.8.8"] },
    },
  ];
  for (const { name, text, want } of resolvConfs)
    it(`parses resolv.conf: ${name} [node-agent 436]`, () =>
      expect(podDns(nodePod({ spec: { dnsPolicy: "Default" } }), OPTIONS, text).config).toEqual(want));

  it("rejects a name server without an address [node-agent 436]", () =>
    expect(() => podDns(nodePod({ spec: {} }), OPTIONS, "nameserver\n")).toThrow(PodSandboxConfigError));

  const limits: { name: string; searches: readonly string[]; domain?: string; want: string | undefined }[] = [
    {
      name: "29 domains in addition to the cluster's three",
      searches: Array.from({ length: 29 }, (_unused, index) => `d${index}`),
      want: undefined,
    },
    {
      name: "30 domains in addition to the cluster's three",
      searches: Array.from({ length: 30 }, (_unused, index) => `d${index}`),
      want: "Resolv.conf file '/r' contains search line consisting of more than 29 domains!",
    },
    {
      name: "30 domains without the cluster's",
      searches: Array.from({ length: 30 }, (_unused, index) => `d${index}`),
      domain: "",
      want: undefined,
    },
    {
      name: "a domain that is too long",
      searches: ["a".repeat(254)],
      want: 'Resolv.conf file "/r" contains a search path which length is more than allowed 253 chars!',
    },
    {
      name: "a line that is too long",
      searches: Array.from({ length: 9 }, (_unused, index) => `${index}`.repeat(250)),
      want: "Resolv.conf file '/r' contains search line which length is more than allowed 2048 chars!",
    },
  ];
  for (const { name, searches, domain = "cluster.local", want } of limits)
    it(`reports a resolv.conf that exceeds pods' limits: ${name} [node-agent 437]`, () =>
      expect(resolvConfProblem("/r", `search ${searches.join(" ")}`, domain)).toBe(want));

  const tooMuch = (searches: string[]) => podDns(nodePod({ spec: { dnsPolicy: "None", dnsConfig: { searches } } }), OPTIONS, "");
  it("keeps three name servers, and reports the omitted ones", () => {
    const { config: cut, problems } = podDns(
      nodePod({ spec: { dnsPolicy: "None", dnsConfig: { nameservers: ["1", "2", "3", "4"] } } }),
      OPTIONS,
      "",
    );
    expect(cut.servers).toEqual(["1", "2", "3"]);
    expect(problems).toEqual([
      "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: 1 2 3",
    ]);
  });
  it("keeps 32 search domains, and reports the omitted ones", () => {
    const { config: cut, problems } = tooMuch(Array.from({ length: 33 }, (_unused, index) => `d${index}`));
    expect(cut.searches).toHaveLength(32);
    expect(problems[0]).toMatch(
      /^Search Line limits were exceeded, some search paths have been omitted, the applied search line is: d0 .* d31$/u,
    );
  });
  it("omits a domain of more than 253 characters", () => expect(tooMuch(["a".repeat(254), "b"]).config.searches).toEqual(["b"]));
  it("keeps whole domains in a line of 2048 characters", () => {
    const domains = Array.from({ length: 9 }, (_unused, index) => `${index}`.repeat(250));
    expect(tooMuch(domains).config.searches).toEqual(domains.slice(0, 8));
    expect(tooMuch(domains.slice(0, 8)).problems).toEqual([]);
  });
});
