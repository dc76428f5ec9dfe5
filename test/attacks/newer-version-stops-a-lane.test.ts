/**
 * Threat: messages of an unknown version stop a lane. Who: anyone who may send to the delta queue. Before: 22 messages `{"v":2}` in
 * the group of a lane were each retried for minutes before they expired, and the messages behind them waited 83 minutes.
 */
import { expect, it } from "vitest";
import { laneOf, LANES } from "../../shared/store/lane.ts";
import { CLUSTER, DISGUISES, disguises, startQ1Rig } from "./q1-rig.ts";

it.each(DISGUISES)("22 forged messages of a newer envelope version do not block their lane: $name", async ({ index }) => {
  const rig = await startQ1Rig();
  const group = `${CLUSTER}.pods.${laneOf("shop/behind", LANES.pods)}`;
  const body = disguises('{"v":3}', rig.sent.at(-1)?.body ?? "")[index] ?? "";
  for (let i = 0; i < 22; i++) await rig.inject(group, body);
  await rig.createPod("behind");
  await rig.pass(3_000);
  expect(rig.cached()).toEqual(["shop/behind"]);
  expect(rig.queue.size()).toBe(0);
  expect(await rig.gateIsOpen()).toBe(true);
  expect(await rig.store.forgeries()).toHaveLength(22);
  expect(rig.log.lines.filter(({ level, message }) => level === "error" && message === "forged message")).toHaveLength(22);
});
