/** Would catch: a key of another type or size than the pod requests, and a request that a signer rejects. */
import { spawnSync } from "node:child_process";
import { createPrivateKey, createPublicKey } from "node:crypto";
import { expect, it, test } from "vitest";
import { stubRequest } from "../../../../shared/node-agent/kubelet/certificate/certificate-request.ts";
import { generateKeyAndProof } from "../../../../shared/node-agent/kubelet/podcertificate/key-and-proof.ts";
import { VolumeError } from "../../../../shared/node-agent/kubelet/types/volume-error.ts";

test.each([
  { keyType: "RSA3072", details: { modulusLength: 3072 }, signature: "sha256WithRSAEncryption" },
  { keyType: "RSA4096", details: { modulusLength: 4096 }, signature: "sha256WithRSAEncryption" },
  { keyType: "ECDSAP256", details: { namedCurve: "prime256v1" }, signature: "ecdsa-with-SHA256" },
  { keyType: "ECDSAP384", details: { namedCurve: "secp384r1" }, signature: "ecdsa-with-SHA384" },
  { keyType: "ECDSAP521", details: { namedCurve: "secp521r1" }, signature: "ecdsa-with-SHA512" },
  { keyType: "ED25519", details: {}, signature: "ED25519" },
])(
  "[node-agent 509] a key of type $keyType signs an empty certificate request",
  { timeout: 60_000 },
  async ({ keyType, details, signature }) => {
    const { privateKey, proof } = await generateKeyAndProof(keyType);
    expect(privateKey).toMatch(/^-----BEGIN PRIVATE KEY-----\n/);
    const key = createPrivateKey(privateKey);
    expect(key.asymmetricKeyDetails).toMatchObject(details);
    const openssl = (...args: readonly string[]) =>
      spawnSync("openssl", ["req", "-inform", "DER", "-noout", ...args], { input: proof, encoding: "utf8" });
    const { stdout: text, stderr } = openssl("-verify", "-text");
    expect(stderr).toMatch(/verify OK/u);
    expect(text).toContain(`Signature Algorithm: ${signature}`);
    expect(text).toMatch(/Subject: *\n/);
    expect(openssl("-pubkey").stdout).toBe(createPublicKey(key).export({ type: "spki", format: "pem" }));
  },
);

it("[node-agent 509] an unknown key type is a volume error", async () => {
  await expect(generateKeyAndProof("RSA1024")).rejects.toEqual(new VolumeError('while generating keypair: unknown key type "RSA1024"'));
});

it("[node-agent 509] an empty certificate request equals Go's bytes", () => {
  // A key generated for this test by Go's crypto/x509; it protects nothing.
  const key = createPrivateKey(`-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f
-----END PRIVATE KEY-----`);
  expect(stubRequest(key, createPublicKey(key)).toString("base64")).toBe(
    "MH8wMwIBADAAMCowBQYDK2VwAyEAA6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbigADAFBgMrZXADQQD+T6LD/tC3dgs1QpDKx4kUxYQE7xZe9aBnQUcZw2xzeo" +
      "WgFx/pD/xHAMYHE4CCTNhwz2GdgvzsSlQWl8KwMroI",
  );
});
