import { execFile } from "node:child_process";
import { generateKeyPairSync, randomBytes, randomUUID } from "node:crypto";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);

/** Lifetime of all certificates, longer than any test run; each control plane has its own CA. */
const DAYS_VALID = 30;

/** A key and its certificate, both PEM. */
export interface Certificate {
  readonly certificate: string;
  readonly key: string;
}

/** A CA that signs certificates for the API server and its clients. */
export interface Pki {
  /** The CA's certificate, PEM. */
  readonly ca: string;
  readonly caFile: string;
  /** A certificate for a server on 127.0.0.1. */
  serverCertificate(): Promise<Certificate>;
  /** A client certificate: the API server takes the common name as the user and each organization as a group. */
  clientCertificate(user: string, groups: readonly string[]): Promise<Certificate>;
  /** Signs a certificate request (PEM) as a client's: names are kept, extensions are not. */
  signRequest(request: string): Promise<string>;
  readonly caKeyFile: string;
}

/**
 * Creates a CA with its files in `folder`. Node.js generates the keys (P-256, which is much faster than RSA), and the `openssl` command the
 * certificates, because Node.js can read X.509 but not write it. All options exist in OpenSSL 1.1.1; tested with 3.0.
 *
 * @throws if `openssl` fails; the message has its output.
 */
export async function createPki(folder: string): Promise<Pki> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const file = (name: string): string => join(folder, name);
  // openssl requires a configuration file, and a minimal machine has none.
  await writeFile(file("openssl.cnf"), "[req]\ndistinguished_name=subject\nx509_extensions=ca\n[subject]\n[ca]\n" + CA_EXTENSIONS);
  await writeFile(file("ca.key"), newKey(), { mode: 0o600 });
  const lifetime = ["-sha256", "-days", String(DAYS_VALID)];
  const config = ["-config", file("openssl.cnf")];
  const authority = ["-subj", "/CN=deltaloop-envtest", "-key", file("ca.key"), "-out", file("ca.crt")];
  await run("openssl", ["req", "-x509", "-new", ...lifetime, ...config, ...authority]);

  async function inFolder<T>(work: (own: string) => Promise<T>): Promise<T> {
    const own = file(randomUUID());
    await mkdir(own, { mode: 0o700 });
    try {
      return await work(own);
    } finally {
      await rm(own, { recursive: true, force: true });
    }
  }

  /** @param own the certificate's folder, with the request in `csr` */
  async function signed(own: string, extensions: string): Promise<string> {
    const [request, extensionFile, certificate] = [join(own, "csr"), join(own, "ext"), join(own, "crt")] as const;
    const issuer = ["-CA", file("ca.crt"), "-CAkey", file("ca.key"), "-set_serial", `0x01${randomBytes(8).toString("hex")}`];
    await writeFile(extensionFile, extensions);
    await run("openssl", ["x509", "-req", ...lifetime, ...issuer, "-extfile", extensionFile, "-in", request, "-out", certificate]);
    return await readFile(certificate, "utf8");
  }

  async function sign(subject: string, extensions: string): Promise<Certificate> {
    return await inFolder(async (own) => {
      const [key, request] = [join(own, "key"), join(own, "csr")] as const;
      await writeFile(key, newKey(), { mode: 0o600 });
      await run("openssl", ["req", "-new", "-utf8", ...config, "-subj", subject, "-key", key, "-out", request]);
      return { certificate: await signed(own, extensions), key: await readFile(key, "utf8") };
    });
  }

  return {
    ca: await readFile(file("ca.crt"), "utf8"),
    caFile: file("ca.crt"),
    caKeyFile: file("ca.key"),
    signRequest: async (request) =>
      await inFolder(async (own) => {
        await writeFile(join(own, "csr"), request);
        return await signed(own, CLIENT_EXTENSIONS);
      }),
    serverCertificate: async () => await sign("/CN=kube-apiserver", SERVER_EXTENSIONS),
    clientCertificate: async (user, groups) => await sign(clientSubject(user, groups), CLIENT_EXTENSIONS),
  };
}

/**
 * The key pair with which the API server signs and checks service-account tokens, PEM. The API server and the controller manager accept
 * ECDSA (algorithm ES256 in the tokens) as well as RSA.
 */
export function serviceAccountKeys(): { readonly privateKey: string; readonly publicKey: string } {
  return generateKeyPairSync("ec", {
    namedCurve: "P-256",
    privateKeyEncoding: { type: "pkcs8", format: "pem" },
    publicKeyEncoding: { type: "spki", format: "pem" },
  });
}

const CA_EXTENSIONS = `basicConstraints=critical,CA:TRUE
keyUsage=critical,keyCertSign,cRLSign,digitalSignature
subjectKeyIdentifier=hash
`;
const SERVER_EXTENSIONS = `keyUsage=critical,digitalSignature
extendedKeyUsage=serverAuth
subjectAltName=IP:127.0.0.1,DNS:localhost,DNS:kubernetes.default.svc
`;
const CLIENT_EXTENSIONS = `keyUsage=critical,digitalSignature
extendedKeyUsage=clientAuth
`;

function newKey(): string {
  return serviceAccountKeys().privateKey;
}

/** Returns a subject in openssl's notation: `("system:node:n1", ["system:nodes"])` → `/O=system:nodes/CN=system:node:n1`. */
function clientSubject(user: string, groups: readonly string[]): string {
  const escaped = (value: string): string => value.replace(/[/\\+]/g, String.raw`\$&`);
  return [...groups.map((group) => `/O=${escaped(group)}`), `/CN=${escaped(user)}`].join("");
}
