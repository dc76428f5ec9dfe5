/** A user's changes to an owner's spec, field by field. */
import { timeIn } from "../evidence/fields.ts";
import type { FieldManager } from "../evidence/field-owners.ts";
import { templateDifferences } from "../evidence/owner-evidence.ts";
import type { TemplateDifference } from "../evidence/owner-evidence.ts";
import type { SeenOwner } from "./seen.ts";

export interface SpecChange extends TemplateDifference {
  /** Time of the record, or of the field manager's last write; undefined if unknown. */
  readonly atMs?: number | undefined;
  /** The field manager, as `managedFields` names it. */
  readonly manager?: string;
  /** The user, from an audit log. */
  readonly user?: string;
  /** The revision with this change, if its rollout has been complete. */
  readonly completedRevision?: number;
}

const PLAIN = ["replicas", "paused", "minReadySeconds", "progressDeadlineSeconds"] as const;

/** Whether a change of the field begins a rollout. */
export function isOfTemplate(field: string): boolean {
  return !PLAIN.some((each) => each === field) && !field.startsWith("strategy.");
}

export function specChanges(
  before: SeenOwner,
  after: SeenOwner,
  { atMs, by }: { readonly atMs: number; readonly by?: string | undefined },
): readonly SpecChange[] {
  const plain = PLAIN.flatMap((field) =>
    before[field] === after[field] ? [] : [{ field, from: String(before[field]), to: String(after[field]) }],
  );
  const strategy = (["type", "maxSurge", "maxUnavailable"] as const).flatMap((field) =>
    before.strategy[field] === after.strategy[field]
      ? []
      : [{ field: `strategy.${field}`, from: String(before.strategy[field]), to: String(after.strategy[field]) }],
  );
  const template = before.template && after.template ? templateDifferences(before.template, after.template) : [];
  const changes = [...plain, ...strategy, ...template].map((difference) => ({
    ...difference,
    ...managed(after, difference.field),
    atMs,
    ...(by !== undefined && { user: by }),
  }));
  return after.generation === (before.generation ?? 0) + 1 ? ofOneRequest(changes, writersSince(before, after)) : changes;
}

/** The revision whose rollout the Deployment reports as complete, and since when; undefined after a change that it has not observed. */
export function completeRollout(owner: SeenOwner): { readonly revision: number; readonly atMs: number } | undefined {
  const { generation = 0, revision, status, conditions } = owner;
  const complete = conditions.find(({ type, reason }) => type === "Progressing" && reason === "NewReplicaSetAvailable");
  const atMs = complete && timeIn({ ...complete }, "lastUpdateTime");
  if (revision === undefined || atMs === undefined || (status.observedGeneration ?? 0) < generation) return undefined;
  return { revision, atMs };
}

/** @param owner the Deployment after the changes and before any other */
export function withCompletion(changes: readonly SpecChange[], owner: SeenOwner): readonly SpecChange[] {
  const completedRevision = completeRollout(owner)?.revision;
  if (completedRevision === undefined) return changes;
  return changes.map((change) => (isOfTemplate(change.field) ? { completedRevision, ...change } : change));
}

/** Managers that wrote between two recordings. No manager owns a field that it removed. */
function writersSince(before: SeenOwner, { managers }: SeenOwner): readonly string[] {
  const known = new Set(before.managers.map(({ manager, time }) => `${manager} ${time}`));
  return managers.flatMap(({ manager, subresource, time }) =>
    subresource === "status" || known.has(`${manager} ${time}`) ? [] : [manager],
  );
}

/** Assigns the known writer to changes without a known writer, because one request made all of them. */
function ofOneRequest(changes: readonly SpecChange[], writers: readonly string[]): readonly SpecChange[] {
  const owners = changes.flatMap((change) => change.manager ?? []);
  const [manager, ...others] = new Set(owners.length > 0 ? owners : writers);
  if (manager === undefined || others.length > 0) return changes;
  return changes.map((change) => ({ manager, ...change }));
}

/** The pause of a Deployment, if the capture lacks the change itself. */
export function pauseOf(deployment: SeenOwner): SpecChange {
  return { field: "paused", from: "false", to: "true", ...managed(deployment, "paused") };
}

/** The difference between the templates of two ReplicaSets of a Deployment, if the capture lacks the change itself. */
export function rolloutChanges(deployment: SeenOwner, before: SeenOwner, after: SeenOwner): readonly SpecChange[] {
  if (before.template === undefined || after.template === undefined) return [];
  return templateDifferences(before.template, after.template).map((difference) => ({
    ...difference,
    ...managed(deployment, difference.field),
  }));
}

/** The manager that owns the field (or the last writer among several managers), and the time of its last write. */
function managed({ managers }: SeenOwner, field: string): Pick<SpecChange, "manager" | "atMs"> {
  const roots = rootsOf(field);
  const owners = managers.filter(({ owns, subresource }) => subresource !== "status" && owns.some((each) => roots.includes(each)));
  const last = owners.toSorted((a: FieldManager, b: FieldManager) => ((a.time ?? "") < (b.time ?? "") ? 1 : -1))[0];
  return last === undefined ? {} : { manager: last.manager, atMs: timeIn({ ...last }, "time") };
}

/** The owned fields that show who changed a field, in the words of field-owners.ts. */
function rootsOf(field: string): readonly string[] {
  if (field.startsWith("strategy.")) return ["strategy"];
  const name = /^(?:init )?container (.+)$/.exec(field)?.[1];
  // A capture may lack the name of a container among the owned fields; every container has an image.
  return name === undefined ? [field.replace(/(\.(?:resources|[a-z]+Probe))\..*$/, "$1")] : [`container ${name}`, `${name}.image`];
}

export function fieldManagerOf(owner: SeenOwner, field: string): string | undefined {
  return managed(owner, field).manager;
}
