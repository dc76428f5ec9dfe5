/**
 * Stores a node's certificates as files, in the kubelet's layout: `<prefix>-current.pem` links to `<prefix>-<time>.pem`, which holds the
 * certificate and its key and never changes.
 *
 * Source: client-go util/certificate/certificate_store.go. Differs from upstream: the link is replaced atomically.
 */
import { createPrivateKey, X509Certificate } from "node:crypto";
import { lstat, mkdir, readFile, rename, rm, symlink } from "node:fs/promises";
import { join, resolve } from "node:path";
import type { CertificateStore, KeyedCertificate } from "../ports/certificates.ts";
import type { Clock } from "@deltaloop/base";
import { ifExists } from "./errors.ts";
import { replaceFile } from "@deltaloop/base/system";

export interface CertificateFiles extends CertificateStore {
  /** Path of the current certificate and key. */
  readonly currentPath: string;
}

export interface CertificateFilesOptions {
  readonly prefix: "kubelet-client" | "kubelet-server";
  readonly directory: string;
  /** Certificate to use until the store has one. It may be in the same file as the key. */
  readonly certFile?: string;
  readonly keyFile?: string;
  readonly clock: Clock;
}

const CERTIFICATES = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/gu;
const KEY = /-----BEGIN (?:EC |RSA )?PRIVATE KEY-----[^-]+-----END (?:EC |RSA )?PRIVATE KEY-----/u;

export function createCertificateFiles({ prefix, directory, certFile, keyFile, clock }: CertificateFilesOptions): CertificateFiles {
  const path = (qualifier: string): string => join(directory, `${prefix}-${qualifier}.pem`);
  const currentPath = path("current");
  const updatedPath = path("updated");
  return {
    currentPath,
    async current() {
      const places = [
        [currentPath, currentPath],
        [certFile, keyFile],
        [join(directory, `${prefix}.crt`), join(directory, `${prefix}.key`)],
      ];
      for (const [cert, key] of places) {
        const [certText, keyText] = await Promise.all([readIfThere(cert), readIfThere(key)]);
        if (certText !== undefined && keyText !== undefined) return paired({ cert: certText, key: keyText }, `${cert}`);
      }
      return undefined;
    },
    async update(certificate) {
      const { cert, key } = paired(certificate, "the signed certificate");
      await mkdir(directory, { recursive: true, mode: 0o755 });
      const file = path(timeText(clock.now()));
      await replaceFile(file, `${cert}${key}`);
      await refuseUnlessLink(currentPath);
      await refuseUnlessLink(updatedPath);
      await rm(updatedPath, { force: true });
      await symlink(resolve(file), updatedPath);
      await rename(updatedPath, currentPath);
    },
  };
}

/** Returns only the PEM blocks of the certificates and the key. @throws if the key does not match the first certificate */
function paired({ cert, key }: KeyedCertificate, where: string): KeyedCertificate {
  const certificates = cert.match(CERTIFICATES) ?? [];
  const [privateKey] = KEY.exec(key) ?? [];
  if (certificates[0] === undefined || privateKey === undefined) throw new Error(`${where}: no certificate or no private key found`);
  if (!new X509Certificate(certificates[0]).checkPrivateKey(createPrivateKey(privateKey)))
    throw new Error(`${where}: private key does not match public key`);
  return { cert: `${certificates.join("\n")}\n`, key: `${privateKey}\n` };
}

/** Formats a local time as `2026-11-25-07-30-00`. */
function timeText(ms: number): string {
  const date = new Date(ms);
  const parts = [date.getMonth() + 1, date.getDate(), date.getHours(), date.getMinutes(), date.getSeconds()];
  return [date.getFullYear(), ...parts.map((part) => String(part).padStart(2, "0"))].join("-");
}

async function readIfThere(path: string | undefined): Promise<string | undefined> {
  return path === undefined ? undefined : await ifExists(readFile(path, "utf8"));
}

/** Throws if the path is a regular file, because the operator may have created it. */
async function refuseUnlessLink(path: string): Promise<void> {
  const stats = await ifExists(lstat(path));
  if (stats !== undefined && !stats.isSymbolicLink()) throw new Error(`expected "${path}" to be a symlink but it is a file`);
}
