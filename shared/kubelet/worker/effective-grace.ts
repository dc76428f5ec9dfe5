/** How long a pod's containers have from the stop signal on (node-agent §4.4). */

/** Seconds all of them; what nobody said is absent. */
export interface GraceWishes {
  /** What earlier updates came to; 0 = nothing yet. */
  readonly recorded: number;
  /** Of the API server, for a pod that is being deleted. */
  readonly deletion?: number | undefined;
  /** Of whoever kills it faster than that, such as an eviction. */
  readonly override?: number | undefined;
  readonly spec: number;
}

export interface EffectiveGrace {
  readonly seconds: number;
  /** A stop in progress was promised more. */
  readonly shortened: boolean;
}

/** Nobody is killed without a signal first. */
const GRACE_SECONDS_MIN = 1;

/**
 * The grace that holds from now on. It only ever gets shorter, and `spec` counts only where nobody else has spoken:
 *
 *     recorded 0,  spec 30                         → 30
 *     recorded 0,  spec 30, deletion 5             → 5
 *     recorded 5,  deletion 60                     → 5
 *     recorded 30, deletion 5, override 2          → 2, shortened
 *     recorded 0,  deletion 0                      → 1
 *
 * Source: pkg/kubelet/pod_workers.go calculateEffectiveGracePeriod. Differs from upstream: a wish for 0 is one for 1. There, 0 is
 * also "nothing yet", so that an override of 30 beside a deletion with grace 0 makes 30, and a recorded 1 can grow.
 */
export function effectiveGrace({ recorded, deletion, override, spec }: GraceWishes): EffectiveGrace {
  let seconds = recorded;
  for (const wish of [deletion, override])
    if (wish !== undefined && (seconds === 0 || wish < seconds)) seconds = Math.max(wish, GRACE_SECONDS_MIN);
  const effective = seconds === 0 ? Math.max(spec, GRACE_SECONDS_MIN) : seconds;
  return { seconds: effective, shortened: recorded !== 0 && effective !== recorded };
}
