export type { ReplicaReason } from "./replicaset/reasons.ts";
export { REPLICASET_KEYS, syncReplicaSet } from "./replicaset/sync.ts";
