/**
 * The states of a podCertificate source (node-agent §10):
 *
 *     Initial → Wait → Fresh ⇄ WaitRefresh
 *                 ↘ Refused ↙
 *
 * Source: pkg/kubelet/podcertificate/podcertificatemanager.go handleProjection.
 */
import { parseTime, type KubeObject } from "@deltaloop/kube/objects";
import { certificateBlocks, pemBlock } from "../certificate/pem.ts";
import type { PodEvent } from "../events/pod-events.ts";
import { goQuote } from "../types/go-quote.ts";
import type { KeyAndChain } from "../types/projected-sources.ts";

/** A PodCertificateRequest without outcome; the key is PKCS #8, PEM. */
export interface PendingRequest {
  readonly name: string;
  readonly privateKey: string;
}

export interface Issued extends KeyAndChain {
  readonly beginRefreshAtMs: number;
  readonly notAfterMs: number;
  readonly isReportedOverdue: boolean;
  readonly isReportedExpired: boolean;
}

export type Credential =
  | { readonly kind: "Initial" }
  | { readonly kind: "Wait"; readonly request: PendingRequest }
  | { readonly kind: "Fresh"; readonly issued: Issued }
  | { readonly kind: "WaitRefresh"; readonly issued: Issued; readonly request: PendingRequest }
  /** Permanent; `message` is that of the mount's error. */
  | { readonly kind: "Refused"; readonly message: string };

/** A state whose request has no outcome yet. */
export type Pending = Extract<Credential, { readonly request: PendingRequest }>;

/** The fields of a PodCertificateRequest that the agent reads. */
export interface CertificateAnswer extends KubeObject {
  readonly status?: {
    readonly conditions?: readonly { readonly type: string; readonly reason?: string; readonly message?: string }[];
    readonly certificateChain?: string;
    readonly beginRefreshAt?: string;
    readonly notAfter?: string;
  };
}

export interface Step {
  readonly credential: Credential;
  readonly events: readonly PodEvent[];
}

const OVERDUE_AFTER_MS = 600_000;
/** Spreads the refreshes of certificates that were issued together. */
const REFRESH_JITTER_MS_MAX = 300_000;

/** Returns the agent's next step: create a request, read the pending one, or nothing. */
export function nextAct(credential: Credential, nowMs: number): "create" | "read" | "none" {
  switch (credential.kind) {
    case "Initial":
      return "create";
    case "Wait":
    case "WaitRefresh":
      return "read";
    case "Fresh":
      return nowMs < credential.issued.beginRefreshAtMs ? "none" : "create";
    case "Refused":
      return "none";
    default:
      return credential satisfies never;
  }
}

export function requestCreated(credential: Credential, request: PendingRequest): Credential {
  return credential.kind === "Fresh" ? { kind: "WaitRefresh", issued: credential.issued, request } : { kind: "Wait", request };
}

/**
 * The state after the pending request was read. @param answer undefined if the request was deleted: the next step creates another
 *
 * @param random in [0, 1) Differs from upstream, which waits ten minutes before it creates another, because its cache may lag.
 */
export function requestRead(credential: Pending, answer: CertificateAnswer | undefined, random: number): Step {
  if (answer === undefined)
    return { credential: credential.kind === "Wait" ? { kind: "Initial" } : { kind: "Fresh", issued: credential.issued }, events: [] };
  for (const condition of answer.status?.conditions ?? []) {
    const { type, reason = "", message = "" } = condition;
    if (type === "Denied" || type === "Failed") return refused(answer, type, `reason=${goQuote(reason)}`, `message=${goQuote(message)}`);
    if (type === "Issued") return { credential: { kind: "Fresh", issued: issuedFor(credential.request, answer, random) }, events: [] };
  }
  return { credential, events: [] };
}

/** Differs from upstream, whose Event has a formatting error: reason as message, then the message behind `%!(EXTRA`. */
function refused({ metadata }: CertificateAnswer, outcome: "Denied" | "Failed", reason: string, message: string): Step {
  const what = outcome === "Denied" ? "was denied" : "failed";
  return {
    credential: {
      kind: "Refused",
      message: `PodCertificateRequest was permanently ${outcome.toLowerCase()}: ${reason} ${message}`,
    },
    events: [
      {
        type: "Warning",
        reason: outcome,
        message: `PodCertificateRequest ${metadata.namespace}/${metadata.name} ${what}, ${reason}, ${message}`,
      },
    ],
  };
}

function issuedFor({ privateKey }: PendingRequest, { status }: CertificateAnswer, random: number): Issued {
  const certificateChain = certificateBlocks(status?.certificateChain ?? "")
    .map((der) => pemBlock("CERTIFICATE", der))
    .join("");
  return {
    privateKey,
    certificateChain,
    // The API server requires both times of an issued certificate.
    beginRefreshAtMs: (parseTime(status?.beginRefreshAt) ?? 0) + random * REFRESH_JITTER_MS_MAX,
    notAfterMs: parseTime(status?.notAfter) ?? 0,
    isReportedOverdue: false,
    isReportedExpired: false,
  };
}

/** Events of a certificate that is late, each once. */
export function reportLate(credential: Credential, nowMs: number): Step {
  if (!("issued" in credential)) return { credential, events: [] };
  const { issued } = credential;
  const isOverdue = nowMs > issued.beginRefreshAtMs + OVERDUE_AFTER_MS && !issued.isReportedOverdue;
  const isExpired = nowMs > issued.notAfterMs && !issued.isReportedExpired;
  const events: readonly PodEvent[] = [
    ...(isOverdue ? [{ type: "Warning", reason: "CertificateOverdueForRefresh", message: "PodCertificate refresh overdue" } as const] : []),
    ...(isExpired ? [{ type: "Warning", reason: "CertificateExpired", message: "PodCertificate expired" } as const] : []),
  ];
  const reported = {
    ...issued,
    isReportedOverdue: issued.isReportedOverdue || isOverdue,
    isReportedExpired: issued.isReportedExpired || isExpired,
  };
  return { credential: events.length === 0 ? credential : { ...credential, issued: reported }, events };
}
