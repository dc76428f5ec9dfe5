/** The applier's function: it passes the receive count on, so that a slow message makes progress (AP5). */
import { expect, it } from "vitest";

import { createApplyDeltas } from "../../../functions/apply-deltas/handler.ts";
import { createVirtualClock } from "../../../shared/base/memory/clock.ts";
import { createSeededRandom } from "../../../shared/base/memory/random.ts";
import { createDigester } from "../../../shared/kube/pod-template/digest.ts";
import type { ClusterWiring } from "../../../shared/controllers/lambda/wiring.ts";
import { invocationContext, sqsEvent } from "../../../shared/local/invocation.ts";
import type { IndexRequest, ItemChange } from "../../../shared/store/ports/store.ts";
import { cachedPod } from "../../support/builders.ts";
import { signedBody, testSigner } from "../../support/signer.ts";
import { item } from "../../harness/store/applier.ts";
import { recordingLog } from "../recording-log.ts";

const CID = "5d3f00aa11bb";

it.each([
  { receiveCount: 1, sizes: [12] },
  { receiveCount: 2, sizes: [10, 2] },
  { receiveCount: 3, sizes: [1, 2, 4, 5] },
])("splits a message at receive count $receiveCount into Store calls of $sizes items", async ({ receiveCount, sizes }) => {
  const seen: number[] = [];
  const store = {
    readIndex: ({ primaries = [] }: IndexRequest) =>
      Promise.resolve({ rows: [], primaries: primaries.map((each) => ({ ...each, rows: [] })), counts: [] }),
    applyPack: (_: unknown, items: readonly ItemChange[]) => {
      seen.push(items.length);
      return Promise.resolve({ kind: "applied", bells: [], outcomes: items.map(() => "changed") });
    },
  };
  const log = recordingLog();
  const cluster = { store, signer: testSigner(CID) } as unknown as ClusterWiring; // the only members that this function uses
  const handler = createApplyDeltas({
    clock: createVirtualClock(0),
    random: createSeededRandom(1),
    log,
    digester: createDigester("a key for tests"),
    cluster: () => cluster,
    clusters: [CID],
  });
  const items = Array.from({ length: 12 }, (_, i) =>
    item(cachedPod({ name: `p${i}`, uid: `p${i}`, resourceVersion: String(10 + i) }), "A"),
  );
  const body = signedBody(CID, { v: 2, c: CID, r: "pods", e: "e1", f: "1", g: 1, ln: 0, sq: 1, ts: 0, k: "D", items });
  const event = sqsEvent([{ messageId: "m", receipt: "r", body, receiveCount, sentAtMs: 0 }], "arn:aws:sqs:eu-central-1:0:q");
  const context = invocationContext({ functionName: "apply-deltas", requestId: "1", remainingMs: () => 5_000 });
  expect(await handler(event, context)).toEqual({ batchItemFailures: [] });
  expect(seen).toEqual(sizes);
  expect(log.lines.filter(({ level }) => level === "error")).toEqual([]);
});
