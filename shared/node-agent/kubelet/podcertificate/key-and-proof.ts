/**
 * Private keys of podCertificate sources and the proof of their possession. Source:
 * pkg/kubelet/podcertificate/podcertificatemanager.go generateKeyAndProof.
 */
import { generateKeyPair, type KeyObject } from "node:crypto";
import { stubRequest } from "../certificate/certificate-request.ts";
import { VolumeError } from "../types/volume-error.ts";

type Done = (error: Error | null, publicKey: KeyObject, privateKey: KeyObject) => void;

/** Outside the event loop, because an RSA key takes seconds. */
const GENERATE: ReadonlyMap<string, (done: Done) => void> = new Map([
  ["RSA3072", (done) => generateKeyPair("rsa", { modulusLength: 3072 }, done)],
  ["RSA4096", (done) => generateKeyPair("rsa", { modulusLength: 4096 }, done)],
  ["ECDSAP256", (done) => generateKeyPair("ec", { namedCurve: "P-256" }, done)],
  ["ECDSAP384", (done) => generateKeyPair("ec", { namedCurve: "P-384" }, done)],
  ["ECDSAP521", (done) => generateKeyPair("ec", { namedCurve: "P-521" }, done)],
  ["ED25519", (done) => generateKeyPair("ed25519", undefined, done)],
]);

/** A new key (PKCS #8, PEM) and a PKCS #10 request (DER) that it signed. @throws {VolumeError} for an unknown key type */
export async function generateKeyAndProof(keyType: string): Promise<{ readonly privateKey: string; readonly proof: Buffer }> {
  const generate = GENERATE.get(keyType);
  if (generate === undefined) throw new VolumeError(`while generating keypair: unknown key type "${keyType}"`);
  return await new Promise((resolve, reject) =>
    generate((error, publicKey, key) => {
      if (error !== null) return reject(error);
      resolve({ privateKey: key.export({ type: "pkcs8", format: "pem" }).toString(), proof: stubRequest(key, publicKey) });
    }),
  );
}
