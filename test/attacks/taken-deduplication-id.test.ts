/**
 * Threat: SQS drops a genuine message because its deduplication id was used before. Who: anyone who may send to the delta queue, since the
 * ids are cluster, resource, lane, epoch, fence and sequence. A MAC does not help, because the message never arrives, but the gap in the
 * sequence numbers reveals the loss: the gate closes within seconds, and after a minute the watcher raises the fence, which changes the
 * ids, and relists.
 */
import { expect, it } from "vitest";
import { laneOf, LANES } from "../../shared/store/lane.ts";
import { CLUSTER, startQ1Rig } from "./q1-rig.ts";

const LANE = laneOf("shop/swallowed", LANES.pods);
const GROUP = `${CLUSTER}.pods.${LANE}`;
/** Limit in ms: the lane's next heartbeat reveals the gap, which must then last for a minute. */
const MENDED_MS_MAX = 85_000;

it("nothing is lost if SQS drops a message as a duplicate: the watcher raises the fence and lists again", async () => {
  const rig = await startQ1Rig();
  const fence = rig.fence();
  const { e, f, sq } = rig.nextHead("pods", LANE);
  await rig.inject(GROUP, "whatever", `${GROUP}-${e}-${f}-${sq}`);
  await rig.createPod("swallowed");
  const atMs = rig.clock.now();
  await rig.pass(2_000);
  expect(rig.sent.map(({ id }) => id)).toContain(`${GROUP}-${e}-${f}-${sq}`);
  expect(rig.cached()).toEqual([]);

  while (await rig.gateIsOpen()) await rig.pass(250);
  expect(rig.clock.now() - atMs).toBeLessThan(20_000);
  while (!(await rig.gateIsOpen()) && rig.clock.now() - atMs < MENDED_MS_MAX) await rig.pass(250);
  expect(await rig.gateIsOpen()).toBe(true);
  expect(rig.cached()).toEqual(["shop/swallowed"]);
  expect(rig.fence()).not.toBe(fence);
  expect(rig.log.lines.filter(({ message }) => message === "raising the fence")).toHaveLength(1);
});
