/**
 * Threat: a controller reference with a name that no object can have. The API server accepts any non-empty text. Who: anyone who may create
 * pods or ReplicaSets in one namespace of its own. Worst effect before such references were ignored: the applier looked up the invalid key
 * "a/b" and threw. The message was redelivered forever, its lane stopped, and the gates of every ReplicaSet and Deployment of the cluster
 * closed.
 */
import { afterEach, expect, it } from "vitest";
import { MALLORY, pod, startSmallCluster, VICTIM, workload } from "./cluster.ts";
import type { Reference, SmallCluster } from "./cluster.ts";

const NAMES = ["a/b", "/", "a/", "/b", "shop/web", "a\u001fb", "a\u0000b", "a\nb", "%2F", "..", " ", "ü€😀", "constructor", "__proto__"];

const called = (kind: string, name: string): Reference => ({
  apiVersion: kind === "ReplicationController" ? "v1" : "apps/v1",
  kind,
  name,
  uid: `uid of ${name}`,
  controller: true,
});

/** Time in ms, longer than a lane may be silent (informer §11.6). */
const SILENCE_MS = 120_000;

let cluster: SmallCluster;
afterEach(() => cluster.stop());

/** Checks that the victim's ReplicaSet follows its next change, after a time in which a blocked lane would have closed its gate. */
async function expectUnharmed(): Promise<void> {
  await cluster.advance(SILENCE_MS);
  await cluster.mergePatch(VICTIM, "replicasets", "web", { spec: { replicas: 6 } });
  await cluster.rest();
  expect(await cluster.pods(VICTIM)).toHaveLength(6);
  expect(await cluster.get(VICTIM, "replicasets", "web")).toMatchObject({ status: { replicas: 6, readyReplicas: 6 } });
}

it.each(["ReplicaSet", "ReplicationController"])(
  "pods with an owner reference to an invalid %s name start and end without affecting other objects",
  async (kind) => {
    cluster = await startSmallCluster();
    await cluster.post(VICTIM, "replicasets", workload("web", 3));
    await cluster.rest();
    const syncs = cluster.syncs().length;
    // Nodes run the pods, so that each pod is added, changes its status, and is deleted.
    for (const [i, name] of NAMES.entries()) await cluster.post(MALLORY, "pods", pod(`p-${i}`, called(kind, name)));
    await cluster.rest();
    expect((await cluster.pods(MALLORY)).map(({ status }) => status?.phase)).toEqual(NAMES.map(() => "Running"));
    for (const i of NAMES.keys()) await cluster.remove(MALLORY, "pods", `p-${i}`);
    await cluster.rest();
    expect(await cluster.pods(MALLORY)).toEqual([]);
    expect(cluster.syncs().slice(syncs)).toEqual([]);
    await expectUnharmed();
  },
);

it("ReplicaSets with an owner reference to an invalid Deployment name replace deleted pods without affecting other objects", async () => {
  cluster = await startSmallCluster();
  await cluster.post(VICTIM, "replicasets", workload("web", 3));
  for (const [i, name] of NAMES.entries()) await cluster.post(MALLORY, "replicasets", workload(`rs-${i}`, 1, called("Deployment", name)));
  await cluster.rest();
  const pods = await cluster.pods(MALLORY);
  expect(pods).toHaveLength(NAMES.length);
  for (const { metadata } of pods) await cluster.remove(MALLORY, "pods", metadata.name);
  await cluster.rest();
  expect(await cluster.pods(MALLORY)).toHaveLength(NAMES.length);
  await expectUnharmed();
  for (const i of NAMES.keys()) await cluster.remove(MALLORY, "replicasets", `rs-${i}`);
  await cluster.rest();
  expect(cluster.syncs().filter((each) => each.startsWith("deployment "))).toEqual([]);
});
