/**
 * Threat: one message in the delta queue's dead-letter queue closes every gate. Who: anyone who may send to that queue, or send messages to
 * the delta queue that no applier can apply. Before: a body without content counted as a message about all resources of all clusters, and
 * every such message caused a relist of each.
 */
import { expect, it } from "vitest";
import { CLUSTER, DISGUISES, disguises, startQ1Rig } from "./q1-rig.ts";

it.each(DISGUISES)("forged dead letters mark nothing as suspect: $name", async ({ index }) => {
  const rig = await startQ1Rig();
  const fence = rig.fence();
  const genuine = rig.sent.at(-1)?.body ?? "";
  const texts = ["", "{", '{"v":3}', JSON.stringify({ v: 3, c: CLUSTER, r: "pods" }), JSON.stringify({ v: 2, c: CLUSTER, r: "pods" })];
  const bodies = texts.map((text) => disguises(text, genuine)[index] ?? "");
  await rig.deadLetters.send(bodies.map((body, i) => ({ group: `g${i}`, id: `d${i}`, body })));
  for (let ms = 0; ms < 10_000; ms += 250) {
    await rig.pass(250);
    expect(await rig.gateIsOpen()).toBe(true);
  }
  expect(rig.fence()).toBe(fence);
  expect(rig.deadLetters.size()).toBe(0);
  expect((await rig.store.forgeries()).map(({ where }) => where)).toEqual(texts.map(() => "delta dead-letter queue"));
});
