/**
 * Creates the self-signed serving certificate that a kubelet uses if none is configured. Source: cmd/kubelet/app/server.go InitializeTLS.
 */
import { execFile } from "node:child_process";
import { generateKeyPairSync } from "node:crypto";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { isIP } from "node:net";
import { networkInterfaces, tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import type { Clock } from "@deltaloop/base";
import { NodeApiError } from "./answer.ts";

/**
 * Validity of the certificate. As in upstream, a new certificate is created on each start; API servers verify it only if configured to do
 * so.
 */
const DAYS_VALID = 365;
const OPENSSL_MS_MAX = 30_000;
const MS_PER_SECOND = 1_000;
/**
 * Maximum length of the node name in the subject. A common name has at most 64 characters, of which `@` and the time take 11. Clients
 * verify the alternative names instead.
 */
const NAME_CHARS_MAX = 53;
const ANY_ADDRESS = ["0.0.0.0", "::"];

/**
 * Creates a certificate for the node's name and the listening addresses. Only this user can read the key file, which is removed before
 * the function returns. Node.js cannot create X.509 certificates, so the `openssl` command (1.1.1 or newer) is used.
 *
 * @throws {NodeApiError} if openssl is missing or fails
 */
export async function selfSignedCertificate(given: {
  readonly nodeName: string;
  readonly host: string;
  readonly clock: Clock;
}): Promise<{ readonly cert: string; readonly key: string }> {
  const { nodeName, host, clock } = given;
  const key = generateKeyPairSync("ec", {
    namedCurve: "P-256",
    privateKeyEncoding: { type: "pkcs8", format: "pem" },
    publicKeyEncoding: { type: "spki", format: "pem" },
  }).privateKey;
  const folder = await mkdtemp(join(tmpdir(), "deltaloop-node-tls-"));
  const [keyFile, config, out] = [join(folder, "key"), join(folder, "openssl.cnf"), join(folder, "crt")] as const;
  try {
    await writeFile(keyFile, key, { mode: 0o600 });
    await writeFile(config, configuration(nodeName, addressesOf(host)));
    const subject = `/CN=${nodeName.slice(0, NAME_CHARS_MAX)}@${Math.floor(clock.now() / MS_PER_SECOND)}`;
    const validity = ["-sha256", "-days", String(DAYS_VALID)];
    const args = ["req", "-x509", "-new", ...validity, "-config", config, "-subj", subject, "-key", keyFile, "-out", out];
    await promisify(execFile)("openssl", args, { timeout: OPENSSL_MS_MAX });
    return { cert: await readFile(out, "utf8"), key };
  } catch (error) {
    const why = error instanceof Error && "code" in error && error.code === "ENOENT" ? "command not found" : String(error);
    const help = "install it, or set --tls-cert-file and --tls-private-key-file";
    throw new NodeApiError(`failed to create a serving certificate with \`openssl\` (${help}): ${why}`, { cause: error });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

function addressesOf(host: string): readonly string[] {
  if (!ANY_ADDRESS.includes(host)) return [host];
  return Object.values(networkInterfaces()).flatMap((all = []) => all.map(({ address }) => address));
}

function configuration(nodeName: string, addresses: readonly string[]): string {
  const names = [`DNS:${nodeName}`, ...addresses.map((address) => (isIP(address) === 0 ? `DNS:${address}` : `IP:${address}`))];
  return `[req]
distinguished_name=subject
x509_extensions=server
[subject]
[server]
basicConstraints=critical,CA:FALSE
keyUsage=critical,digitalSignature
extendedKeyUsage=serverAuth
subjectAltName=${[...new Set(names)].join(",")}
`;
}
