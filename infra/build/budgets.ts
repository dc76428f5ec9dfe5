/**
 * Maximum size of each bundle in KiB: its size plus at most 5 %. Give the reason when you raise one. Each contains the Redis client (135,
 * without the parts in left-out.ts), the logger (23) and the Redis scripts (22). The functions of Deployments and ReplicaSets also contain
 * each other's code (33; design decision 20). Those that cache or sync have controllers and views by name (2), for additional
 * controllers, and last-write records with the Store (2). Texts of errors and the limit of quotes in the log take another 1. Serving several
 * clusters takes 18 to 22.
 */
export const BUNDLE_KIB_MAX: Readonly<Record<string, number>> = {
  "apply-deltas": 415,
  "dead-deltas": 385,
  sweep: 375,
  "sync-deployment": 500,
  "sync-replicaset": 500,
  "sync-replicationcontroller": 470,
};

/** The same of a function of user controllers without their code, which is not deployed yet. It has no code of the built-in ones. */
export const OWN_BUNDLE_KIB_MAX = 420;

/**
 * Maximum CPU time of a cold start, from process start to the end of the first invocation, as a multiple of an idle Node's CPU time. The
 * ratio is comparable between machines, and CPU time hardly depends on load. Measured: 3.8 to 4.5 without calls of the API server, and 5.3 to
 * 6.5 for syncs that create objects. It finds expensive work at import and before the first response.
 */
export const COLD_START_MAX: Readonly<Record<string, number>> = {
  "apply-deltas": 6,
  "dead-deltas": 6,
  sweep: 6,
  "sync-deployment": 8,
  "sync-replicaset": 8,
  "sync-replicationcontroller": 8,
};
