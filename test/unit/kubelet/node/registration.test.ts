/**
 * Would catch: labels and taints that the API server does not let a node set, a cloud provider's addresses that are overwritten, and a
 * restart that reverts users' changes of a Node.
 */
import { describe, expect, it, test } from "vitest";
import { registrationOf } from "../../../../cli/node/node-registration.ts";
import { nodeBody, nodeStatus, takenOverPatch } from "../../../../shared/node-agent/kubelet/node/node-object.ts";
import type { NodeStatusInput } from "../../../../shared/node-agent/kubelet/node/node-object.ts";
import { parseNodeLabels, parseTaints } from "../../../../shared/node-agent/kubelet/node/registration.ts";
import type { NodeRegistration } from "../../../../shared/node-agent/kubelet/types/node-options.ts";
import { NOW_MS } from "../fixtures.ts";
import { FACTS, MACHINE, OPTIONS } from "../../../harness/node/fixtures.ts";

function input(registration: NodeRegistration): NodeStatusInput {
  const facts = { ...FACTS, resources: MACHINE };
  return { options: { ...OPTIONS, registration }, facts, runtimeVersion: "containerd://1.6.20", images: [], nowMs: NOW_MS };
}

describe("--node-labels [node-agent 433]", () => {
  test.each([
    { text: "", want: {} },
    { text: "a=b, disk=ssd ,empty", want: { a: "b", disk: "ssd", empty: "" } },
    { text: "example.com/pool=x=y", wrong: "invalid node labels: 'x=y' - a valid label must be an empty string or consist of" },
    {
      text: "node.kubernetes.io/pool=blue,kubelet.kubernetes.io/x=1",
      want: { "node.kubernetes.io/pool": "blue", "kubelet.kubernetes.io/x": "1" },
    },
    { text: "team.node.kubernetes.io/pool=blue", want: { "team.node.kubernetes.io/pool": "blue" } },
    {
      text: "topology.kubernetes.io/zone=z1,kubernetes.io/hostname=h",
      want: { "topology.kubernetes.io/zone": "z1", "kubernetes.io/hostname": "h" },
    },
    {
      text: "node-role.kubernetes.io/worker=,foo.k8s.io/a=1",
      wrong: "unknown 'kubernetes.io' or 'k8s.io' labels specified with --node-labels: [foo.k8s.io/a node-role.kubernetes.io/worker]\n",
    },
    { text: "-a=b", wrong: "invalid node labels: '-a' - name part must consist of alphanumeric characters" },
    { text: `${"a".repeat(64)}=b`, wrong: "name part must be no more than 63 bytes" },
    { text: "/a=b", wrong: "prefix part must be non-empty" },
    { text: "a/b/c=d", wrong: "a qualified name must consist of" },
  ])("parses --node-labels '$text', or rejects it as the kubelet does", ({ text, want, wrong }) => {
    if (wrong === undefined) expect(parseNodeLabels(text)).toEqual(want);
    else expect(() => parseNodeLabels(text)).toThrow(wrong);
  });
});

describe("--register-with-taints [node-agent 434]", () => {
  test.each([
    { text: "", want: [] },
    {
      text: "dedicated=batch:NoSchedule,broken:NoExecute,slow=:PreferNoSchedule",
      want: [
        { key: "dedicated", value: "batch", effect: "NoSchedule" },
        { key: "broken", effect: "NoExecute" },
        { key: "slow", effect: "PreferNoSchedule" },
      ],
    },
    { text: "dedicated=batch", wrong: "invalid taint spec: dedicated=batch" },
    { text: "a=b=c:NoSchedule", wrong: "invalid taint spec: a=b=c:NoSchedule" },
    { text: "a=b:Never", wrong: "invalid taint effect: Never, unsupported taint effect" },
    { text: "a=-:NoSchedule", wrong: "invalid taint spec: a=-:NoSchedule, a valid label must be" },
    { text: "a=1:NoSchedule,a=2:NoSchedule", wrong: "duplicated taints with the same key and effect: a=2:NoSchedule" },
  ])("parses --register-with-taints '$text', or rejects it as the kubelet does", ({ text, want, wrong }) => {
    if (wrong === undefined) expect(parseTaints(text)).toEqual(want);
    else expect(() => parseTaints(text)).toThrow(wrong);
  });
});

describe("a Node at registration [node-agent 435]", () => {
  const cloud: NodeRegistration = { externalCloudProvider: true };
  const hostname = { type: "Hostname", address: "n1" };
  const internal = { type: "InternalIP", address: "192.168.1.5" };

  it("a new Node has the configured labels, which override detected ones, the taints and the provider id", () => {
    const taints = parseTaints("dedicated=batch:NoSchedule");
    const node = nodeBody(input({ labels: { disk: "ssd", "kubernetes.io/hostname": "box" }, taints, providerId: "aws:///i-1" }));
    expect(node.metadata?.labels).toMatchObject({ disk: "ssd", "kubernetes.io/hostname": "box", "kubernetes.io/os": "linux" });
    expect(node.spec).toEqual({ taints, providerID: "aws:///i-1" });
  });

  it("with an external cloud provider, a new Node has the uninitialized taint, and only its hostname as an address", () => {
    const node = nodeBody(input(cloud));
    expect(node.spec?.taints).toEqual([{ key: "node.cloudprovider.kubernetes.io/uninitialized", value: "true", effect: "NoSchedule" }]);
    expect(node.status?.addresses).toEqual([hostname]);
    expect(node.metadata?.annotations).not.toHaveProperty(["alpha.kubernetes.io/provided-node-ip"]);
  });

  it("passes the given address to the cloud controller manager", () => {
    const node = nodeBody(input({ ...cloud, nodeIpGiven: true }));
    expect(node.status?.addresses).toEqual([internal, hostname]);
    expect(node.metadata?.annotations).toMatchObject({ "alpha.kubernetes.io/provided-node-ip": "192.168.1.5" });
  });

  it("a Node keeps the addresses of the cloud controller manager, or otherwise gets those of the agent", () => {
    const addresses = [{ type: "ExternalIP", address: "192.0.2.9" }];
    expect(nodeStatus({ ...input({ ...cloud, nodeIpGiven: true }), previous: { addresses } }).addresses).toEqual(addresses);
    expect(nodeStatus({ ...input({}), previous: { addresses } }).addresses).toEqual([internal, hostname]);
  });

  it("an existing Node gets default labels and annotations, and no other labels or taints", () => {
    const registration = {
      labels: { disk: "ssd", "topology.kubernetes.io/zone": "z1" },
      taints: parseTaints("a:NoSchedule"),
      providerId: "x",
    };
    expect(takenOverPatch(input(registration))).toEqual({
      metadata: {
        labels: {
          ...{ "kubernetes.io/hostname": "n1", "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64" },
          ...{ "beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "amd64", "topology.kubernetes.io/zone": "z1" },
        },
        annotations: { "volumes.kubernetes.io/controller-managed-attach-detach": "true", "alpha.kubernetes.io/provided-node-ip": null },
      },
    });
  });
});

describe("--node-ip and --cloud-provider [node-agent 438]", () => {
  const of = (...nodeIp: readonly string[]): ReturnType<typeof registrationOf> =>
    registrationOf({ nodeIp, nodeLabels: "", registerWithTaints: "", cloudProvider: "" });

  test.each([
    { given: ["10.0.0.7"], want: ["10.0.0.7"] },
    { given: ["10.0.0.7,2001:db8::7"], want: ["10.0.0.7", "2001:db8::7"] },
    { given: ["2001:db8::7", "10.0.0.7"], want: ["2001:db8::7", "10.0.0.7"] },
  ])("--node-ip $given is accepted", ({ given, want }) => {
    expect(of(...given)).toMatchObject({ hostIps: want, registration: { nodeIpGiven: true } });
  });

  test.each([
    { given: ["10.0.0"], wrong: '"10.0.0" is not an IP address' },
    { given: ["10.0.0.7,10.0.0.8"], wrong: "must contain either a single IP or a dual-stack pair of IPs" },
    { given: ["10.0.0.7", "::1", "10.0.0.8"], wrong: "must contain either a single IP or a dual-stack pair of IPs" },
    { given: ["0.0.0.0,::1"], wrong: "dual-stack IPs cannot include '0.0.0.0' or '::'" },
  ])("--node-ip $given is rejected", ({ given, wrong }) => expect(() => of(...given)).toThrow(wrong));

  it("rejects an unknown cloud provider, and invalid labels with upstream's message", () => {
    const flags = { nodeIp: ["10.0.0.7"], nodeLabels: "", registerWithTaints: "", cloudProvider: "aws" };
    expect(() => registrationOf(flags)).toThrow('unsupported cloud provider name "aws"');
    expect(() => registrationOf({ ...flags, cloudProvider: "external", nodeLabels: "-a=b" })).toThrow("invalid node labels");
  });
});
