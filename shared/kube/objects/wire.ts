/**
 * Kubernetes objects in wire format. `@kubernetes/client-node` types them decoded (timestamps are `Date`,
 * `continue` is `_continue`); `Wire<T>` maps these types to the JSON of the API.
 */
import type { V1Deployment, V1Lease, V1Pod, V1PodTemplateSpec, V1ReplicaSet } from "@kubernetes/client-node";

/** `T` as JSON: dates and micro times are RFC 3339 strings, `_continue` is `continue`. */
export type Wire<T> = T extends Date
  ? string
  : T extends readonly (infer E)[]
    ? Wire<E>[]
    : T extends object
      ? { [K in keyof T as K extends `_${infer Name}` ? Name : K]: Wire<T[K]> }
      : T;

export type Pod = Wire<V1Pod>;
export type PodTemplateSpec = Wire<V1PodTemplateSpec>;
export type ReplicaSet = Wire<V1ReplicaSet>;
export type Deployment = Wire<V1Deployment>;
export type Lease = Wire<V1Lease>;

/** The common fields of all objects; other fields are carried along unread. */
export interface KubeObject {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata: ObjectMeta;
}

export interface ObjectMeta {
  readonly name: string;
  readonly namespace?: string;
  readonly uid: string;
  readonly resourceVersion: string;
  readonly generation?: number;
  readonly creationTimestamp?: string;
  readonly deletionTimestamp?: string;
  readonly labels?: Labels;
  readonly annotations?: Labels;
  readonly finalizers?: readonly string[];
  readonly ownerReferences?: readonly OwnerReference[];
}

export type Labels = Readonly<Record<string, string>>;

export interface OwnerReference {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
  readonly controller?: boolean;
  readonly blockOwnerDeletion?: boolean;
}

export interface LabelSelector {
  readonly matchLabels?: Labels;
  readonly matchExpressions?: readonly LabelSelectorRequirement[];
}

export interface LabelSelectorRequirement {
  readonly key: string;
  readonly operator: string;
  readonly values?: readonly string[];
}

/** Timestamps are RFC 3339 with one-second resolution, as the API server stores them. */
export interface Condition {
  readonly type: string;
  readonly status: "True" | "False" | "Unknown";
  readonly reason?: string;
  readonly message?: string;
  readonly lastTransitionTime?: string;
  readonly lastUpdateTime?: string;
}
