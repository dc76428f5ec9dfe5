/**
 * Threat: a small message inflates to more than a function's memory. Who: anyone who may send to the delta queue or its dead-letter queue.
 * Before: 1.03 MB became 760 MB, and both functions exceeded 1 GiB and were killed, with every message of their batch.
 */
import { deflateRawSync } from "node:zlib";
import { expect, it } from "vitest";
import { signBody } from "../../shared/controllers/cache/messages/signed-body.ts";
import { testSigner } from "../support/signer.ts";
import { CLUSTER, DISGUISES, disguises, startQ1Rig } from "./q1-rig.ts";

const INFLATED_BYTES = 100 * 1024 * 1024;
const PAYLOAD = `deflate:${deflateRawSync(Buffer.alloc(INFLATED_BYTES, " ")).toString("base64")}`;
/** Permitted growth in bytes: far below the inflated size, and far above the memory for the message's 135 KB. */
const GROWTH_BYTES_MAX = INFLATED_BYTES / 3;

/**
 * Returns the maximum growth of the process's memory during `act`. Inflating is one synchronous call, so memory that is still allocated
 * afterwards counts.
 */
async function growthOf(act: () => Promise<void>): Promise<number> {
  const before = process.resourceUsage().maxRSS;
  await act();
  return (process.resourceUsage().maxRSS - before) * 1024;
}

it.each(DISGUISES)("rejects a forged message without inflating it: $name", async ({ index }) => {
  const rig = await startQ1Rig();
  const body = disguises(PAYLOAD, rig.sent.at(-1)?.body ?? "")[index] ?? "";
  expect(body.length).toBeLessThan(200_000);
  const growth = await growthOf(async () => {
    await rig.inject(`${CLUSTER}.pods.3`, body);
    await rig.deadLetters.send([{ group: "g", id: "d", body }]);
    await rig.pass(2_000);
  });
  expect(growth).toBeLessThan(GROWTH_BYTES_MAX);
  expect([rig.queue.size(), rig.deadLetters.size()]).toEqual([0, 0]);
  expect(await rig.store.forgeries()).toHaveLength(2);
  expect(await rig.gateIsOpen()).toBe(true);
});

it("a signed message that would inflate to 100 MiB is quarantined without being inflated completely, and leaves the queue", async () => {
  const rig = await startQ1Rig();
  const body = signBody(testSigner(CLUSTER), CLUSTER, PAYLOAD);
  const growth = await growthOf(async () => {
    await rig.inject(`${CLUSTER}.pods.3`, body);
    await rig.pass(2_000);
  });
  expect(growth).toBeLessThan(GROWTH_BYTES_MAX);
  expect(rig.queue.size()).toBe(0);
  expect(await rig.store.quarantined()).toMatchObject([{ where: "delta message", why: expect.stringContaining("larger than") }]);
});
