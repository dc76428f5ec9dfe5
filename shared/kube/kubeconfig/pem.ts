/** Certificates and keys as PEM, looked at before TLS takes them: what it says of a wrong one names neither the file nor the field. */
import { createPrivateKey, X509Certificate } from "node:crypto";
import type { KeyObject } from "node:crypto";

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/gu;

/** Those that can be read. */
export function certificatesIn(pem: string): readonly X509Certificate[] {
  return (pem.match(CERTIFICATE) ?? []).flatMap((block) => attempt(() => new X509Certificate(block)) ?? []);
}

/** Why a client cannot be one by them; undefined: it can. Quotes neither. Source: Go crypto/tls X509KeyPair. */
export function problemOfPair(cert: string, key: string): string | undefined {
  const [certificate] = certificatesIn(cert);
  if (certificate === undefined) return "holds no certificate (PEM)";
  const own = privateKeyIn(key);
  if (own === undefined) return "has a key that is none (PEM, not encrypted)";
  return certificate.checkPrivateKey(own) ? undefined : "is of another key than the one beside it";
}

function privateKeyIn(pem: string): KeyObject | undefined {
  return attempt(() => createPrivateKey(pem));
}

function attempt<T>(make: () => T): T | undefined {
  try {
    return make();
  } catch {
    return undefined; // says no more than that
  }
}
