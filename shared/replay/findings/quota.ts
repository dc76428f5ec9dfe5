/** A ResourceQuota or LimitRange that makes the API server reject pods. */
import type { Finding, Rule } from "./finding.ts";
import { refusedPods } from "../incident/refused-pods.ts";
import type { View } from "../incident/view.ts";

const RANK = 10;
const CLASSES = ["quota exceeded", "quota needs a value", "quota missing", "limit range"];

function find(view: View): readonly Finding[] {
  const refused = refusedPods(view);
  if (refused?.message === undefined || !CLASSES.includes(refused.message.class)) return [];
  const { owner, message, since, evidence } = refused;
  const quota = view.state.others.resourcequotas.find(
    ({ metadata }) => metadata.name === message.slots["quota"] && metadata.namespace === owner.namespace,
  );
  const amounts = Object.entries(quota?.status.hard ?? {}).map(([name, hard]) => `${name} ${quota?.status.used[name] ?? "0"}/${hard}`);
  return [
    {
      ...{ kind: message.class, level: "cause", rank: RANK, confidence: "certain", since },
      objects: [objectOf(owner)],
      evidence: [...evidence, ...(amounts.length > 0 ? [`quota now: ${amounts.slice(0, 4).join(", ")}`] : [])],
      facts: message.slots,
    },
  ];
}

export function objectOf({ resource, name }: { readonly resource: string; readonly name: string }): string {
  return `${resource.slice(0, -1)}/${name}`;
}

const quotas = (namespace: string): string => `kubectl -n ${namespace} describe resourcequota`;

export const quota: Rule = {
  find,
  words: {
    "quota exceeded": ({ quota: name, requested, used, limited }, { namespace, hasOldPods }) => ({
      cause: `ResourceQuota ${name} refuses new pods: requested ${requested}, used ${used}, limited to ${limited}`,
      help: [
        hasOldPods ? "raise the quota, free some of it, or set maxSurge 0 and maxUnavailable 1" : "raise the quota, or free some of it",
        quotas(namespace),
      ],
    }),
    "quota needs a value": ({ quota: name, resource, container }, { namespace }) => ({
      cause: `ResourceQuota ${name} refuses pods: container ${container} sets no ${resource}`,
      help: ["set it in the template, or create a LimitRange with defaults", quotas(namespace)],
    }),
    "quota missing": ({ resource }, { namespace }) => ({
      cause: `no ResourceQuota allows the use of ${resource}`,
      help: [quotas(namespace)],
    }),
    "limit range": ({ bound, resource, of, limit, is }, { namespace }) => ({
      cause: `a LimitRange refuses pods: ${bound} ${resource} per ${of} is ${limit}, the template has ${is}`,
      help: [`kubectl -n ${namespace} describe limitrange`],
    }),
  },
};
