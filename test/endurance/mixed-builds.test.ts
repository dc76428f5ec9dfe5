/**
 * Upgrades and rollbacks in the middle of a rollout: an older build and this one run side by side on the same rows, messages and intents,
 * in either order of deployment. One upgrade and one rollback also run on a real control plane. test/conformance/redis-mixed-builds.test.ts
 * runs one of these upgrades in `npm test`.
 */
import { upgradesThatShareRows } from "../support/upgrades-that-share-rows.ts";

for (const base of ["same-identity", "same-identity-before"] as const)
  for (const direction of ["upgrade", "rollback"] as const)
    for (const first of ["functions", "watcher"] as const) await upgradesThatShareRows({ base, direction, first });

for (const direction of ["upgrade", "rollback"] as const)
  for (const first of ["functions", "watcher"] as const)
    await upgradesThatShareRows({ base: "same-identity", direction, first, podLanes: 8 });

for (const [direction, first] of [
  ["upgrade", "functions"],
  ["rollback", "watcher"],
] as const)
  await upgradesThatShareRows({ base: "same-identity", direction, first, isReal: true });
