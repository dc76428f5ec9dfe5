// Would catch: addresses in the wrong order or family, and a pod that loses its address before it has ended.
import { expect, it } from "vitest";
import { hostAddresses, podAddresses } from "../../../../shared/node-agent/kubelet/status/generate-status.ts";
import { nodePod, NOTHING, observed, sandbox } from "../fixtures.ts";

const V4 = "10.0.0.1";
const V6 = "fd00::1";

it.each([
  { hostIps: [], want: {} },
  { hostIps: [V4], want: { hostIP: V4, hostIPs: [{ ip: V4 }] } },
  { hostIps: [V6, V4], want: { hostIP: V6, hostIPs: [{ ip: V6 }, { ip: V4 }] } },
])("[node-agent 101] a pod on a node with $hostIps reports $want", ({ hostIps, want }) => expect(hostAddresses(hostIps)).toEqual(want));

const runtime: readonly { name: string; hostIps: readonly string[]; ips: readonly string[]; want: readonly string[] }[] = [
  { name: "a single address", hostIps: [V4], ips: ["10.1.0.5"], want: ["10.1.0.5"] },
  {
    name: "the first address of each family, the node's primary family first",
    hostIps: [V4],
    ips: ["fd00::5", "10.1.0.5", "10.1.0.6"],
    want: ["10.1.0.5", "fd00::5"],
  },
  { name: "a node of the other address family", hostIps: [V6, V4], ips: ["10.1.0.5", "fd00::5"], want: ["fd00::5", "10.1.0.5"] },
  { name: "only the other address family", hostIps: [V6], ips: ["10.1.0.5"], want: ["10.1.0.5"] },
  { name: "a node without addresses", hostIps: [], ips: ["fd00::5", "10.1.0.5"], want: ["10.1.0.5", "fd00::5"] },
];
it.each(runtime)("returns the addresses of a sandbox: $name", ({ hostIps, ips: [ip = "", ...additionalIps], want }) => {
  const current = observed({ sandboxes: [sandbox({ network: { ip, additionalIps } })] });
  const { podIP, podIPs } = podAddresses({ pod: nodePod(), observed: current, hostIps, previous: [{ ip: "10.9.9.9" }] });
  expect([podIP, podIPs]).toEqual([want[0], want.map((one) => ({ ip: one }))]);
});

const host: readonly { name: string; hostIps: readonly string[]; previous: readonly string[]; want: readonly string[] }[] = [
  { name: "takes the node's addresses", hostIps: [V4, V6], previous: [], want: [V4, V6] },
  { name: "keeps its addresses", hostIps: ["10.0.0.2"], previous: [V4], want: [V4] },
  { name: "gets an address of the second family later", hostIps: [V4, V6], previous: [V4], want: [V4, V6] },
  { name: "gets no second address of the same family", hostIps: [V4, "10.0.0.2"], previous: [V4], want: [V4] },
];
it.each(host)("a pod on the host's network $name", ({ hostIps, previous, want }) => {
  const pod = nodePod({ hostNetwork: true });
  const { podIP, podIPs } = podAddresses({ pod, observed: NOTHING, hostIps, previous: previous.map((ip) => ({ ip })) });
  expect([podIP, podIPs]).toEqual([want[0], want.map((ip) => ({ ip }))]);
});

it("a pod keeps its address while no sandbox is READY, and loses it if a READY sandbox has no address", () => {
  const previous = [{ ip: "10.1.0.5" }];
  const dead = observed({ sandboxes: [sandbox({ state: "SANDBOX_NOTREADY" })] });
  expect(podAddresses({ pod: nodePod(), observed: dead, hostIps: [V4], previous })).toEqual({ podIP: "10.1.0.5", podIPs: previous });
  const bare = observed({ sandboxes: [sandbox({ network: { ip: "", additionalIps: [] } })] });
  expect(podAddresses({ pod: nodePod(), observed: bare, hostIps: [V4], previous })).toEqual({});
});
