/**
 * Why a decision fell as it did, as data: decisions make it of the very numbers they decide by, and return it beside their writes, so
 * it cannot disagree with them. Its words are elsewhere (shared/replay/explain).
 */

/** Names, numbers and yes or no, never a value of a template or of somebody's annotation. Undefined: not there, or not set. */
export type Facts = Readonly<Record<string, number | string | boolean | undefined>>;

/** What a decision came to, and by which reasons. */
export interface Decision<T, R extends Reason = Reason> {
  readonly decided: T;
  readonly why: readonly R[];
}

export interface Reason<Rule extends string = string, F extends Facts = Facts> {
  /** The rule that decided, or that let nothing happen. */
  readonly rule: Rule;
  /** The pod or ReplicaSet it speaks of; absent = the owner. */
  readonly about?: string;
  /** What the rule looked at and came to. */
  readonly facts: F;
}
