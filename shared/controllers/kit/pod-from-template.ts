/** The body of a pod create, made of the owner as it stands in the API server at that moment. */
import { ownerReferenceTo, RESOURCES } from "@deltaloop/kube/objects";
import type { KubeObject, Pod, PodTemplateSpec } from "@deltaloop/kube/objects";
import { podsPrefix } from "./pod-names.ts";
import { Sealed } from "./sealed.ts";

export interface PodOrder {
  readonly resource: "replicasets" | "replicationcontrollers";
  readonly name: string;
  /** Of the template, to print the body by. */
  readonly digest: string;
}

/** A template that no pod can be made of. It counts as a failed create, without an Event (replicaset §9.1). */
export interface InvalidTemplate {
  readonly kind: "Invalid";
  readonly message: string;
}

/**
 * The pod: labels, annotations and finalizers of the template's metadata, its spec untouched, one controller reference, our
 * name beside the generateName that upstream sends. Nothing comes from the owner's own labels or annotations.
 *
 * Source: pkg/controller/controller_utils.go GetPodFromTemplate, createPods.
 */
export function podFromTemplate(live: KubeObject, { resource, name, digest }: PodOrder): Sealed<Pod> | InvalidTemplate {
  // Both kinds carry the template in spec.template; an API server sends none without it.
  const template: PodTemplateSpec = (live as { readonly spec?: { readonly template?: PodTemplateSpec } }).spec?.template ?? {};
  const { labels, annotations, finalizers } = template.metadata ?? {};
  if (labels === undefined || Object.keys(labels).length === 0) return { kind: "Invalid", message: "unable to create pods, no labels" };
  const pod: Pod = {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name,
      generateName: podsPrefix(live.metadata.name),
      labels,
      ...(annotations && { annotations }),
      ...(finalizers && { finalizers }),
      ownerReferences: [ownerReferenceTo(RESOURCES[resource], live)],
    },
    ...(template.spec && { spec: template.spec }),
  };
  return new Sealed(pod, digest);
}
