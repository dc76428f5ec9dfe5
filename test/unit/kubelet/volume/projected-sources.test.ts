// Would catch: a pod that starts without its projected sources, requests for pods without such sources, and keys that are kept for deleted
// pods.
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test, vi } from "vitest";
import { startedNode } from "../../../harness/node/node.ts";
import type { NodeHarness } from "../../../harness/node/node.ts";

const APP = { name: "app", image: "app:1" };

function projecting(...sources: readonly object[]): object {
  return { containers: [APP], volumes: [{ name: "certs", projected: { sources } }] };
}

function mountErrors(node: NodeHarness): ReadonlySet<string> {
  const events = node.requests.map(({ body }) => body as { readonly reason?: string; readonly message?: string } | undefined);
  return new Set(events.flatMap((event) => (event?.reason === "FailedMount" ? [event.message ?? ""] : [])));
}

/** Returns the agent's calls to the API server for the resources of the two sources. */
function watched(node: NodeHarness): readonly string[] {
  const calls: string[] = [];
  node.fateOf = ({ port, verb, args }) => {
    const text = `${verb} ${JSON.stringify(args)}`;
    if (port === "kube" && /clustertrustbundles|podcertificate|serviceaccounts/u.test(text)) calls.push(text);
    return "live";
  };
  return calls;
}

// The in-memory API server serves neither resource, like releases before 1.37 by default.
test("[node-agent 512] a pod with clusterTrustBundle and podCertificate sources waits if the API server serves neither", async () => {
  const node = await startedNode();
  const calls = watched(node);
  const certificate = { signerName: "a.test/s", keyType: "ED25519", keyPath: "key" };
  const bundle = { path: "ca", name: "mine", optional: true };
  const uid = await node.create("p", projecting({ clusterTrustBundle: bundle }, { podCertificate: certificate }) as never);
  // The key is generated in real time, while virtual time would advance by a minute within milliseconds.
  const failed = async (): Promise<boolean> => {
    await sleep(5);
    return mountErrors(node).size > 0;
  };
  await node.until("the mount fails", failed, 60_000);
  expect(node.isReady("p")).toBe(false);
  expect([...mountErrors(node)]).toEqual([
    'MountVolume.SetUp failed for volume "certs" : [ClusterTrustBundle projection is not supported in static kubelet mode, ' +
      "credential bundle is not issued yet: while creating initial PodCertificateRequest: the server returned 404]",
  ]);
  expect(calls.some((call) => call.includes("metadata.name=mine"))).toBe(true);
  const forget = vi.spyOn(node.agent.ports.podCertificates, "forget");
  await node.delete("p");
  await node.advance(10_000);
  expect(forget).toHaveBeenCalledWith(uid);
});

test("[node-agent 512] a pod with other projected sources causes no requests for these kinds", async () => {
  const node = await startedNode();
  const calls = watched(node);
  await node.create("p", projecting({ downwardAPI: { items: [{ path: "name", fieldRef: { fieldPath: "metadata.name" } }] } }) as never);
  await node.until("ready", () => node.isReady("p"), 5_000);
  expect(calls).toEqual([]);
});
