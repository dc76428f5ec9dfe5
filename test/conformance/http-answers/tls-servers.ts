/** HTTPS servers with weak or unusual TLS. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:https";
import type { ServerOptions } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

const RSA = ["rsa:2048"];
const P256 = ["ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"];
const only = (version: "TLSv1" | "TLSv1.1" | "TLSv1.2" | "TLSv1.3"): ServerOptions => ({ minVersion: version, maxVersion: version });
const cipher = (ciphers: string, more: ServerOptions = {}): ServerOptions => ({
  ...only("TLSv1.2"),
  ...more,
  ciphers: `${ciphers}:@SECLEVEL=0`,
});

interface TlsCase {
  readonly name: string;
  /** Parameters of `openssl req -newkey`. */
  readonly key?: readonly string[];
  /** Parameters of `openssl x509`, which signs the certificate again. */
  readonly signed?: readonly string[];
  readonly options?: ServerOptions;
}

export const TLS_CASES: readonly TlsCase[] = [
  { name: "the defaults" },
  { name: "TLS 1.0", options: { ...only("TLSv1"), ciphers: "DEFAULT:@SECLEVEL=0" } },
  { name: "TLS 1.1", options: { ...only("TLSv1.1"), ciphers: "DEFAULT:@SECLEVEL=0" } },
  { name: "TLS 1.2", options: only("TLSv1.2") },
  { name: "TLS 1.3", options: only("TLSv1.3") },
  { name: "key exchange by RSA", options: cipher("AES128-SHA") },
  { name: "key exchange by DHE", options: cipher("DHE-RSA-AES128-GCM-SHA256", { dhparam: "auto" }) },
  { name: "CBC with SHA-1", options: cipher("ECDHE-RSA-AES128-SHA") },
  { name: "CBC with SHA-256", options: cipher("ECDHE-RSA-AES128-SHA256") },
  { name: "CBC with SHA-384", options: cipher("ECDHE-RSA-AES256-SHA384") },
  { name: "CBC with an elliptic curve's key", key: P256, options: cipher("ECDHE-ECDSA-AES256-SHA") },
  { name: "signatures with SHA-1", options: cipher("ECDHE-RSA-AES128-GCM-SHA256", { sigalgs: "RSA+SHA1" }) },
  { name: "a key of 1024 bits", key: ["rsa:1024"], options: { ciphers: "DEFAULT:@SECLEVEL=0" } },
  { name: "a key of 768 bits", key: ["rsa:768"], options: { ciphers: "DEFAULT:@SECLEVEL=0" } },
  { name: "a certificate signed with SHA-1", signed: ["-sha1"], options: { ciphers: "DEFAULT:@SECLEVEL=0" } },
  { name: "a certificate that has expired", signed: ["-days", "-1"] },
  { name: "a certificate with an Ed25519 key", key: ["ed25519"] },
  { name: "a certificate with a P-521 key", key: ["ec", "-pkeyopt", "ec_paramgen_curve:secp521r1"] },
];

export interface TlsServer {
  readonly name: string;
  readonly port: number;
  close(): void;
}

/** One server for each of `TLS_CASES`. */
export async function startTlsServers(): Promise<readonly TlsServer[]> {
  const folder = mkdtempSync(join(tmpdir(), "tls-servers-"));
  const servers = TLS_CASES.map(async ({ name, key = RSA, signed, options }) => {
    const [keyFile, file] = [join(folder, "key.pem"), join(folder, "certificate.pem")];
    const made = ["-nodes", "-newkey", ...key, "-keyout", keyFile, "-out", file, "-subj", "/CN=probed"];
    execFileSync("openssl", ["req", "-x509", ...made], { stdio: "ignore" });
    const again = ["x509", "-in", file, "-signkey", keyFile, "-out", file, ...(signed ?? [])];
    if (signed !== undefined) execFileSync("openssl", again, { stdio: "ignore" });
    const server = createServer({ key: readFileSync(keyFile), cert: readFileSync(file), ...options }, (_, response) => response.end("ok"));
    await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
    return { name, port: (server.address() as AddressInfo).port, close: () => void server.close() };
  });
  return await Promise.all(servers).finally(() => rmSync(folder, { recursive: true }));
}
