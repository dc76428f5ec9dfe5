/** Which ReplicationControllers a change concerns: the ReplicaSet table, on the other kind. */
import type { AffectedKeys } from "../cache/affected-keys.ts";
import { affectedKeysOf } from "../replicaset/affected-keys.ts";
import { REPLICATION_CONTROLLER } from "./conversion.ts";

export const replicationControllerAffectedKeys: AffectedKeys = affectedKeysOf(REPLICATION_CONTROLLER);
