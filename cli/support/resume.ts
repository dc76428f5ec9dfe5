/** What `deltaloop resume` looks at, and whether it may (informer §11.9). */
import { CACHED_RESOURCES } from "../../shared/api/resources.ts";
import { foreignWrite } from "../../shared/cache/foreign-write.ts";
import type { KubeWatch } from "../../shared/ports/kube.ts";
import type { ForeignWrite, GuardState } from "../../shared/ports/store.ts";
import { describeForeignWrite } from "../../shared/ports/store/guard.ts";

/** A controller that is at work writes more often than that while anything moves; where nothing does, its next write stops us again. */
const QUIET_MS = 30_000;
const PAGE = 500;

/** The newest status on the whole cluster that another controller wrote. Reads metadata alone. */
export async function newestForeignWrite(kube: Pick<KubeWatch, "listPage">, signal: AbortSignal): Promise<ForeignWrite | undefined> {
  let newest: ForeignWrite | undefined;
  for (const resource of CACHED_RESOURCES) {
    if (resource === "pods") continue; // nobody looks at their statuses
    for (let next: string | undefined = ""; next !== undefined;) {
      const page = await kube.listPage(resource, { metadataOnly: true, limit: PAGE, ...(next !== "" && { continue: next }) }, signal);
      for (const item of page.items) newest = foreignWrite(resource, item, newest?.atMs ?? 0) ?? newest;
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
  return { kind: "resume", forgivenMs: Math.max(newest?.atMs ?? 0, stop.kind === "seen" ? stop.write.atMs : 0) };
}
