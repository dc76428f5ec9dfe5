/** Names that are derived from a controller or a function. */
import { RESOURCES } from "@deltaloop/kube/objects";
import type { ResourceInfo } from "@deltaloop/kube/objects";

/** The controller's function: name of its folder, and part of its role's and Lambda's names: `sync-replicaset`. */
export function syncFunction<N extends string>(controller: N): `sync-${N}` {
  return `sync-${controller}`;
}

/** The service account of a function or of the watcher: `deltaloop-sync-replicaset`. */
export function serviceAccount(component: string): string {
  return `deltaloop-${component}`;
}

/** Namespace of this system's own objects, unless DELTALOOP_LEASE_NAMESPACE is set. */
export const NAMESPACE = "deltaloop";

/** The ReplicaSet by which the guard distinguishes a controller of the whole cluster from a writer in one namespace (informer §11.9). */
export const CANARY = "deltaloop-canary";

/** The Lease that the watchers of a deployment compete for. */
export function watcherLease(deployment: string): string {
  return `deltaloop-watcher-${deployment}`;
}

/** The environment variable with the URL of the controller's doorbell queue: `DELTALOOP_DOORBELLS_REPLICASET_URL`. */
export function doorbellsVariable(controller: string): string {
  return `DELTALOOP_DOORBELLS_${variablePart(controller)}_URL`;
}

/** A secret of one deployment: `deltaloop/prod/mac-key`. */
export function secretName(stage: string, part: string): string {
  return `deltaloop/${stage}/${part}`;
}

/** The secret with the API server credential of a function or of the watcher: `kube/sync-replicaset`. */
export function kubeSecret(component: string): string {
  return `kube/${component}`;
}

function variablePart(name: string): string {
  return name.toUpperCase().replaceAll("-", "_");
}

/**
 * The logical id in CloudFormation, where a name holds letters and digits only: the kind of the primary if the names match, as `ReplicaSet`
 * for replicaset; otherwise the name itself, as `TeamGuard` for team-guard.
 */
export function logicalName(
  { name, primary }: { readonly name: string; readonly primary: string },
  resources: Readonly<Record<string, ResourceInfo>> = RESOURCES,
): string {
  const kind = resources[primary]?.kind;
  return kind?.toLowerCase() === name ? kind : pascalCase(name);
}

/** `ApplyDeltas` for apply-deltas. */
export function pascalCase(name: string): string {
  return name.replace(/(?:^|-)([a-z])/g, (_, letter: string) => letter.toUpperCase());
}
