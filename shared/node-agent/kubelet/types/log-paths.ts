/** Names of log directories and log links. */
import type { NodePod } from "./pod.ts";

/** Of a name of a file. */
const NAME_LENGTH_MAX = 255;

/** `<namespace>_<pod>_<uid>`, relative to the root of all pods' logs. */
export function podLogDirectory({ metadata: { namespace, name, uid } }: NodePod): string {
  return `${namespace}_${name}_${uid}`;
}

/** What a container's log is called where collectors of logs look for all of a node. Source: pkg/kubelet/kuberuntime/legacy.go logSymlink. */
export function containerLogLink(pod: { readonly name: string; readonly namespace: string }, container: string, id: string): string {
  const end = ".log";
  return `${`${pod.name}_${pod.namespace}_${container}-${id}`.slice(0, NAME_LENGTH_MAX - end.length)}${end}`;
}
