/**
 * The reasons of a decision, as data. A decision builds them from the numbers it decides by and returns them with its writes, so the two
 * cannot disagree. shared/replay/explain has the texts.
 */
/** Names, numbers and booleans; never a value from a template or a user's annotation. Undefined means absent or not set. */
export type Facts = Readonly<Record<string, number | string | boolean | undefined>>;

/** The result of a decision and its reasons. */
export interface Decision<T, R extends Reason = Reason> {
  readonly decided: T;
  readonly why: readonly R[];
}

export interface Reason<Rule extends string = string, F extends Facts = Facts> {
  /** The rule that decided, or that prevented a change. */
  readonly rule: Rule;
  /** The pod or ReplicaSet that the reason concerns; absent = the owner. */
  readonly about?: string;
  /** The rule's inputs and result. */
  readonly facts: F;
}
