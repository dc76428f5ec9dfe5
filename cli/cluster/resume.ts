/** Decides whether `deltaloop resume` may resume (informer §11.9). */
import { UsageError } from "@deltaloop/base";
import { CACHED_RESOURCES } from "@deltaloop/kube/objects";
import { claimOf, newestClaimed } from "@deltaloop/controllers/cache";
import type { KubeWatch, ListPage, ListQuery } from "@deltaloop/kube/client";
import { createPager } from "@deltaloop/kube/client";
import type { ForeignWrite, GuardState, Stop } from "@deltaloop/store/ports";
import { describeForeignWrite, describeStop, SKEW_MS, stoppedNamespaces } from "@deltaloop/store/ports";

/** During a rollout, an active controller writes more often than this interval. If it writes later, the guard stops everything again. */
const QUIET_MS = 30_000;

/**
 * The newest status of the cluster, or of `namespace`, that another controller has written, according to managedFields. These may be
 * forged, so future times are ignored; in the worst case the user must pass --force. `nowMs` is the API server's time.
 */
export async function newestForeignWrite(
  kube: Pick<KubeWatch, "listPage">,
  nowMs: number,
  signal: AbortSignal,
  namespace?: string,
): Promise<ForeignWrite | undefined> {
  let newest: ForeignWrite | undefined;
  for (const resource of CACHED_RESOURCES) {
    if (resource === "pods") continue; // deltaloop does not write their status
    const pager = createPager();
    for (let next: string | undefined = ""; next !== undefined;) {
      const within = namespace === undefined ? {} : { fieldSelector: `metadata.namespace=${namespace}` };
      const from: ListQuery = next === "" ? within : { ...within, continue: next };
      const page: ListPage = await pager((limit) => kube.listPage(resource, { metadataOnly: true, limit, ...from }, signal));
      for (const item of page.items) {
        const claim = claimOf(resource, item, newest?.atMs ?? 0);
        newest = (claim && newestClaimed(claim, nowMs + SKEW_MS)) ?? newest;
      }
      next = page.continue;
    }
  }
  return newest;
}

const LINES_MAX = 20;

/** Returns the stops that a resume ends, and the messages for users. @throws {UsageError} if `namespace` cannot be resumed alone */
export function stopsToResume(
  state: GuardState,
  namespace?: string,
): { readonly stops: readonly Stop[]; readonly lines: readonly string[] } {
  if (state.stop && namespace !== undefined)
    throw new UsageError(`everything is stopped, not only ${namespace}: run deltaloop resume without --namespace`);
  if (state.stop) return { stops: [state.stop], lines: [describeStop(state.stop)] };
  const found = [...stoppedNamespaces(state)].filter(([name]) => namespace === undefined || name === namespace).toSorted();
  const lines = found.slice(0, LINES_MAX).map(([name, stop]) => `namespace ${name} ${describeStop(stop)}`);
  const more = found.length > LINES_MAX ? [`and ${found.length - LINES_MAX} more namespaces`] : [];
  return { stops: found.map(([, stop]) => stop), lines: [...lines, ...more] };
}

export type Decision =
  | { readonly kind: "notStopped" }
  | { readonly kind: "refused"; readonly why: string }
  | { readonly kind: "resume"; readonly acceptedMs: number };

/** `nowMs` is the API server's time. `stops` are the stops to remove. */
export function decideResume(stops: readonly Stop[], newest: ForeignWrite | undefined, nowMs: number, isForced: boolean): Decision {
  if (stops.length === 0) return { kind: "notStopped" };
  const ageMs = newest === undefined ? Infinity : nowMs - newest.atMs;
  if (newest && ageMs < QUIET_MS && !isForced)
    return {
      kind: "refused",
      why: `${describeForeignWrite(newest)}, ${Math.max(0, Math.round(ageMs / 1_000))} s ago: wait until no other controller has written for ${QUIET_MS / 1_000} s, or use --force`,
    };
  const seenMs = Math.max(newest?.atMs ?? 0, ...stops.map((stop) => (stop.kind === "seen" ? stop.write.atMs : 0)));
  return { kind: "resume", acceptedMs: Math.min(seenMs, nowMs + SKEW_MS) };
}
