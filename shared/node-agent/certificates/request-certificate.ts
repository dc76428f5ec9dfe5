/** Requests a certificate from the cluster and waits until it is approved and signed. Source: client-go util/certificate/csr/csr.go. */
import type { KeyObject } from "node:crypto";
import { parseWatchLine } from "@deltaloop/kube/list-watch";
import { messageOf } from "@deltaloop/kube/objects";
import type { Resource } from "@deltaloop/kube/objects";
import { certificateRequest, isSameRequest } from "../kubelet/certificate/certificate-request.ts";
import type { CertificateTemplate } from "../kubelet/certificate/certificate-request.ts";
import { requestIn, signingOutcome, signingRequest, usagesOf } from "../kubelet/certificate/signing-request.ts";
import type { SignerName, SigningOutcome } from "../kubelet/certificate/signing-request.ts";
import type { Clock, Log } from "@deltaloop/base";
import { isAlreadyExists } from "@deltaloop/kube/client";
import type { KubeReader, KubeWatch, KubeWriter } from "@deltaloop/kube/client";

export type SigningKube = KubeReader & KubeWriter & KubeWatch<Resource>;

/** The request was denied, has failed or was deleted. An administrator must act; the agent retries with a new key. */
export class NotSignedError extends Error {
  override readonly name = "NotSignedError";
}

const RESOURCE = "certificatesigningrequests";
const RETRY_MS = 1_000;
const WATCH_SECONDS = 300;

export interface RequestReference {
  readonly name: string;
  readonly uid: string;
}

/**
 * Creates the CSR, or continues with an existing one that has the same name, content and key.
 *
 * @throws the API server's error; NotSignedError if the existing CSR differs
 */
export async function requestCertificate(
  kube: SigningKube,
  given: {
    readonly name: string;
    readonly template: CertificateTemplate;
    readonly signerName: SignerName;
    readonly key: KeyObject;
    readonly publicKey: KeyObject;
  },
): Promise<RequestReference> {
  const { name, template, signerName, key, publicKey } = given;
  const request = certificateRequest(template, key, publicKey);
  const body = signingRequest({ name, request, signerName, usages: usagesOf(signerName, key) });
  try {
    return { name, uid: (await kube.create({ resource: RESOURCE, namespace: "", body })).metadata.uid };
  } catch (error) {
    if (!isAlreadyExists(error)) throw error;
    const there = await kube.get(RESOURCE, "", name);
    if (there === undefined) throw error;
    const asked = requestIn(there);
    if (asked.signerName !== signerName || !isSameRequest(asked.request, template, publicKey))
      throw new NotSignedError(`retrieved csr is not compatible: "${name}" is a different request`);
    return { name, uid: there.metadata.uid };
  }
}

/**
 * Waits until the CSR is signed; retries all errors of the API server. @returns the certificate in PEM @throws {NotSignedError}, or the
 * signal's reason
 */
export async function waitForCertificate(
  kube: SigningKube,
  { name, uid }: RequestReference,
  { clock, log }: { readonly clock: Clock; readonly log: Log },
  signal: AbortSignal,
): Promise<string> {
  for (;;) {
    signal.throwIfAborted();
    try {
      const certificate = await followRequest(kube, { name, uid }, signal);
      if (certificate !== undefined) return certificate;
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof NotSignedError) throw error;
      log.debug("failed to get or watch a certificate request, retrying", { name, error: messageOf(error) });
      await clock.after(RETRY_MS, signal);
    }
  }
}

/** Reads the CSR once and then watches it until the watch ends. */
async function followRequest(kube: SigningKube, { name, uid }: RequestReference, signal: AbortSignal): Promise<string | undefined> {
  const fieldSelector = `metadata.name=${name}`;
  const resourceVersion = await kube.newestVersion(RESOURCE, { fieldSelector }, signal);
  const object = await kube.get(RESOURCE, "", name);
  if (object === undefined) throw new NotSignedError(`csr "${name}" was deleted`);
  const before = certificateOf(signingOutcome(object, uid));
  if (before !== undefined) return before;
  const query = { fieldSelector, resourceVersion, allowWatchBookmarks: true, timeoutSeconds: WATCH_SECONDS };
  for await (const lines of kube.watch(RESOURCE, query, signal))
    for (const line of lines) {
      const event = parseWatchLine(line);
      if (event.kind === "error") throw event.error;
      if (event.kind !== "change") continue;
      if (event.type === "D") throw new NotSignedError(`csr "${name}" was deleted`);
      const certificate = certificateOf(signingOutcome(event.object, uid));
      if (certificate !== undefined) return certificate;
    }
  return undefined;
}

function certificateOf(outcome: SigningOutcome): string | undefined {
  if (outcome.kind === "refused") throw new NotSignedError(outcome.why);
  return outcome.kind === "issued" ? outcome.certificate : undefined;
}
