/** The clusters of a command. Catches: an allowance of the watcher's own directory that another directory gets. */
import { expect, it } from "vitest";

import { clustersOf } from "../../../../cli/clusters/options.ts";
import type { Allowance } from "../../../../shared/kube/clusters.ts";

const SERVED = { DELTALOOP_CLUSTERS: "ssm:/deltaloop/prod/clusters", DELTALOOP_CLUSTERS_ALLOW: "loopback" };
const PROXY: readonly Allowance[] = ["proxy"];

it.each([
  { name: "none for a deployment of one cluster", flags: {}, environment: { DELTALOOP_CLUSTER: "0123456789ab" }, want: undefined },
  { name: "those of the environment", flags: {}, environment: SERVED, want: { clusters: SERVED.DELTALOOP_CLUSTERS, allow: ["loopback"] } },
  {
    name: "those of the option, with the environment's allowances for the same directory",
    flags: { clusters: SERVED.DELTALOOP_CLUSTERS, allow: [] },
    environment: SERVED,
    want: { clusters: SERVED.DELTALOOP_CLUSTERS, allow: ["loopback"] },
  },
  {
    name: "those of the option, without the environment's allowances for another directory",
    flags: { clusters: "clusters", allow: [] },
    environment: SERVED,
    want: { clusters: "clusters", allow: [] },
  },
  {
    name: "allowances of the option",
    flags: { allow: PROXY },
    environment: SERVED,
    want: { clusters: SERVED.DELTALOOP_CLUSTERS, allow: PROXY },
  },
])("are $name", ({ flags, environment, want }) => {
  expect(clustersOf(flags, environment)).toEqual(want);
});
