/** Volumes that cannot be attached or mounted, and pod sandboxes that cannot be created. */
import { kindOf, merged } from "./finding.ts";
import type { Hit, Rule } from "./finding.ts";
import { eventsOf, listed, podName, timeOf } from "../incident/view.ts";
import type { View } from "../incident/view.ts";

const RANK = 25;
/**
 * Time that attaching and mounting may take: moving an attachment to another node takes minutes, and the kubelet reports mounts after two.
 */
const PATIENCE_MS = 2 * 60_000;
const WORKING = new Set(["ContainerCreating", "PodInitializing"]);

function find(view: View): ReturnType<Rule["find"]> {
  const hits = view.pods.flatMap((pod): readonly Hit[] => {
    const statuses = [...pod.status.containerStatuses, ...pod.status.initContainerStatuses];
    if (pod.phase !== "Pending" || !statuses.some(({ state }) => WORKING.has(state.waiting?.reason ?? ""))) return [];
    const events = eventsOf(view, pod.uid, "FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox", "NetworkNotReady");
    const found = events.flatMap(({ message }) => listed(message) ?? []);
    const message = found.find((each) => each.class !== "volume not mounted") ?? found[0];
    const since = timeOf(events.at(-1)?.firstTimestamp) ?? pod.createdMs;
    if (message === undefined) return [];
    const isCertain = message.class.endsWith("missing");
    if (!isCertain && view.nowMs - (since ?? 0) < PATIENCE_MS) return [];
    return [{ kind: message.class, facts: message.slots, object: podName(pod), since, evidence: [], events }];
  });
  return merged(hits, "cause", RANK);
}

const describe = (namespace: string, first: string): readonly string[] => [`kubectl -n ${namespace} describe ${first}`];

export const volume: Rule = {
  find,
  words: {
    "volume object missing": ({ volume: name, kind, name: object }, { namespace }) => ({
      cause: `volume ${name} cannot be mounted: ${kindOf(kind)} ${object} does not exist`,
      next: `the kubelet retries; the pod starts when ${kindOf(kind)} ${object} exists`,
      help: [`kubectl -n ${namespace} get ${kind}s`],
    }),
    "volume key missing": ({ volume: name, kind, key }, { namespace, first }) => ({
      cause: `volume ${name} cannot be mounted: its ${kindOf(kind)} has no key ${key}`,
      next: `the kubelet retries; the pod starts when the ${kindOf(kind)} has the key`,
      help: describe(namespace, first),
    }),
    "volume attached elsewhere": ({ volume: name }, { namespace, first }) => ({
      cause: `volume ${name} is attached to another node, which must release it first`,
      help: ["kubectl get volumeattachments", ...describe(namespace, first)],
    }),
    "volume not mounted": ({ volume: name }, { namespace, first }) => ({
      cause: `volume ${name} cannot be attached or mounted`,
      help: describe(namespace, first),
    }),
    "network not ready": (_, { namespace, first }) => ({ cause: "the network of the node is not ready", help: describe(namespace, first) }),
    "sandbox failed": (_, { namespace, first }) => ({
      cause: "the container runtime cannot create the pod's sandbox",
      help: describe(namespace, first),
    }),
  },
};
