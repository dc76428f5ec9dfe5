/**
 * Threat: an object, or a set of object names, makes the watcher build a message that SQS rejects. Who: anyone who may create objects in
 * one namespace. Before: a ReplicaSet whose owner's name was 515,000 Chinese characters (1.5 MB, which the API server accepts) led to a
 * message of 1.6 MB, which the watcher resent forever. Its lane stopped, after a minute every gate closed, and the gates stayed closed even
 * after the object was deleted. The manifest of a lane with 4,000 objects, whose names a tenant can choose, was just as large, and no list
 * could complete.
 */
import { afterEach, expect, it } from "vitest";
import { createSeededRandom } from "../../shared/base/memory/random.ts";
import { laneOf, LANES } from "../../shared/store/lane.ts";
import { MALLORY, startSmallCluster, TEMPLATE, VICTIM, workload } from "./cluster.ts";
import type { SmallCluster } from "./cluster.ts";

const NAME_CHARACTERS_MAX = 253;
/** Time in ms, far longer than a lane may be silent before every gate closes. */
const LONG_MS = 180_000;

let cluster: SmallCluster;
afterEach(() => cluster.stop());

it("a ReplicaSet with an owner name of 515,000 Chinese characters does not block other objects, even after its deletion", async () => {
  cluster = await startSmallCluster();
  await cluster.post(VICTIM, "replicasets", workload("web", 3));
  await cluster.rest();
  expect(await cluster.pods(VICTIM)).toHaveLength(3);
  const random = createSeededRandom(1);
  const name = Array.from({ length: 515_000 }, () => String.fromCharCode(0x3400 + Math.floor(random.next() * 0x6000))).join("");
  const { spec } = workload("evil", 2) as { readonly spec: object };
  const ownerReferences = [{ apiVersion: "example.com/v1", kind: "Foo", name, uid: "u" }];
  await cluster.post(MALLORY, "replicasets", { metadata: { name: "evil", ownerReferences }, spec });
  await cluster.advance(LONG_MS);
  await cluster.mergePatch(VICTIM, "replicasets", "web", { spec: { replicas: 6 } });
  await cluster.rest();
  expect(await cluster.pods(VICTIM)).toHaveLength(6);
  // The tenant's ReplicaSet works like any other, because the applier reads it live.
  expect(await cluster.pods(MALLORY)).toHaveLength(2);
  await cluster.remove(MALLORY, "replicasets", "evil");
  await cluster.advance(LONG_MS);
  await cluster.mergePatch(VICTIM, "replicasets", "web", { spec: { replicas: 2 } });
  await cluster.rest();
  expect(await cluster.pods(VICTIM)).toHaveLength(2);
});

it("a list completes although 4,800 objects with names of maximum length are in one lane", async () => {
  cluster = await startSmallCluster({
    // The pods are bound to a missing node, so that no node runs them.
    before: async (post) => {
      for (const name of namesOfOneLane(4_800))
        await post(MALLORY, "pods", { metadata: { name }, spec: { ...TEMPLATE.spec, nodeName: "nowhere" } });
    },
  });
  await cluster.post(VICTIM, "replicasets", workload("web", 3));
  await cluster.rest();
  expect(await cluster.pods(VICTIM)).toHaveLength(3);
});

function namesOfOneLane(count: number): readonly string[] {
  const random = createSeededRandom(2);
  const names: string[] = [];
  while (names.length < count) {
    let start = "";
    while (start.length < NAME_CHARACTERS_MAX - 2)
      start += Math.floor(random.next() * 36 ** 10)
        .toString(36)
        .padStart(10, "0");
    start = start.slice(0, NAME_CHARACTERS_MAX - 2);
    for (let end = 36; end < 36 * 36; end++) {
      const name = start + end.toString(36);
      if (laneOf(`${MALLORY}/${name}`, LANES.pods) !== 3) continue;
      names.push(name);
      break;
    }
  }
  return names;
}
