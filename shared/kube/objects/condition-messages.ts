/**
 * Condition messages are untrusted text: a webhook's denial in `ReplicaFailure`, or text of another controller. Status patches need the
 * complete messages, so they are cached completely. Logs, captures and other exports remove them, except for known sentences that contain
 * only names and numbers.
 */
import type { Condition } from "./wire.ts";

const REPLICA_SET = String.raw`replica set "[a-z0-9.-]+"`;
const SUBJECT = String.raw`(?:ReplicaSet|Deployment) "[a-z0-9.-]+"`;
/** The Deployment controller's own sentences, which hold object names only. */
const OWN_SENTENCES = new RegExp(
  `^(?:${[
    String.raw`Deployment (?:has|does not have) minimum availability\.`,
    String.raw`Deployment is (?:paused|resumed)`,
    `(?:Created new|Found new) ${REPLICA_SET}`,
    String.raw`${SUBJECT} (?:has successfully progressed|is progressing|has timed out progressing)\.`,
  ].join("|")})$`,
);

const NAME = String.raw`[a-z0-9.-]+`;
/** Matches a quantity, for example `requests.cpu=500m`. */
const QUANTITY = String.raw`[a-z0-9.-]+(?:/[A-Za-z0-9._-]+)?=\d[\d.]*(?:[eE][+-]?\d+|[numkMGTPE]i?)?`;
const QUANTITIES = `${QUANTITY}(?:,${QUANTITY})*`;
/** A quota's denial of a pod: names and numbers. Source: apiserver resourcequota/controller.go CheckRequest, prettyPrint. */
const QUOTA_SENTENCE = new RegExp(
  String.raw`^pods "${NAME}" is forbidden: exceeded quota: ${NAME}, requested: ${QUANTITIES}, used: ${QUANTITIES}, limited: ${QUANTITIES}$`,
);

const CUT = "(cut)";

/** Returns `status` without untrusted messages; `status` itself if there are none. */
export function withoutForeignMessages<S extends { readonly conditions?: readonly Condition[] }>(status: S): S {
  const { conditions } = status;
  if (!Array.isArray(conditions) || !conditions.some(isForeign)) return status;
  return { ...status, conditions: conditions.map((each) => (isForeign(each) ? { ...each, message: CUT } : each)) };
}

function isForeign(condition: Condition | null): boolean {
  const message = condition?.message;
  return message !== undefined && message !== "" && message !== CUT && !isKnownSentence(message);
}

/** Whether the message is a known sentence, which is safe to show. */
export function isKnownSentence(message: unknown): message is string {
  return typeof message === "string" && (OWN_SENTENCES.test(message) || QUOTA_SENTENCE.test(message));
}
