/** Messages signed with a key that this process has not loaded yet. */
import { expect, it } from "vitest";

import { createSigner } from "../../../shared/store/signer.ts";
import { openBody, signBody, withRenewedKeys } from "../../../shared/controllers/cache/messages/signed-body.ts";

const [OLD, NEW] = ["the old key of sixteen", "the new key of sixteen"];
const genuine = signBody(createSigner([NEW], "c1"), "c1", "payload");
const known = signBody(createSigner([OLD], "c1"), "c1", "payload");

it.each([
  { name: "signed with a new key that is in the secret", body: genuine, secret: [NEW, OLD], want: { kind: "signed", reads: 1 } },
  { name: "signed with a new key that is in no secret", body: genuine, secret: [OLD], want: { kind: "forged", reads: 1 } },
  { name: "signed with the known key", body: known, secret: [NEW, OLD], want: { kind: "signed", reads: 0 } },
  { name: "signed with the known key and then altered", body: `${known}!`, secret: [NEW, OLD], want: { kind: "forged", reads: 0 } },
  { name: "signed with another cluster's key", body: genuine.replace("c1", "c2"), secret: [NEW, OLD], want: { kind: "forged", reads: 0 } },
  { name: "without a valid envelope", body: "nothing", secret: [NEW, OLD], want: { kind: "forged", reads: 0 } },
])("a message $name needs $want.reads reads and returns $want.kind", async ({ body, secret, want }) => {
  let keys: readonly string[] = [OLD];
  let reads = 0;
  const renewKeys = async (): Promise<boolean> => {
    reads++;
    const changed = secret.join() !== keys.join();
    keys = secret;
    return await Promise.resolve(changed);
  };
  const read = () => openBody(body, (cluster) => (cluster === "c1" ? createSigner(keys, "c1") : undefined));
  expect([(await withRenewedKeys(read, renewKeys)).kind, reads]).toEqual([want.kind, want.reads]);
  keys = [OLD];
  expect((await withRenewedKeys(read, undefined)).kind).toBe(body === known ? "signed" : "forged");
});
