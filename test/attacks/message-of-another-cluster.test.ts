/**
 * Threat: a genuine message of one cluster is replayed as another cluster's. Who: anyone who may read one cluster's delta queue and send to
 * another's. Before: the cluster id was an ordinary field, so a change of one word moved one cluster's objects into another's cache.
 */
import { expect, it } from "vitest";
import { laneOf, LANES } from "../../shared/store/lane.ts";
import { cachedPod } from "../support/builders.ts";
import { payloadOf, signedBody } from "../support/signer.ts";
import { CLUSTER, startQ1Rig } from "./q1-rig.ts";

const OTHER = "0123456789ab";
const LANE = laneOf("shop/foreign", LANES.pods);

it.each([
  { name: "unchanged", disguise: (body: string) => body },
  { name: "with the first cluster id replaced by this cluster's", disguise: (body: string) => body.replace(OTHER, CLUSTER) },
  { name: "with every cluster id replaced by this cluster's", disguise: (body: string) => body.replaceAll(OTHER, CLUSTER) },
  { name: "unsigned, with this cluster's id", disguise: (body: string) => payloadOf(body).replaceAll(OTHER, CLUSTER) },
])("a genuine message of another cluster changes nothing in this cluster's cache: $name", async ({ disguise }) => {
  const rig = await startQ1Rig();
  const pod = cachedPod({ name: "foreign", resourceVersion: "900000" });
  const item = { t: "A", key: "shop/foreign", uid: pod.uid, rv: "900000", o: pod };
  const genuine = signedBody(OTHER, { ...rig.nextHead("pods", LANE), c: OTHER, g: 0, k: "D", items: [item] });
  await rig.inject(`${CLUSTER}.pods.${LANE}`, disguise(genuine));
  await rig.pass(2_000);
  expect(rig.cached()).toEqual([]);
  expect(rig.queue.size()).toBe(0);
  expect(await rig.store.forgeries()).toHaveLength(1);
});
