/** The body of a pod create, built from the live owner. */
import { ownerReferenceTo, RESOURCES } from "@deltaloop/kube/objects";
import type { KubeObject, Pod, PodTemplateSpec } from "@deltaloop/kube/objects";
import { podsPrefix } from "./pod-names.ts";
import { Sealed } from "./sealed.ts";

export interface PodOrder {
  readonly resource: "replicasets" | "replicationcontrollers";
  readonly name: string;
  /** Digest of the template; the sealed body prints it in place of its content. */
  readonly digest: string;
}

/** A template from which no pod can be created. Counts as a failed create, without an Event (replicaset §9.1). */
export interface InvalidTemplate {
  readonly kind: "Invalid";
  readonly message: string;
}

/**
 * The pod: labels, annotations and finalizers of the template's metadata, its spec unchanged, one controller reference, and a generated
 * name in addition to upstream's generateName. It takes nothing from the owner's own labels or annotations.
 *
 * Source: pkg/controller/controller_utils.go GetPodFromTemplate, createPods.
 */
export function podFromTemplate(live: KubeObject, { resource, name, digest }: PodOrder): Sealed<Pod> | InvalidTemplate {
  // Both kinds require a template in spec.template.
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
