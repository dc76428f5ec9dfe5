/** Whether `kubectl rollout undo` removes a cause, and the help that suggests it. */
import { templateDifferences } from "../evidence/owner-evidence.ts";
import type { Finding, Target, Words } from "../findings/finding.ts";
import { endedAvailability, podName } from "../incident/view.ts";
import type { View } from "../incident/view.ts";

/** Whether an undo is possible, and the template of the previous revision differs in what fails. Unknown templates may differ. */
export function canUndo({ owner, current, previous, oldPods }: View, cause: Finding | undefined): boolean {
  if (previous === undefined || owner?.paused === true) return false;
  const [before, now] = [previous.template, current?.template];
  if (cause === undefined || before === undefined || now === undefined) return true;
  const { kind, facts } = cause;
  // The rollout itself needs the additional pods.
  if (kind.startsWith("quota") || (kind === "unschedulable" && oldPods.length > 0)) return true;
  const { container } = facts;
  const relates = RELATED.find(([kinds]) => kinds.test(kind))?.[1];
  const initial = new Set([...before.initContainers, ...now.initContainers].map(({ name }) => name));
  return templateDifferences(before, now).some(({ field }) => {
    const of = containerOf(field);
    if (container === undefined) return relates?.test(field) ?? true;
    if (relates === undefined) return of === undefined || of === container || initial.has(of);
    return (of === undefined || of === container) && relates.test(field);
  });
}

const ADDED = "^(?:init )?container ";
/** Kinds of findings, and the fields of the template that decide about them. Other kinds depend on any field of their container or pod. */
const RELATED: readonly (readonly [RegExp, RegExp])[] = [
  [/^image /, new RegExp(`${ADDED}|\\.image(?:PullPolicy)?$|^(?:imagePullSecrets|serviceAccountName)$`)],
  [/^(?:key|object) missing$/, new RegExp(`${ADDED}|\\.env(?:\\.|From$)`)],
  [/^volume (?:key|object) missing$/, /^volumes$/],
  [
    /^(?:unschedulable|preempted)$/,
    new RegExp(
      `${ADDED}|\\.resources\\.|\\.ports$|^(?:affinity|nodeSelector|nodeName|tolerations|topologySpreadConstraints|priorityClassName|resources|overhead|hostNetwork|volumes|resourceClaims|runtimeClassName|schedulerName)$`,
    ),
  ],
];

/** The container of a field in `templateDifferences`; undefined for a field of the pod. */
function containerOf(field: string): string | undefined {
  return /^(?:init )?container (.+)$/.exec(field)?.[1] ?? (field.includes(".") ? field.split(".")[0] : undefined);
}

/** Adds the undo to the help of a cause that affects only new pods, if pods of the previous revision run or were available. */
export function withUndo(words: Words, { level, kind, objects }: Finding, view: View, target: Target): Words {
  const { namespace, object, hasOldPods } = target;
  const undo = `kubectl -n ${namespace} rollout undo ${object}`;
  const own = new Set([...view.pods.map(podName), `replicaset/${view.current?.name}`]);
  const isOwn = objects.every((each) => own.has(each)) && !kind.startsWith("node ");
  if (level !== "cause" || !isOwn || !target.canUndo || !(hasOldPods || endedAvailability(view)) || words.help?.includes(undo) === true)
    return words;
  return { ...words, help: [...(words.help ?? []), undo] };
}
