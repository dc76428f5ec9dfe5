/** A signer whose keys are rotated while it runs. */
import { expect, it } from "vitest";

import { createSigner } from "../../../shared/store/signer.ts";
import { liveSigner } from "../../../shared/controllers/lambda/live-signer.ts";

it("signs and verifies with the current keys, and reports unknown keys", () => {
  const [old, fresh] = ["the old key of sixteen", "the new key of sixteen"];
  let keys: readonly string[] = [old];
  let unknown = 0;
  const signer = liveSigner(
    () => keys,
    "0123456789ab",
    () => unknown++,
  );
  const byOld = createSigner([old], "0123456789ab").sign("v", ["x"]);
  const byNew = createSigner([fresh], "0123456789ab").sign("v", ["x"]);
  const verdicts = () => [byOld, byNew].map((signature) => signer.verify("v", ["x"], signature));

  expect([verdicts(), unknown, signer.sign("v", ["x"])]).toEqual([["current", "unknown"], 1, byOld]);
  keys = [old, fresh];
  expect([verdicts(), signer.sign("v", ["x"])]).toEqual([["current", "former"], byOld]);
  keys = [fresh, old];
  expect([verdicts(), signer.sign("v", ["x"]), signer.keyId]).toEqual([["former", "current"], byNew, byNew.slice(0, 2)]);
  keys = [fresh];
  expect([verdicts(), unknown]).toEqual([["unknown", "current"], 2]);
});
