/** Another owner's selector matches the same pods. */
import type { Finding, Rule } from "./finding.ts";
import { objectOf } from "./quota.ts";
import type { View } from "../incident/view.ts";

const RANK = 64;

function find({ state, owner, pods }: View): readonly Finding[] {
  const labels = pods[0]?.labels;
  if (owner === undefined || labels === undefined) return [];
  const other = state.owners.find(
    (each) =>
      each.uid !== owner.uid &&
      each.resource === owner.resource &&
      each.namespace === owner.namespace &&
      each.ownerUid === undefined &&
      isSelecting(each.matchLabels, labels),
  );
  if (other === undefined) return [];
  return [
    {
      ...{ kind: "overlapping selectors", level: "cause", rank: RANK, confidence: "likely", since: other.createdMs },
      ...{
        objects: [objectOf(other)],
        evidence: [`the selector of ${objectOf(other)} matches pods of ${objectOf(owner)}`],
        facts: { other: objectOf(other) },
      },
    },
  ];
}

function isSelecting(selector: Readonly<Record<string, string>>, labels: Readonly<Record<string, string>>): boolean {
  const wanted = Object.entries(selector);
  return wanted.length > 0 && wanted.every(([name, value]) => labels[name] === value);
}

export const overlap: Rule = {
  find,
  words: {
    "overlapping selectors": ({ other }, { namespace }) => ({
      cause: `the selector of ${other} matches the same pods`,
      help: [`kubectl -n ${namespace} get ${other} -o yaml`],
    }),
  },
};
