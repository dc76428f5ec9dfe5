/**
 * Threat: SQS swallows a genuine message because its de-duplication id was used before. Who: anyone who may send to Q1, since the ids
 * are cluster, resource, lane, epoch, fence and sequence. A MAC cannot answer it: the message never comes. The hole that it leaves
 * does: the gate shuts after seconds, after a minute the fence is raised, its ids are others, and everything is listed.
 */
import { expect, it } from "vitest";
import { laneOf, LANES } from "../../shared/store/lane.ts";
import { CLUSTER, startQ1Rig } from "./q1-rig.ts";

const LANE = laneOf("shop/swallowed", LANES.pods);
const GROUP = `${CLUSTER}.pods.${LANE}`;
/** The lane's next heartbeat shows the hole, which then is one for a minute. */
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
