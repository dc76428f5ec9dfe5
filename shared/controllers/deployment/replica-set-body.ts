import { RESOURCES, ownerReferenceTo } from "@deltaloop/kube/objects";
import type { KubeObject, LabelSelector, PodTemplateSpec } from "@deltaloop/kube/objects";
import { copiedValues } from "../kit/copied-annotations.ts";
import { Sealed } from "../kit/sealed.ts";
import type { CreateReplicaSet } from "./writes.ts";

/** Label on a ReplicaSet, its selector, its template and so its pods. Source: pkg/apis/apps/types.go DefaultDeploymentUniqueLabelKey. */
export const HASH_LABEL = "pod-template-hash";

/**
 * The ReplicaSet to create, from the live Deployment: its template and selector, each with the hash label, and the values of its
 * annotations (deployment §8.2). Unknown fields of the template are kept.
 * Source: sync.go getNewReplicaSet.
 */
export function replicaSetBody(live: KubeObject, write: CreateReplicaSet): Sealed<object> {
  // An apps/v1 Deployment from the API server: it requires selector and template.
  const { spec } = live as KubeObject & {
    readonly spec: { readonly minReadySeconds?: number; readonly selector: LabelSelector; readonly template: PodTemplateSpec };
  };
  const labels = { ...spec.template.metadata?.labels, [HASH_LABEL]: write.hash };
  const body = {
    apiVersion: RESOURCES.replicasets.apiVersion,
    kind: RESOURCES.replicasets.kind,
    metadata: {
      name: write.name,
      namespace: write.owner.namespace,
      labels,
      annotations: { ...write.annotations, ...copiedValues(live, write.copied) },
      ownerReferences: [ownerReferenceTo(RESOURCES.deployments, live)],
    },
    spec: {
      replicas: write.replicas,
      ...(spec.minReadySeconds === undefined ? {} : { minReadySeconds: spec.minReadySeconds }),
      selector: { ...spec.selector, matchLabels: { ...spec.selector.matchLabels, [HASH_LABEL]: write.hash } },
      template: { ...spec.template, metadata: { ...spec.template.metadata, labels } },
    },
  };
  return new Sealed(body, write.template.digest);
}
