/** Validates PEM certificates and keys before TLS uses them: TLS errors name neither the file nor the field. */
import { createPrivateKey, X509Certificate } from "node:crypto";
import type { KeyObject } from "node:crypto";

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/gu;

/** The certificates in `pem` that can be parsed. */
export function certificatesIn(pem: string): readonly X509Certificate[] {
  return (pem.match(CERTIFICATE) ?? []).flatMap((block) => attempt(() => new X509Certificate(block)) ?? []);
}

/** The problem of a certificate and key pair, or undefined. The text quotes neither of them. Source: Go crypto/tls X509KeyPair. */
export function problemOfPair(cert: string, key: string): string | undefined {
  const [certificate] = certificatesIn(cert);
  if (certificate === undefined) return "contains no PEM certificate";
  const own = privateKeyIn(key);
  if (own === undefined) return "has a key that is not an unencrypted PEM private key";
  return certificate.checkPrivateKey(own) ? undefined : "does not match its private key";
}

function privateKeyIn(pem: string): KeyObject | undefined {
  return attempt(() => createPrivateKey(pem));
}

function attempt<T>(make: () => T): T | undefined {
  try {
    return make();
  } catch {
    return undefined; // the caller reports the problem
  }
}
