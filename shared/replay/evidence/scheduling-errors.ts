/** Reduces the scheduler's message to counts of listed reasons: `2:insufficient:cpu,1:taint:node.kubernetes.io/not-ready`. */

const [COUNT, NAME] = [String.raw`(?<count>\d+) `, String.raw`[a-z0-9.-]*[a-z0-9]`];
/** The reasons that upstream's plugins give. Source: pkg/scheduler/framework/plugins/noderesources/fit.go. */
const REASONS: readonly (readonly [string, RegExp])[] = [
  ["insufficient", new RegExp(`^${COUNT}Insufficient (?<name>${NAME}(?:/[A-Za-z0-9._-]*[A-Za-z0-9])?)`)],
  ["pods", new RegExp(`^${COUNT}Too many pods`)],
  ["taint", new RegExp(`^${COUNT}node\\(s\\) had untolerated taint(?:\\(s\\)| \\{(?<name>[\\w./-]+)(?:: [^}]*)?\\})`)],
  ["cordon", new RegExp(`^${COUNT}node\\(s\\) were unschedulable`)],
  ["ports", new RegExp(`^${COUNT}node\\(s\\) didn't have free ports`)],
  ["node-affinity", new RegExp(`^${COUNT}node\\(s\\) didn't match Pod's node affinity`)],
  ["pod-affinity", new RegExp(`^${COUNT}node\\(s\\) didn't match pod affinity rules`)],
  [
    "pod-anti-affinity",
    new RegExp(`^${COUNT}node\\(s\\) didn't (?:match pod anti-affinity rules|satisfy existing pods anti-affinity rules)`),
  ],
  ["spread", new RegExp(`^${COUNT}node\\(s\\) didn't match pod topology spread constraints`)],
  ["volume-unbound", /^(?<count>)pod has unbound immediate PersistentVolumeClaims/],
  ["volume-missing", new RegExp(`^(?<count>)persistentvolumeclaim "(?<name>${NAME})" (?:not found|is being deleted)`)],
  [
    "volume",
    new RegExp(
      `^${COUNT}node\\(s\\) (?:didn't find available persistent volumes|didn't match PersistentVolume's node affinity|had volume node affinity conflict|had no available volume zone|exceed max volume count)`,
    ),
  ],
];

const HEAD = /^(?:\d+)\/(?<nodes>\d+) nodes are available: /;

/** Undefined for other messages. Unlisted reasons are omitted: a custom scheduler plugin may write any text. */
export function schedulingError(text: string): { readonly class: string; readonly slots: Readonly<Record<string, string>> } | undefined {
  if (text.startsWith("no nodes available to schedule pods")) return { class: "no nodes", slots: {} };
  const head = HEAD.exec(text);
  const nodes = head?.groups?.["nodes"];
  if (head === null || nodes === undefined) return undefined;
  const [listed = ""] = text.slice(head[0].length).split(/ ?preemption: | ?no new claims to deallocate/);
  const reasons = listed.split(/, (?=\d+ )|\. (?=\d+ )/).flatMap((part) => {
    for (const [name, pattern] of REASONS) {
      const groups = pattern.exec(part)?.groups;
      if (groups === undefined) continue;
      const of = groups["name"];
      return [`${groups["count"] === "" ? nodes : groups["count"]}:${name}${of === undefined ? "" : `:${of}`}`];
    }
    return [];
  });
  return { class: "unschedulable", slots: { nodes, ...(reasons.length > 0 && { reasons: reasons.join(",") }) } };
}
