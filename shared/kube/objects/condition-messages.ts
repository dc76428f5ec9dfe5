/**
 * Messages of conditions are foreign text: a webhook's denial in `ReplicaFailure`, whatever another controller writes. A status
 * patch needs them whole, so they are cached whole; logs, captures and whatever else outlives the object get them cut, but for sentences
 * that are known to name objects and numbers alone.
 */
import type { Condition } from "./wire.ts";

const REPLICA_SET = String.raw`replica set "[a-z0-9.-]+"`;
const SUBJECT = String.raw`(?:ReplicaSet|Deployment) "[a-z0-9.-]+"`;
/** What the Deployment controller says in its own words, which name objects and quote nobody. */
const OWN_SENTENCES = new RegExp(
  `^(?:${[
    String.raw`Deployment (?:has|does not have) minimum availability\.`,
    String.raw`Deployment is (?:paused|resumed)`,
    `(?:Created new|Found new) ${REPLICA_SET}`,
    String.raw`${SUBJECT} (?:has successfully progressed|is progressing|has timed out progressing)\.`,
  ].join("|")})$`,
);

const NAME = String.raw`[a-z0-9.-]+`;
/** As `requests.cpu=500m`. */
const QUANTITY = String.raw`[a-z0-9.-]+(?:/[A-Za-z0-9._-]+)?=\d[\d.]*(?:[eE][+-]?\d+|[numkMGTPE]i?)?`;
const QUANTITIES = `${QUANTITY}(?:,${QUANTITY})*`;
/** Whose quota refuses a pod: names and numbers again. Source: apiserver resourcequota/controller.go CheckRequest, prettyPrint. */
const QUOTA_SENTENCE = new RegExp(
  String.raw`^pods "${NAME}" is forbidden: exceeded quota: ${NAME}, requested: ${QUANTITIES}, used: ${QUANTITIES}, limited: ${QUANTITIES}$`,
);

const CUT = "(cut)";

/** `status` itself where there is nothing to cut. */
export function withoutForeignMessages<S extends { readonly conditions?: readonly Condition[] }>(status: S): S {
  const { conditions } = status;
  if (!Array.isArray(conditions) || !conditions.some(isForeign)) return status;
  return { ...status, conditions: conditions.map((each) => (isForeign(each) ? { ...each, message: CUT } : each)) };
}

function isForeign(condition: Condition | null): boolean {
  const message = condition?.message;
  return message !== undefined && message !== "" && message !== CUT && !isKnownSentence(message);
}

/** Whether it quotes nobody, and may be told to people. */
export function isKnownSentence(message: unknown): message is string {
  return typeof message === "string" && (OWN_SENTENCES.test(message) || QUOTA_SENTENCE.test(message));
}
