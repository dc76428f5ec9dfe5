/** The signer of tests: components with the same cluster id accept each other's messages. */
import { createSigner } from "../../shared/store/signer.ts";
import type { Signer } from "../../shared/store/signer.ts";
import { decodeEnvelope } from "../../shared/controllers/cache/messages/decode.ts";
import type { Envelope } from "../../shared/controllers/cache/messages/envelope.ts";
import { encodePackText, packText } from "../../shared/controllers/cache/messages/pack-codec.ts";
import { signBody } from "../../shared/controllers/cache/messages/signed-body.ts";

export function testSigner(cluster: string): Signer {
  const signer = signers.get(cluster) ?? createSigner(["the MAC key of the tests"], cluster);
  signers.set(cluster, signer);
  return signer;
}

/** Key derivation is too slow to repeat for each message. */
const signers = new Map<string, Signer>();

/** The body of a message as the watcher of `cluster` sends it: `fields` are the envelope's, in JSON or as an object. */
export function signedBody(cluster: string, fields: object | string): string {
  return signBody(testSigner(cluster), cluster, encodePackText(typeof fields === "string" ? fields : JSON.stringify(fields)));
}

/** The content of a signed body, without verification. */
export function payloadOf(body: string): string {
  return packText(body.split(".").slice(2).join("."));
}

/** @throws {Error} when the body is not a watcher message of the tests */
export function envelopeOf(body: string): Envelope {
  const decoded = decodeEnvelope(body, testSigner);
  if (decoded.kind !== "envelope") throw new Error(JSON.stringify(decoded));
  return decoded.envelope;
}
