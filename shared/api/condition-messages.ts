/**
 * Messages of conditions are foreign text: a webhook's denial in `ReplicaFailure`, whatever another controller writes. A status
 * patch needs them whole, so they are cached whole; logs, captures and whatever else outlives the object get them cut.
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

const CUT = "(cut)";

/** `status` itself where there is nothing to cut. */
export function withoutForeignMessages<S extends { readonly conditions?: readonly Condition[] }>(status: S): S {
  const { conditions } = status;
  if (!Array.isArray(conditions) || !conditions.some(isForeign)) return status;
  return { ...status, conditions: conditions.map((each) => (isForeign(each) ? { ...each, message: CUT } : each)) };
}

function isForeign(condition: Condition | null): boolean {
  const message = condition?.message;
  return message !== undefined && message !== "" && message !== CUT && !(typeof message === "string" && OWN_SENTENCES.test(message));
}
