/**
 * What a leader does with the epoch that it finds (informer §11.11): resume it, open a new one, or leave it to the other cluster that works
 * on it. Pure; checked as a whole by the model in test/simulation/lineage/model.mjs.
 *
 * EN1 an epoch is resumed only if the Lease lists the Store's term with at least that count, or this process created the term.
 * EN2 a foreign epoch is replaced once its epoch, token and checkpoint have not changed for STILL_MS of this process' own clock; if one
 *     changes, the other cluster is active, and this leader releases its Lease and exits.
 * EN3 an epoch without a term is of an older build: it is resumed unless the Lease lists terms, which an older leader erases.
 * EN4 another identity (projection, digests, layout) replaces an epoch of its own lineage only.
 */
import { lists } from "@deltaloop/store/ports";
import type { Lineage, Proof, TermToken } from "@deltaloop/store/ports";

/** Annotations of the Lease: terms, oldest first, the token last (LE6); the final checkpoint (LE8); the epoch that `resume --lineage` approves to be replaced. */
export const LEASE_TERMS = "deltaloop.dev/terms";
export const LEASE_FINAL = "deltaloop.dev/final-checkpoint";
export const LEASE_APPROVED = "deltaloop.dev/replace-epoch";

/** How long another cluster's epoch must be unchanged before it is replaced. */
export const STILL_MS = 60_000;

/** The terms that identify this cluster's epochs: those in its Lease and those of this process. */
export interface OwnLineage {
  /** Absent if there is no Lease; clusters then cannot be distinguished. */
  readonly lease?: {
    /** Earlier terms, as the Lease lists them. */
    readonly listed: readonly TermToken[];
    /** Terms of this process. */
    readonly minted: ReadonlySet<string>;
    /** The epoch whose replacement a user has approved (`deltaloop resume --lineage`). */
    readonly approved?: string;
  };
  /** The epoch that this leader has decided to replace. */
  readonly replaces?: string;
  /** Whether the epoch's record is of this build and cluster. */
  readonly isSameIdentity: (lineage: Lineage) => boolean;
}

/** Another cluster's epoch, and when its present state was first seen. */
export interface Sighting {
  readonly text: string;
  readonly sinceMs: number;
}

export type Decision =
  /** `expected` is the term in the Store. */
  | { readonly kind: "resume"; readonly epoch: string; readonly expected: string | undefined }
  | { readonly kind: "open"; readonly over: Lineage | undefined; readonly why: string }
  | { readonly kind: "wait"; readonly sighting: Sighting }
  | { readonly kind: "exit" };

export function decideEpoch(current: Lineage | undefined, own: OwnLineage, seen: Sighting | undefined, nowMs: number): Decision {
  if (current === undefined) return { kind: "open", over: undefined, why: "no epoch exists" };
  const text = lineageText(current);
  if (isForeign(current, own)) {
    if (own.lease?.approved === current.record.epoch)
      return { kind: "open", over: current, why: "a user approved the replacement of the epoch" };
    if (seen === undefined) return { kind: "wait", sighting: { text, sinceMs: nowMs } };
    if (seen.text !== text) return { kind: "exit" };
    if (nowMs - seen.sinceMs < STILL_MS) return { kind: "wait", sighting: seen };
    return { kind: "open", over: current, why: `another cluster's epoch has not changed for ${STILL_MS / 1_000} s` };
  }
  if (current.record.epoch === own.replaces)
    return { kind: "open", over: current, why: "this leader has already decided to replace the epoch" };
  if (!own.isSameIdentity(current)) return { kind: "open", over: current, why: "another build or cluster opened the epoch" };
  return { kind: "resume", epoch: current.record.epoch, expected: current.token?.term };
}

/** EN1, EN3: whether the epoch is another cluster's. */
export function isForeign({ token }: Lineage, { lease }: Pick<OwnLineage, "lease">): boolean {
  if (!lease) return false;
  if (!token) return lease.listed.length > 0;
  return !lease.minted.has(token.term) && !lists(lease.listed, token);
}

/** Epoch, token and checkpoint in one text. */
export function lineageText({ record, token, checkpoint }: Lineage): string {
  return [record.epoch, token?.term, token?.count, checkpoint?.fence, checkpoint?.number].map((part) => part ?? "").join(" ");
}

/** A proof for `openFence`, as the Lease's annotation has it: `<term>.<count> <fence> <number> <leaseTransitions>`. */
export function finalText({ token, checkpoint }: Omit<Proof, "isExact">, transitions: number): string {
  return `${tokenText(token)} ${checkpoint.fence} ${checkpoint.number} ${transitions}`;
}

/** The proof, if it was written for these `transitions`: an older build may leave an outdated annotation in place. */
export function parseFinal(text: string | undefined, transitions: number): Proof | undefined {
  const [token, fence, number, written] = (text ?? "").split(" ");
  const [parsed] = parseTerms(token);
  if (!parsed || fence === undefined || number === undefined || written !== String(transitions)) return undefined;
  return { token: parsed, checkpoint: { fence, number: Number(number) }, isExact: true };
}

export function tokenText({ term, count }: TermToken): string {
  return `${term}.${count}`;
}

/** Parses the Lease's terms annotation, oldest first; skips unreadable terms. */
export function parseTerms(text: string | undefined): readonly TermToken[] {
  return (text ?? "").split(" ").flatMap((part) => {
    const [, term, count] = /^([0-9a-z]+)\.(\d{1,15})$/.exec(part) ?? [];
    return term === undefined ? [] : [{ term, count: Number(count) }];
  });
}
