/** The progress of a Deployment's rollout, from the object alone. */
export interface Rollout {
  readonly metadata: { readonly generation: number };
  readonly spec: { readonly replicas: number };
  readonly status?: {
    readonly observedGeneration?: number;
    readonly replicas?: number;
    readonly updatedReplicas?: number;
    readonly availableReplicas?: number;
  };
}

/** Whether it is complete by the rules of `kubectl rollout status`. */
export function isRolledOut({ metadata, spec, status = {} }: Rollout): boolean {
  return (
    status.observedGeneration === metadata.generation &&
    [status.replicas, status.updatedReplicas, status.availableReplicas].every((count) => count === spec.replicas)
  );
}

/** Number of pods with the present template, according to the controller. */
export function updatedOf({ metadata, status }: Rollout): number {
  return status?.observedGeneration === metadata.generation ? (status.updatedReplicas ?? 0) : 0;
}
