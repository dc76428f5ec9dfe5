/**
 * The API server rejects pods at admission: by a webhook, a policy or Pod Security, or because a service account is missing or the pod is
 * invalid.
 */
import type { Finding, Rule } from "./finding.ts";
import { objectOf } from "./quota.ts";
import { refusedPods, refusedPodsOf } from "../incident/refused-pods.ts";
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
    ...(message?.class === "webhook failed" ? waitingForIt(view, message.slots["webhook"]) : []),
  ];
}

/** Other workloads of the namespace that have no pods because of the same webhook: its backend may be among them. */
function waitingForIt(view: View, webhook: string | undefined): readonly Finding[] {
  const { state, subject, owner } = view;
  const tops = new Map(state.owners.map((each) => [each.uid, each]));
  const others = state.owners.flatMap((each) => {
    const top = tops.get(each.ownerUid ?? each.uid) ?? each;
    if (each.namespace !== subject.namespace || top === owner || each.uid === owner?.ownerUid || top.status.replicas > 0) return [];
    const message = refusedPodsOf(view, each)?.message;
    return message?.class === "webhook failed" && message.slots["webhook"] === webhook ? [objectOf(top)] : [];
  });
  const [other, ...more] = new Set(others);
  if (other === undefined) return [];
  const facts = { other: more.length === 0 ? other : `${other} and ${more.length} more` };
  return [{ kind: "same webhook", level: "effect", rank: RANK, confidence: "certain", objects: [], evidence: [], facts }];
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
      help: [
        "kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations -o custom-columns='KIND:.kind,NAME:.metadata.name,OF:.webhooks[*].name'",
        // kubectl also accepts YAML, which has spaces at which the command can be wrapped. The list is merged by the name.
        `kubectl patch KIND NAME -p "webhooks: [{name: ${webhook}, failurePolicy: Ignore}]"`,
        "check the Service and pods behind the webhook; when they run, set failurePolicy Fail again",
      ],
    }),
    "same webhook": ({ other }) => ({
      cause: `${other} waits for the same webhook and has no pods; if it serves the webhook, neither can start`,
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
