/** The signer of tests: whoever is given the same cluster id believes each other. */
import { createSigner } from "../../shared/api/signer.ts";
import type { Signer } from "../../shared/api/signer.ts";

export function testSigner(cluster: string): Signer {
  return createSigner(["the MAC key of the tests"], cluster);
}
