/**
 * How large a bundle may be, in KiB: what it is, and a twentieth or less to grow. Whoever needs more says here for what. Of each, 143 are
 * the Redis client (left-out.ts has what of it is not there), 23 the logger, 22 the scripts for Redis. The functions of Deployments and of
 * ReplicaSets hold each other's code (design decision 20), 33 KiB.
 */
export const BUNDLE_KIB_MAX: Readonly<Record<string, number>> = {
  "apply-deltas": 375,
  "dead-deltas": 350,
  sweep: 345,
  "sync-deployment": 450,
  "sync-replicaset": 450,
  "sync-replicationcontroller": 415,
};

/**
 * How much processor time a cold start may take, from the birth of its process to the end of its first piece of work, as a multiple of what a
 * Node takes that does nothing: times differ from machine to machine, and processor time hardly with what else is at work. Measured were 3.8 to 4.5
 * of those that call no API server for it, and 5.3 to 6.5 of syncs that create something. A package that is loaded for nothing shows in a bundle's
 * size first; this sees what work at import and between a function's start and its first answer comes to.
 */
export const COLD_START_MAX: Readonly<Record<string, number>> = {
  "apply-deltas": 6,
  "dead-deltas": 6,
  sweep: 6,
  "sync-deployment": 8,
  "sync-replicaset": 8,
  "sync-replicationcontroller": 8,
};
