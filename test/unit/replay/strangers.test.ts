/** Well-formed captures that contain invalid objects. */
import fc from "fast-check";
import { expect, it } from "vitest";

import { functionHandlers } from "../../../cli/functions/functions.ts";
import { SYNC_HANDLERS } from "../../../cli/functions/sync-handlers.ts";
import { createDigester } from "../../../shared/kube/pod-template/digest.ts";
import { replay } from "../../../shared/replay/engine/replay.ts";
import { silentLog } from "../../support/silent-log.ts";
import { changesOf, heldCapture, parseCapture, shadow } from "../../support/held-capture.ts";

const few = fc.constantFrom("a", "b");
const metadata = fc.record(
  {
    namespace: few,
    name: few,
    uid: fc.oneof(few, fc.jsonValue({ maxDepth: 1 })),
    resourceVersion: fc.oneof(fc.integer({ min: 1, max: 20 }).map(String), fc.string()),
    labels: fc.dictionary(few, few),
    ownerReferences: fc.jsonValue({ maxDepth: 2 }),
    generation: fc.jsonValue({ maxDepth: 1 }),
    deletionTimestamp: fc.oneof(fc.string(), fc.constant("2026-03-01T10:00:00Z")),
  },
  { requiredKeys: ["name"] },
);
const object = fc.record(
  {
    kind: fc.constantFrom("Pod", "ReplicaSet", "Deployment", "ReplicationController"),
    metadata,
    spec: fc.oneof(
      fc.jsonValue({ maxDepth: 2 }),
      fc.record({
        replicas: fc.oneof(fc.integer(), fc.jsonValue({ maxDepth: 1 })),
        selector: fc.jsonValue({ maxDepth: 2 }),
        template: fc.jsonValue({ maxDepth: 2 }),
      }),
    ),
    status: fc.jsonValue({ maxDepth: 2 }),
  },
  { requiredKeys: ["kind", "metadata"] },
);
const line = fc.record({
  t: fc.integer({ min: 0, max: 20 }).map((second) => `2026-03-01T10:00:${String(second).padStart(2, "0")}Z`),
  type: fc.constantFrom("ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR", "else"),
  object,
});

it("shadow terminates for arbitrary objects in a capture", async () => {
  const digester = createDigester("a key of this test alone");
  await fc.assert(
    fc.asyncProperty(fc.array(line, { minLength: 1, maxLength: 8 }), async (lines) => {
      const whole = lines.map((one) =>
        JSON.stringify({ ...one, object: { ...one.object, spec: { template: { spec: {} }, ...asObject(one.object.spec) } } }),
      );
      const changes = changesOf(parseCapture(whole.join("\n"), "f"), { name: "f", digester, malformed: () => undefined });
      for await (const finding of shadow(changes, { handlers: SYNC_HANDLERS, digester })) expect(finding.atMs).toBeGreaterThan(0);
    }),
    { numRuns: 25 },
  );
}, 60_000);

function asObject(value: unknown): object {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !("template" in value) ? value : {};
}

it("replay terminates with one summary for arbitrary objects in a capture", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(line, { minLength: 1, maxLength: 8 }), async (lines) => {
      const records = parseCapture(lines.map((one) => JSON.stringify(one)).join("\n"), "f");
      const summary = await replay(heldCapture(records), {
        digester: createDigester("a key of this test alone"),
        seed: 1,
        log: silentLog,
        functions: functionHandlers,
        onSync: () => undefined,
        tailMs: 1000,
      });
      expect(summary.cacheDigest).toMatch(/^[0-9a-f]{64}$/);
    }),
    { numRuns: 25 },
  );
}, 60_000);
