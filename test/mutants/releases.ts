/** Plausible mistakes about the cluster's release, in the same form as in decisions.ts. */
import type { Mutant } from "./decisions.ts";

export const RELEASE_MUTANTS: readonly Mutant[] = [
  {
    what: "the pod-template-hash does not depend on the cluster's release",
    file: "controllers/deployment/new-replica-set.ts",
    from: "hashStates?.[release.name]",
    to: "hashStates?.[OWN_RELEASE.name]",
  },
  {
    what: "only the deletion of the last pod enqueues a Recreate Deployment, as before 1.37",
    file: "controllers/deployment/affected-keys.ts",
    from: 'd.spec.strategy?.type !== "Recreate")',
    to: 'd.spec.strategy?.type !== "Recreate" || (rs.status.replicas ?? 0) > 1)',
  },
  {
    what: "the cluster's new release is ignored after an upgrade",
    file: "controllers/cache/watcher/cluster-release.ts",
    from: "note(await read());",
    to: "await read();",
  },
  {
    what: "an upgrade opens a new epoch",
    file: "controllers/cache/watcher/watcher.ts",
    from: "ownLineage(lineage, replaces, options), seen",
    to: "{ ...ownLineage(lineage, replaces, options), isSameIdentity: ({ record }) => record.release === ports.release?.current() }, seen",
  },
];
