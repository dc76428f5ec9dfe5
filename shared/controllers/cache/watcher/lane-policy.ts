/**
 * Chooses how many lanes an epoch begins with, and when they grow (LG1, LG2 of shared/store/lane.ts; informer §10.9).
 *
 * GL1 an epoch is small if a list finds at most `smallMax` objects of each resource. If the list fails, it is not small.
 * GL2 all resources grow together, and once: when one of them has more than `rowsMax` rows, or had more than `unappliedMax` unapplied messages
 *     in BEHIND_CHECKPOINTS checkpoints in a row while the applier worked, or has grown already. `rowsMax` exceeds `smallMax`, so a new epoch
 *     does not soon grow.
 * GL3 the Store may refuse growth; it is tried again after RETRY_MS.
 */
import { describeError } from "@deltaloop/kube/client";
import type { KubeWatch } from "@deltaloop/kube/client";
import type { Resource, View } from "@deltaloop/kube/objects";
import type { Clock, Log } from "@deltaloop/base";
import { LANES, lanesOf } from "@deltaloop/store/ports";
import type { ResourceHealth } from "@deltaloop/store/ports";
import { CACHED_RESOURCES } from "@deltaloop/kube/objects";

export interface LanePolicy {
  /** Objects of each resource, at most, with which an epoch begins with one lane per resource. */
  readonly smallMax: number;
  /** More rows of a single lane make it grow. */
  readonly rowsMax: number;
  /** More unapplied messages of a single lane make it grow. */
  readonly unappliedMax: number;
}

export const LANE_POLICY: LanePolicy = { smallMax: 1_000, rowsMax: 2_000, unappliedMax: 100 };

const BEHIND_CHECKPOINTS = 3;
const RETRY_MS = 60_000;

/** GL1. Returns the number of lanes with which each resource begins; undefined: LANES. */
export async function initialLanes(
  { kube, log }: { readonly kube: Pick<KubeWatch<Resource>, "listPage">; readonly log: Log },
  { smallMax }: LanePolicy,
  signal: AbortSignal,
): Promise<number | undefined> {
  try {
    const grown = CACHED_RESOURCES.filter((resource) => LANES[resource] > 1);
    const query = { limit: smallMax + 1, metadataOnly: true } as const;
    const pages = await Promise.all(grown.map((resource) => kube.listPage(resource, query, signal)));
    return pages.every(({ items, continue: next = "" }) => next === "" && items.length <= smallMax) ? 1 : undefined;
  } catch (error) {
    if (!signal.aborted) log.warn("failed to count objects; the epoch begins with all lanes", { error: describeError(error) });
    return undefined;
  }
}

/** What a checkpoint has found of one resource. */
export type Measured = Pick<ResourceHealth, "resource" | "applied" | "rows"> & {
  /** Messages that the Store had not applied at the checkpoint. */
  readonly unapplied: number;
};

/** Decides at each checkpoint of a term whether the lanes grow (GL2, GL3). */
export class LaneGrowth {
  readonly #policy: LanePolicy;
  readonly #clock: Clock;
  readonly #waitsUntilMs: number;
  readonly #behind = new Map<View, { readonly checkpoints: number; readonly applied: number }>();

  /** @param isRetry whether the term began with growth */
  constructor(policy: LanePolicy, clock: Clock, isRetry: boolean) {
    this.#policy = policy;
    this.#clock = clock;
    this.#waitsUntilMs = isRetry ? clock.now() + RETRY_MS : 0;
  }

  /** Returns why the lanes grow now; undefined if they do not. */
  decide(measured: readonly Measured[]): string | undefined {
    const reasons = measured.flatMap((each) => this.#reason(each) ?? []);
    const isSmall = measured.some(({ resource, applied }) => applied.length < lanesOf(resource));
    return isSmall && this.#clock.now() >= this.#waitsUntilMs ? reasons[0] : undefined;
  }

  #reason({ resource, applied, rows = 0, unapplied }: Measured): string | undefined {
    if (lanesOf(resource) === 1) return undefined;
    if (applied.length > 1) return `${resource} have ${applied.length} lanes`;
    const { rowsMax, unappliedMax } = this.#policy;
    if (rows > rowsMax) return `${rows} ${resource} are cached`;
    const before = this.#behind.get(resource);
    const sum = applied.reduce((a, b) => a + b, 0);
    const isBehind = unapplied > unappliedMax && (before === undefined || sum > before.applied);
    const checkpoints = isBehind ? (before?.checkpoints ?? 0) + 1 : 0;
    this.#behind.set(resource, { checkpoints, applied: sum });
    return checkpoints >= BEHIND_CHECKPOINTS ? `${unapplied} messages of ${resource} are not applied` : undefined;
  }
}
