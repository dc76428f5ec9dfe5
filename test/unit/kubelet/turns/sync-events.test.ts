// Would catch: an Event that says that a status could not be determined when something else went wrong, and a failure without its own.
import { expect, test } from "vitest";
import { CriError } from "../../../../shared/ports/cri-error.ts";
import { NodeFilesError } from "../../../../shared/ports/node-files.ts";
import { startedNode as node } from "../../../harness/node/node.ts";
import type { NodeRig } from "../../../harness/node/node.ts";

const SECONDS = 1_000;
const APP = { name: "app", image: "app:1" };
const REFUSED = new CriError("Unknown", "no");
const TROUBLE = new NodeFilesError("the disk says no");

/** Reasons and messages of the Warnings that were sent, each once. */
function warnings(rig: NodeRig): readonly string[] {
  const events = rig.requests.flatMap(({ path, body }) => (path.endsWith("/events") ? [body] : [])) as readonly {
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
])("[node-agent 136] $verb fails: one Warning, $want", async ({ verb, fail, want }) => {
  const rig = await node();
  let times = 0;
  rig.fateOf = (call) => (call.verb === verb && ++times <= (verb === "podSandboxStatus" ? 1 : 4) ? { fail } : "live");
  await rig.create("p", { containers: [APP] });
  await rig.advance(8 * SECONDS);
  expect(warnings(rig)).toEqual([want]);
});

test("[node-agent 136] a pod that cannot be stopped: only that is said", async () => {
  const rig = await node();
  await rig.create("p", { containers: [APP] });
  await rig.until("ready", () => rig.isReady("p"));
  rig.fateOf = ({ verb }) => (verb === "stopContainer" ? { fail: REFUSED } : "live");
  await rig.delete("p");
  await rig.advance(5 * SECONDS);
  expect(warnings(rig).map((text) => text.split(":")[0])).toEqual(["FailedKillPod"]);
});

test("[node-agent 439] a cluster without DNS is told to pod and node, a name server too many to the pod", async () => {
  const rig = await node({ nodeOptions: { clusterDns: [] } });
  await rig.create("p", { containers: [APP], dnsConfig: { nameservers: ["192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"] } });
  await rig.until("ready", () => rig.isReady("p"));
  await rig.advance(2 * SECONDS);
  const said =
    'kubelet does not have ClusterDNS IP configured and cannot create Pod using "ClusterFirst" policy. Falling back to "Default" policy.';
  expect(warnings(rig)).toEqual([
    `MissingClusterDNS: ${said}`,
    `MissingClusterDNS: pod: "p_default(${rig.pod("p")?.metadata.uid})". ${said}`,
    "DNSConfigForming: Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: 192.0.2.1 192.0.2.2 192.0.2.3",
  ]);
});

test("[node-agent 443] a runtime class that is not there, or that nobody can look up: the pod waits, and it is said", async () => {
  const rig = await node();
  await rig.create("p", { containers: [APP], runtimeClassName: "gvisor" });
  await rig.advance(4 * SECONDS);
  expect(warnings(rig)).toEqual(['FailedCreatePodSandBox: Failed to create pod sandbox: runtimeclass.node.k8s.io "gvisor" not found']);
  expect(rig.pod("p")?.status?.phase).toBe("Pending");
  expect(rig.calls.filter(({ verb }) => verb === "runPodSandbox")).toEqual([]);
});
