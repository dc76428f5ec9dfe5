// Would catch: an Event that says that a status could not be determined after a different error, and a failure without an Event of its own.
import { expect, test } from "vitest";
import { CriError } from "../../../../shared/node-agent/ports/cri-error.ts";
import { NodeFilesError } from "../../../../shared/node-agent/ports/node-files.ts";
import { startedNode } from "../../../harness/node/node.ts";
import type { NodeHarness } from "../../../harness/node/node.ts";

const SECONDS = 1_000;
const APP = { name: "app", image: "app:1" };
const REFUSED = new CriError("Unknown", "no");
const TROUBLE = new NodeFilesError("the disk says no");

/** Returns the reasons and messages of the sent Warnings without repetitions. */
function warnings(node: NodeHarness): readonly string[] {
  const events = node.requests.flatMap(({ path, body }) => (path.endsWith("/events") ? [body] : [])) as readonly {
    readonly type: string;
    readonly reason: string;
    readonly message: string;
  }[]; // Events
  return [...new Set(events.filter(({ type }) => type === "Warning").map(({ reason, message }) => `${reason}: ${message}`))];
}

test.each([
  { verb: "runPodSandbox", fail: REFUSED, want: "FailedCreatePodSandBox: Failed to create pod sandbox: no" },
  { verb: "makeLogDirectory", fail: TROUBLE, want: "FailedCreatePodSandBox: Failed to create pod sandbox: the disk says no" },
  { verb: "makePodDirectories", fail: TROUBLE, want: "Failed: error making pod data directories: the disk says no" },
  { verb: "podSandboxStatus", fail: REFUSED, want: "FailedPodSandBoxStatus: Unable to get pod sandbox status: no" },
  { verb: "listContainers", fail: REFUSED, want: "FailedSync: error determining status: no" },
])("[node-agent 136] emits one Warning when $verb fails: $want", async ({ verb, fail, want }) => {
  const node = await startedNode();
  let times = 0;
  node.fateOf = (call) => (call.verb === verb && ++times <= (verb === "podSandboxStatus" ? 1 : 4) ? { fail } : "live");
  await node.create("p", { containers: [APP] });
  await node.advance(8 * SECONDS);
  expect(warnings(node)).toEqual([want]);
});

test("[node-agent 136] emits only FailedKillPod for a pod that cannot be stopped", async () => {
  const node = await startedNode();
  await node.create("p", { containers: [APP] });
  await node.until("ready", () => node.isReady("p"));
  node.fateOf = ({ verb }) => (verb === "stopContainer" ? { fail: REFUSED } : "live");
  await node.delete("p");
  await node.advance(5 * SECONDS);
  expect(warnings(node).map((text) => text.split(":")[0])).toEqual(["FailedKillPod"]);
});

test("[node-agent 439] emits Events of pod and node for a cluster without DNS, and one of the pod for too many name servers", async () => {
  const node = await startedNode({ nodeOptions: { clusterDns: [] } });
  await node.create("p", { containers: [APP], dnsConfig: { nameservers: ["192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"] } });
  await node.until("ready", () => node.isReady("p"));
  await node.advance(2 * SECONDS);
  const said =
    'kubelet does not have ClusterDNS IP configured and cannot create Pod using "ClusterFirst" policy. Falling back to "Default" policy.';
  expect(warnings(node)).toEqual([
    `MissingClusterDNS: ${said}`,
    `MissingClusterDNS: pod: "p_default(${node.pod("p")?.metadata.uid})". ${said}`,
    "DNSConfigForming: Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: 192.0.2.1 192.0.2.2 192.0.2.3",
  ]);
});

test("[node-agent 443] keeps the pod waiting with an Event when its runtime class is missing or unreadable", async () => {
  const node = await startedNode();
  await node.create("p", { containers: [APP], runtimeClassName: "gvisor" });
  await node.advance(4 * SECONDS);
  expect(warnings(node)).toEqual(['FailedCreatePodSandBox: Failed to create pod sandbox: runtimeclass.node.k8s.io "gvisor" not found']);
  expect(node.pod("p")?.status?.phase).toBe("Pending");
  expect(node.calls.filter(({ verb }) => verb === "runPodSandbox")).toEqual([]);
});
