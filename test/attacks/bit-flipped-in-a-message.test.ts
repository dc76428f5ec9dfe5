/**
 * Threat: a genuine message is changed in transit, by a single bit or more. Who: anyone who may receive from the delta queue and send to
 * it. Before: the applier applied any changed message that was still valid JSON, for example with another name, version or size.
 */
import fc from "fast-check";
import { expect, it } from "vitest";
import { laneOf, LANES } from "../../shared/store/lane.ts";
import { invocationContext, sqsEvent } from "../../shared/local/invocation.ts";
import { cachedPod } from "../support/builders.ts";
import { signedBody } from "../support/signer.ts";
import { CLUSTER, startQ1Rig } from "./q1-rig.ts";

const LANE = laneOf("shop/web-1", LANES.pods);
const context = invocationContext({ functionName: "apply-deltas", requestId: "1", remainingMs: () => 5_000 });

it("a message with any single flipped bit changes nothing and is not redelivered", async () => {
  const rig = await startQ1Rig();
  const item = (note: string) => {
    const pod = cachedPod({ labels: { note }, resourceVersion: "900000" });
    return { t: "A", key: "shop/web-1", uid: pod.uid, rv: "900000", o: pod };
  };
  const message = (items: readonly object[]) => signedBody(CLUSTER, { ...rig.nextHead("pods", LANE), g: 0, k: "D", items });
  const apply = (body: string) =>
    rig.handlers.applyDeltas(
      sqsEvent([{ messageId: "m", receipt: "r", body, receiveCount: 1, sentAtMs: 0 }], "arn:aws:sqs:eu-central-1:0:q"),
      context,
    );
  const bodies = [message([item("plain")]), message(Array.from({ length: 200 }, () => item("x".repeat(200))))];
  expect(bodies[1]).toContain(".deflate:");
  const state = JSON.stringify([rig.cached(), rig.watermarks()]);
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...bodies), fc.nat(), fc.nat({ max: 6 }), async (body, at, bit) => {
      const position = at % body.length;
      const flipped = body.slice(0, position) + String.fromCharCode(body.charCodeAt(position) ^ (1 << bit)) + body.slice(position + 1);
      expect(await apply(flipped)).toEqual({ batchItemFailures: [] });
      expect(JSON.stringify([rig.cached(), rig.watermarks()])).toBe(state);
    }),
    { numRuns: 500 },
  );
  expect(await rig.store.forgeries()).toHaveLength(500);
  await apply(bodies[0] ?? "");
  expect(rig.cached()).toEqual(["shop/web-1"]);
});
