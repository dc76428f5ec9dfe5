/** The counting laws of a rolling update. */
import { expect, it } from "vitest";
import { countRollout } from "../cost/rollout-counts.ts";

/**
 * Would catch: own writes that are sent as news, a pod's last states as messages of their own, keys enqueued for every item, and packs that
 * wait for more items while the ReplicaSet has nothing to do.
 */
it.each([
  { replicas: 10, syncsPerWrite: 0.55, bytesPerDelta: 900, messagesPerWrite: 0.6, missedTakes: 1 },
  { replicas: 200, syncsPerWrite: 0.08, bytesPerDelta: 650, messagesPerWrite: 0.4, missedTakes: 3 },
])("a rolling update of $replicas pods needs few syncs, messages and bytes", async ({ replicas, ...max }) => {
  const { writes, deltas, messages, messageBytes, applierCalls, syncs, idleSyncs, missedTakes } = await countRollout(replicas);
  expect(syncs / writes).toBeLessThanOrEqual(max.syncsPerWrite);
  expect(messageBytes / deltas).toBeLessThanOrEqual(max.bytesPerDelta);
  expect(messages / writes).toBeLessThanOrEqual(max.messagesPerWrite);
  expect(applierCalls).toBeLessThanOrEqual(messages);
  expect(idleSyncs / syncs).toBeLessThanOrEqual(0.1);
  expect(missedTakes).toBeLessThanOrEqual(max.missedTakes);
});
