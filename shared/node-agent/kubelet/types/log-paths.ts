import type { NodePod } from "./pod.ts";

/** Maximum length of a file name. */
const NAME_LENGTH_MAX = 255;

/** Returns `<namespace>_<pod>_<uid>`, relative to the pod log root. */
export function podLogDirectory({ metadata: { namespace, name, uid } }: NodePod): string {
  return `${namespace}_${name}_${uid}`;
}

/** File name of the symlink to a container's log, which log collectors read. Source: pkg/kubelet/kuberuntime/legacy.go logSymlink. */
export function containerLogLink(pod: { readonly name: string; readonly namespace: string }, container: string, id: string): string {
  const end = ".log";
  return `${`${pod.name}_${pod.namespace}_${container}-${id}`.slice(0, NAME_LENGTH_MAX - end.length)}${end}`;
}
