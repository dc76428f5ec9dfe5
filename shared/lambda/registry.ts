import type { AffectedKeys } from "../cache/affected-keys.ts";
import { deploymentAffectedKeys } from "../deployment/affected-keys.ts";
import { replicaSetAffectedKeys } from "../replicaset/affected-keys.ts";
import { replicationControllerAffectedKeys } from "../replication/conversion.ts";

/** Whom a change concerns, controller by controller. A new controller adds its line here. */
export const REGISTRY: readonly AffectedKeys[] = [deploymentAffectedKeys, replicaSetAffectedKeys, replicationControllerAffectedKeys];
