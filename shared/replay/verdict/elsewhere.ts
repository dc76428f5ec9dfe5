/** The last change of another workload of the namespace shortly before a cause: a circumstance, not a cause. */
import type { Finding } from "../findings/finding.ts";
import { objectOf } from "../findings/quota.ts";
import type { SeenOwner } from "../incident/seen.ts";
import type { SpecChange } from "../incident/spec-changes.ts";
import type { View } from "../incident/view.ts";
import { beforeCause } from "./no-change.ts";

/** The creation of another workload of the namespace, or one request that changed its spec. */
export interface ChangeElsewhere {
  readonly object: string;
  readonly atMs: number;
  readonly manager?: string | undefined;
  /** Empty for a creation. */
  readonly changes: readonly SpecChange[];
}

/** Causes that more pods of another workload may have. */
const BY_MORE_PODS = /^(?:quota exceeded|unschedulable|preempted)$|probe/;

/** @param isUnchanged whether no request changed the workload itself; then any change of another one counts, else only additional pods */
export function changeElsewhere(view: View, cause: Finding | undefined, isUnchanged: boolean): ChangeElsewhere | undefined {
  const { state, owner } = view;
  if (owner?.template === undefined || cause?.level !== "cause" || cause.kind === "deleted") return undefined;
  if (!isUnchanged && !BY_MORE_PODS.test(cause.kind)) return undefined;
  const others = state.owners.filter((each) => each.namespace === owner.namespace && each.ownerUid === undefined && each !== owner);
  const { fromMs, untilMs } = windowOf(view, cause);
  return others
    .flatMap((each) => [...creation(each), ...requests(each, state.changesOf(each.uid))])
    .filter((each) => each.atMs <= untilMs && each.atMs >= fromMs && (isUnchanged || addsPods(each)))
    .toSorted((a, b) => b.atMs - a.atMs)[0];
}

/** What fills a quota may have begun long before: after the last pod that it admitted. */
function windowOf({ pods, oldPods, terminating }: View, cause: Finding): ReturnType<typeof beforeCause> {
  const { fromMs, untilMs } = beforeCause(cause);
  const created = [...pods, ...oldPods, ...terminating].flatMap(({ createdMs }) => createdMs ?? []);
  return { fromMs: cause.kind === "quota exceeded" && created.length > 0 ? Math.max(...created) : fromMs, untilMs };
}

function addsPods({ changes }: ChangeElsewhere): boolean {
  return changes.length === 0 || changes.some(({ field, from, to }) => field === "replicas" && Number(to) > Number(from));
}

function creation(owner: SeenOwner): readonly ChangeElsewhere[] {
  const { createdMs, managers } = owner;
  if (createdMs === undefined) return [];
  const creator = managers.find(({ subresource, time }) => subresource === undefined && Date.parse(time ?? "") === createdMs);
  return [{ object: objectOf(owner), atMs: createdMs, manager: creator?.manager, changes: [] }];
}

function requests(owner: SeenOwner, changes: readonly SpecChange[]): readonly ChangeElsewhere[] {
  return [...Map.groupBy(changes, ({ atMs }) => atMs)].flatMap(([atMs, of]) =>
    atMs === undefined ? [] : [{ object: objectOf(owner), atMs, changes: of }],
  );
}
