export { REPLICATIONCONTROLLER_KEYS, syncReplicationController } from "./replication/sync.ts";
