/**
 * The invariants of both levels: the text of each, and the upstream code or specification that requires it. `system` names the check of
 * checks.ts that states the same for whole components.
 */
export interface Invariant {
  readonly says: string;
  readonly source: string;
  readonly system?: string;
}

export const INVARIANTS = {
  claim: {
    says: "The cache of a lane is at least as new as the lane's watermark.",
    source: "informer §11.4; client-go tools/cache/reflector.go LastSyncResourceVersion",
  },
  cache: {
    says: "At the end, the cache equals the API server.",
    source: "informer §11.4; client-go tools/cache/store.go Replace",
    system: "SE1",
  },
  above: {
    says: "No pod is created beyond the greatest size that its owner had recently.",
    source: "informer §13; pkg/controller/replicaset/replica_set.go manageReplicas",
    system: "SC1",
  },
  below: {
    says: "No delete leaves fewer pods than the smallest size that their owner had recently.",
    source: "informer §13; pkg/controller/replicaset/replica_set.go manageReplicas",
    system: "SC6",
  },
  wake: {
    says: "At the end, sizes are as requested, orphans are adopted, and the Recreate Deployment has seen the deletion of its last pod.",
    source: "pkg/controller/controller_ref_manager.go ClaimPods; pkg/controller/deployment/recreate.go rolloutRecreate",
    system: "SE2",
  },
  open: {
    says: "At the end, gates are open, no key is due, no operation is pending, and no intents outlive their owner.",
    source: "informer §12 and §13; pkg/controller/controller_utils.go SatisfiedExpectations",
    system: "SE1",
  },
  rest: {
    says: "At the end, and while the API server rejects requests permanently, keys are synced only a few times.",
    source: "informer §12; client-go util/workqueue/default_rate_limiters.go",
    system: "SE3",
  },
  error: { says: "No component throws.", source: "informer §11.2 (AP1)" },
} as const satisfies Readonly<Record<string, Invariant>>;

export type InvariantId = keyof typeof INVARIANTS;
