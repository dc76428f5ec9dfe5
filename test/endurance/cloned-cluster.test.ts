/** Clones whose functions get production's messages, with lower and with higher resourceVersions than production's. */
import { clonedCluster } from "../support/cloned-cluster.ts";

for (const bumpRevision of [0, 1_000_000_000]) await clonedCluster({ bumpRevision, sharesQueues: true });
