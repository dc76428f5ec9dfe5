/** A container that cannot be created: a missing Secret, ConfigMap or key, a command that does not exist, a user that is not allowed. */
import { backOffOf, kindOf, ofContainers, nextRestart } from "./finding.ts";
import type { Hit, Rule } from "./finding.ts";
import { eventsOf, listed, podName } from "../incident/view.ts";
import type { RunContainer, View } from "../incident/view.ts";

const REASONS = new Set([
  "CreateContainerConfigError",
  "CreateContainerError",
  "RunContainerError",
  "PreCreateHookError",
  "PreStartHookError",
  "PostStartHookError",
]);
const CLASSES = ["key missing", "object missing", "runs as root", "command missing"];
const RANK = 35;

function hit(view: View, { pod, kind, spec, status }: RunContainer): readonly Hit[] {
  const { waiting } = status.state;
  const start = [status.state.terminated, status.lastState.terminated].some(
    (ended) => ended?.reason === "StartError" || ended?.reason === "ContainerCannotRun",
  );
  const reason = waiting?.reason !== undefined && REASONS.has(waiting.reason) ? waiting.reason : start ? "StartError" : undefined;
  if (reason === undefined) return [];
  const events = eventsOf(view, pod.uid, "Failed", "FailedPostStartHook");
  const found = [waiting?.message, ...events.map(({ message }) => message)]
    .flatMap((message) => listed(message) ?? [])
    .find((message) => CLASSES.includes(message.class));
  return [
    {
      kind: found === undefined ? (start ? "container start" : "container config") : found.class,
      facts: { ...found?.slots, container: spec.name, of: kind, reason },
      object: podName(pod),
      since: pod.createdMs,
      evidence: [`${kind} ${spec.name}: ${reason}`],
      events,
      backOff: backOffOf(status),
      ...(found === undefined && { confidence: "likely" as const }),
    },
  ];
}

export const containerConfig: Rule = {
  find: ofContainers(RANK, hit),
  words: {
    "key missing": ({ kind, name, key, container, of }, { namespace }) => ({
      cause: `${of} ${container} cannot start: ${kind} ${name} has no key ${key}`,
      next: `the kubelet retries; the container starts when ${kind} ${name} has the key`,
      help: [`kubectl -n ${namespace} describe ${kind?.toLowerCase()} ${name}`],
    }),
    "object missing": ({ kind, name, container, of }, { namespace }) => ({
      cause: `${of} ${container} cannot start: ${kindOf(kind)} ${name} does not exist`,
      next: `the kubelet retries; the container starts when ${kindOf(kind)} ${name} exists`,
      help: [`kubectl -n ${namespace} get ${kind}s`],
    }),
    "runs as root": ({ container, of }) => ({
      cause: `${of} ${container} cannot start: runAsNonRoot is set, and its image runs as root`,
      help: ["set securityContext.runAsUser, or use an image with another user"],
    }),
    "command missing": ({ container, of, ...facts }) => ({
      cause: `${of} ${container} cannot start: its command is not in the image`,
      next: nextRestart(facts),
      help: ["check command and args of the container against the image"],
    }),
    "container start": ({ container, of }, { namespace, object }) => ({
      cause: `${of} ${container} cannot be started by the container runtime`,
      help: [`kubectl -n ${namespace} describe ${object}`],
    }),
    "container config": ({ container, of, reason }, { namespace, object }) => ({
      cause: `${of} ${container} cannot be created (${reason})`,
      help: [`kubectl -n ${namespace} describe ${object}`],
    }),
  },
};
