/**
 * Requests the node's first client certificate before any other component starts (node-agent §14.6).
 *
 * Source: pkg/kubelet/certificate/bootstrap/bootstrap.go LoadClientCert, requestNodeCertificate.
 */
import { createPrivateKey, createPublicKey, generateKeyPairSync } from "node:crypto";
import { messageOf } from "@deltaloop/kube/objects";
import { clientTemplate } from "../kubelet/certificate/rotation.ts";
import { joiningRequestName } from "../kubelet/certificate/signing-request.ts";
import type { CertificateStore, KeyedCertificate } from "../ports/certificates.ts";
import type { Clock, Log } from "@deltaloop/base";
import { isForbidden, isUnauthorized, KubeApiError } from "@deltaloop/kube/client";
import { NotSignedError, requestCertificate, waitForCertificate } from "./request-certificate.ts";
import type { RequestReference, SigningKube } from "./request-certificate.ts";

const STARTUP_TIMEOUT_MS = 60_000;
const SERVER_RETRY_MS = 2_000;
const APPROVAL_MS_MAX = 3_600_000;

/** A stored key (PEM) that lets a restarted agent find its earlier request. */
export interface PendingKey {
  read(): Promise<string | undefined>;
  write(key: string): Promise<void>;
  remove(): Promise<void>;
}

export interface JoinOptions {
  /** Client with a bootstrap token, which may create CSRs for nodes. */
  readonly kube: SigningKube;
  readonly nodeName: string;
  readonly store: CertificateStore;
  readonly pendingKey: PendingKey;
  readonly clock: Clock;
  readonly log: Log;
  /** How long the request is retried. Default: one minute. */
  readonly startupTimeoutMs?: number;
}

/** Resolves when the certificate is in the store. @throws if the request is denied, or not approved within an hour */
export async function joinCluster(options: JoinOptions, signal: AbortSignal): Promise<void> {
  const { kube, nodeName, store, pendingKey, clock, log } = options;
  const template = clientTemplate(nodeName);
  const keyText = await keyOf(store, pendingKey);
  const key = createPrivateKey(keyText);
  const publicKey = createPublicKey(key);
  const name = joiningRequestName(template, publicKey);
  const asked = { name, template, signerName: "kubernetes.io/kube-apiserver-client-kubelet", key, publicKey } as const;
  const request = await onceReached(options, () => requestCertificate(kube, asked), signal);
  log.info("certificate requested, waiting for approval", { request: request.name });
  const late = new AbortController();
  const over = new AbortController();
  const timing = clock.after(APPROVAL_MS_MAX, AbortSignal.any([signal, over.signal])).then(
    () => late.abort(new Error(`${request.name} was not approved within an hour`)),
    () => undefined,
  );
  try {
    const cert = await waitForCertificate(kube, request, { clock, log }, AbortSignal.any([signal, late.signal]));
    await store.update({ cert, key: keyText });
  } finally {
    over.abort("settled");
    await timing;
  }
  await pendingKey.remove();
}

/** Returns the key of the stored certificate, or else the key of an interrupted join, or else a new key. */
async function keyOf(store: CertificateStore, pendingKey: PendingKey): Promise<string> {
  const former: KeyedCertificate | undefined = await store.current().catch(() => undefined);
  if (former !== undefined) return former.key;
  const pending = await pendingKey.read();
  if (pending !== undefined) return pending;
  const { privateKey } = generateKeyPairSync("ec", {
    namedCurve: "P-256",
    privateKeyEncoding: { type: "sec1", format: "pem" },
    publicKeyEncoding: { type: "spki", format: "pem" },
  });
  await pendingKey.write(privateKey);
  return privateKey;
}

/**
 * Retries connection errors, 5xx, 401 and 403: the API server may not have loaded tokens and roles yet.
 * Source: bootstrap.go waitForServer. Differs from upstream, which first polls /healthz and then makes a single attempt.
 */
async function onceReached(
  { clock, log, startupTimeoutMs = STARTUP_TIMEOUT_MS }: Pick<JoinOptions, "clock" | "log" | "startupTimeoutMs">,
  ask: () => Promise<RequestReference>,
  signal: AbortSignal,
): Promise<RequestReference> {
  const giveUpMs = clock.now() + startupTimeoutMs;
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      const isForGood = error instanceof NotSignedError || (error instanceof KubeApiError && error.code < 500 && !isRefused(error));
      if (isForGood || clock.now() >= giveUpMs) throw error;
      log.info(isRefused(error) ? "API server rejected the bootstrap credentials, retrying" : "failed to reach the API server, retrying", {
        error: messageOf(error),
      });
      await clock.after(SERVER_RETRY_MS, signal);
    }
  }
}

function isRefused(error: unknown): boolean {
  return isUnauthorized(error) || isForbidden(error);
}
