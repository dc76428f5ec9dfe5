/** A clone of the cluster on real control planes; `npm run endure` has more. */
import { clonedCluster } from "../support/cloned-cluster.ts";

await clonedCluster({ bumpRevision: 0, sharesQueues: false });
