/** What `deltaloop resume` looks at, and whether it may (informer §11.9). */
import { CACHED_RESOURCES } from "@deltaloop/kube/objects";
import { claimOf, newestClaimed } from "@deltaloop/controllers/cache";
import type { KubeWatch, ListPage, ListQuery } from "@deltaloop/kube/client";
import { createPager } from "@deltaloop/kube/client";
import type { ForeignWrite, GuardState } from "@deltaloop/store/ports";
import { describeForeignWrite, SKEW_MS } from "@deltaloop/store/ports";

/** A controller that is at work writes more often than that while anything moves; where nothing does, its next write stops us again. */
const QUIET_MS = 30_000;

/**
 * The newest status on the whole cluster that another controller has written, as objects claim it: reads metadata alone, so somebody may have
 * made it up, and what is later than now counts for nothing. At worst it makes a person say --force. `nowMs`: by the API server's clock.
 */
export async function newestForeignWrite(
  kube: Pick<KubeWatch, "listPage">,
  nowMs: number,
  signal: AbortSignal,
): Promise<ForeignWrite | undefined> {
  let newest: ForeignWrite | undefined;
  for (const resource of CACHED_RESOURCES) {
    if (resource === "pods") continue; // nobody looks at their statuses
    const pager = createPager();
    for (let next: string | undefined = ""; next !== undefined;) {
      const from: ListQuery = next === "" ? {} : { continue: next };
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

export type Decision =
  | { readonly kind: "notStopped" }
  | { readonly kind: "refused"; readonly why: string }
  | { readonly kind: "resume"; readonly forgivenMs: number };

/** `nowMs`: by the API server's clock. */
export function decideResume(
  { stop }: Pick<GuardState, "stop">,
  newest: ForeignWrite | undefined,
  nowMs: number,
  isForced: boolean,
): Decision {
  if (!stop) return { kind: "notStopped" };
  const ageMs = newest === undefined ? Infinity : nowMs - newest.atMs;
  if (newest && ageMs < QUIET_MS && !isForced)
    return {
      kind: "refused",
      why: `${describeForeignWrite(newest)}, ${Math.max(0, Math.round(ageMs / 1_000))} s ago: wait until nobody has written for ${QUIET_MS / 1_000} s, or use --force`,
    };
  const seenMs = Math.max(newest?.atMs ?? 0, stop.kind === "seen" ? stop.write.atMs : 0);
  return { kind: "resume", forgivenMs: Math.min(seenMs, nowMs + SKEW_MS) };
}
