import type { AffectedKeys } from "../cache/events.ts";
import { deploymentAffectedKeys } from "../deployment/events.ts";
import { replicaSetAffectedKeys } from "../replicaset/events.ts";
import { replicationControllerAffectedKeys } from "../replication/events.ts";

/** Whom a change concerns, controller by controller. A new controller adds its line here. */
export const REGISTRY: readonly AffectedKeys[] = [deploymentAffectedKeys, replicaSetAffectedKeys, replicationControllerAffectedKeys];
