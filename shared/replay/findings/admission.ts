/**
 * The API server rejects pods at admission: by a webhook, a policy or Pod Security, or because a service account is missing or the pod is
 * invalid.
 */
import type { Finding, Rule } from "./finding.ts";
import { objectOf } from "./quota.ts";
import { refusedPods } from "../incident/refused-pods.ts";
import type { View } from "../incident/view.ts";

const RANK = 11;
const CLASSES = ["webhook denied", "webhook failed", "policy denied", "pod security", "service account missing", "pod invalid"];

function find(view: View): readonly Finding[] {
  const refused = refusedPods(view);
  if (refused === undefined) return [];
  const { owner, message, since, evidence } = refused;
  if (message !== undefined && !CLASSES.includes(message.class)) return [];
  return [
    {
      ...{ kind: message?.class ?? "pods refused", level: "cause", rank: RANK, since },
      confidence: message === undefined ? "likely" : "certain",
      ...{ objects: [objectOf(owner)], evidence, facts: message?.slots ?? {} },
    },
  ];
}

export const admission: Rule = {
  find,
  words: {
    "webhook denied": ({ webhook }, { namespace, first }) => ({
      cause: `admission webhook ${webhook} denies new pods; its reason is not recorded`,
      help: [`kubectl -n ${namespace} describe ${first}`],
    }),
    "webhook failed": ({ webhook }) => ({
      cause: `admission webhook ${webhook} cannot be called, so pods are refused`,
      help: ["kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations", "check the Service and pods behind the webhook"],
    }),
    "policy denied": ({ policy, binding }) => ({
      cause: `ValidatingAdmissionPolicy ${policy} (binding ${binding}) denies new pods`,
      help: [`kubectl describe validatingadmissionpolicy ${policy}`],
    }),
    "pod security": ({ level }, { namespace }) => ({
      cause: `Pod Security level ${level} of the namespace refuses the pods`,
      help: [`kubectl get namespace ${namespace} --show-labels`],
    }),
    "service account missing": ({ account }, { namespace }) => ({
      cause: `service account ${account} does not exist, so pods are refused`,
      help: [`kubectl -n ${namespace} get serviceaccounts`],
    }),
    "pod invalid": ({ field }, { namespace, object }) => ({
      cause: `the template makes invalid pods: ${field}`,
      help: [`kubectl -n ${namespace} edit ${object}`],
    }),
    "pods refused": (_, { namespace, first }) => ({
      cause: "the API server refuses new pods; the message is of no known format",
      help: [`kubectl -n ${namespace} describe ${first}`],
    }),
  },
};
