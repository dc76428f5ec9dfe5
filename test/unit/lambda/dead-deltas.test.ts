/** Dead-letter messages: the cache that becomes suspect, the quarantine, and the local function host. */
import { expect, it } from "vitest";

import { createDeadDeltas } from "../../../functions/dead-deltas/handler.ts";
import { createVirtualClock } from "../../../shared/base/memory/clock.ts";
import { createMemoryDeltaQueue } from "../../../shared/store/memory/queue/delta-queue.ts";
import { createMemoryDoorbells } from "../../../shared/store/memory/queue/doorbells.ts";
import { createSeededRandom } from "../../../shared/base/memory/random.ts";
import { CACHED_RESOURCES } from "../../../shared/kube/objects/resources.ts";
import type { SqsHandler } from "../../../shared/controllers/lambda/sqs-handler.ts";
import type { ClusterWiring } from "../../../shared/controllers/lambda/wiring.ts";
import { startFunctionHost } from "../../../shared/local/function-host.ts";
import { invocationContext, sqsEvent } from "../../../shared/local/invocation.ts";
import type { Forgery, QuarantineEntry } from "../../../shared/store/ports/store.ts";
import { signedBody, testSigner } from "../../support/signer.ts";
import { recordingLog } from "../recording-log.ts";

const NOW_MS = 1_000_000;
const OURS = ["5d3f00aa11bb", "5d3f00aa11cc"] as const;

function harness() {
  const log = recordingLog();
  const clock = createVirtualClock(NOW_MS);
  const marked: string[] = [];
  const quarantined: QuarantineEntry[] = [];
  const forged: Forgery[] = [];
  let away = false;
  const clusterOf = (cid: string) =>
    ({
      store: {
        markSuspect: (resource: string, reason: string) =>
          away ? Promise.reject(new Error("redis is unavailable")) : Promise.resolve(void marked.push(`${cid} ${resource}: ${reason}`)),
        quarantine: (entry: QuarantineEntry) => Promise.resolve(void quarantined.push(entry)),
        noteForgery: (entry: Forgery) =>
          away ? Promise.reject(new Error("redis is unavailable")) : Promise.resolve(void forged.push(entry)),
      },
      signer: testSigner(cid),
      // Contains only the members that this function uses; using any other one is a TypeError.
    }) as unknown as ClusterWiring;
  const clusters = new Map<string | undefined, ClusterWiring>(OURS.map((cid) => [cid, clusterOf(cid)]));
  const handler = createDeadDeltas({ clock, log, clusters: OURS, cluster: (cid) => clusters.get(cid) });
  return { handler, log, clock, marked, quarantined, forged, goAway: (is: boolean) => void (away = is) };
}

const message = (fields: object, signedBy: string = OURS[0]): string =>
  signedBody(signedBy, { v: 2, c: signedBy, r: "pods", e: "e1", f: "7", g: 1, ln: 3, sq: 42, ...fields });

function invoke(handler: SqsHandler, ...bodies: readonly string[]) {
  const event = sqsEvent(
    bodies.map((body, index) => ({ messageId: `m${index}`, receipt: `r${index}`, body, receiveCount: 1, sentAtMs: 0 })),
    "arn:aws:sqs:eu-central-1:0:q",
  );
  return handler(event, invocationContext({ functionName: "f", requestId: "1", remainingMs: () => 5_000 }));
}

it("marks the cache of a dead message's resource as suspect, quarantines the message id, and acknowledges the message", async () => {
  const { handler, log, marked, quarantined } = harness();
  expect(await invoke(handler, message({ v: 3 }))).toEqual({ batchItemFailures: [] });
  const why = "envelope version 3, this build reads up to 2";
  expect(marked).toEqual([`${OURS[0]} pods: message m0 was quarantined: ${why}`]);
  expect(quarantined).toEqual([{ what: "m0", where: "delta dead-letter queue: pods", why, atMs: NOW_MS }]);
  expect(log.lines).toMatchObject([{ level: "error", fields: { messageId: "m0", cluster: OURS[0], suspect: "pods", why } }]);
});

it("marks all resources of the signing cluster as suspect if the message's resource is unreadable", async () => {
  const { handler, marked, quarantined } = harness();
  await invoke(handler, signedBody(OURS[1], "{"));
  expect(marked.map((line) => line.split(":")[0])).toEqual(CACHED_RESOURCES.map((resource) => `${OURS[1]} ${resource}`));
  expect(quarantined).toHaveLength(1);
});

it.each([
  {
    name: "a message from another deployment",
    body: message({}, "000000000000"),
    kept: 2,
    why: "signed for a cluster that is not configured here",
  },
  { name: "an unsigned message", body: "{", kept: 2, why: "not a signed message" },
  {
    name: "a message signed for another cluster",
    body: message({}).replace(OURS[0], OURS[1]),
    kept: 1,
    why: "signed with a key that this build does not know",
  },
])("acknowledges $name, logs it, and marks no cache as suspect", async ({ body, kept, why }) => {
  const { handler, log, marked, quarantined, forged } = harness();
  expect(await invoke(handler, body)).toEqual({ batchItemFailures: [] });
  expect([marked, quarantined]).toEqual([[], []]);
  const bytes = Buffer.byteLength(body);
  const entry = { messageId: "m0", where: "delta dead-letter queue", why, bytes };
  expect(forged).toEqual(Array.from({ length: kept }, () => ({ ...entry, atMs: NOW_MS })));
  expect(log.lines).toMatchObject([{ level: "error", message: "forged message", fields: entry }]);
});

it("acknowledges a forged message even while the Store is unavailable", async () => {
  const { handler, log, forged, goAway } = harness();
  goAway(true);
  expect(await invoke(handler, "{")).toEqual({ batchItemFailures: [] });
  expect(forged).toEqual([]);
  expect(log.lines.map(({ message: text }) => text)).toContain("forged message");
});

it("leaves a genuine message in the queue while the Store is unavailable", async () => {
  const { handler, marked, quarantined, goAway } = harness();
  goAway(true);
  expect(await invoke(handler, message({}))).toEqual({ batchItemFailures: [{ itemIdentifier: "m0" }] });
  expect(quarantined).toEqual([]);
  goAway(false);
  expect(await invoke(handler, message({}))).toEqual({ batchItemFailures: [] });
  expect(marked).toHaveLength(1);
});

it("logs no message content", async () => {
  const { handler, log } = harness();
  await invoke(handler, message({ v: 3, items: [{ o: "a secret of nobody" }] }), "a secret of nobody");
  expect(JSON.stringify(log.lines)).not.toContain("nobody");
});

it("the local host calls the function for messages in the dead-letter queue", async () => {
  const { handler, log, clock, marked } = harness();
  const random = createSeededRandom(1);
  const queue = () => createMemoryDeltaQueue({ clock, random });
  const [deltas, dead] = [queue(), queue()];
  const nobody: SqsHandler = () => expect.unreachable("its queue is empty");
  const host = startFunctionHost({
    sources: { deltas, deadDeltas: dead, doorbells: createMemoryDoorbells({ clock, random, cluster: OURS[0] }).sources },
    handlers: { applyDeltas: nobody, deadDeltas: handler, sync: { deployment: nobody, replicaset: nobody, replicationcontroller: nobody } },
    clock,
    log,
  });
  await dead.send([{ id: "1", group: `${OURS[0]}.pods.3`, body: message({}) }]);
  await clock.advance(5_000);
  expect(marked).toHaveLength(1);
  expect(dead.size()).toBe(0);
  const stopped = host.stop();
  await clock.advance(5_000);
  await stopped;
});
