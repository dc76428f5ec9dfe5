// Would catch: a pod or ReplicaSet that is created twice because its creator was killed before it got the response, one that is never
// created, a size outside its bounds after another function takes over, and a key that no function takes over.
import { describe, expect, it } from "vitest";
import { shareOf } from "../../support/share.ts";
import { pod, replicaSet } from "../../support/workloads.ts";
import { liveRandomly } from "./life.ts";
import type { Death } from "./rig.ts";
import { CrashRig } from "./rig.ts";
import { imageOf, noTwins, sizeOf, template, web } from "./workloads.ts";

interface Scenario {
  readonly name: string;
  readonly steps: readonly ((rig: CrashRig) => Promise<unknown>)[];
}

const spec = (more: object) => (rig: CrashRig) => rig.api.change("deployments", "web", (d) => ({ spec: { ...d.spec, ...more } }));
const annotate = (annotations: object) => (rig: CrashRig) =>
  rig.api.change("deployments", "web", ({ metadata }) => ({
    metadata: { ...metadata, annotations: { ...metadata.annotations, ...annotations } },
  }));
const create = (more: object) => (rig: CrashRig) => rig.api.put("deployments", web(more));

const SCENARIOS: readonly Scenario[] = [
  {
    name: "a ReplicaSet that grows and shrinks",
    steps: [
      (rig) => rig.api.put("replicasets", replicaSet({ replicas: 3 })),
      (rig) => rig.api.change("replicasets", "web", (rs) => ({ spec: { ...rs.spec, replicas: 7 } })),
      (rig) => rig.api.change("replicasets", "web", (rs) => ({ spec: { ...rs.spec, replicas: 2 } })),
    ],
  },
  {
    name: "a ReplicaSet that adopts and releases",
    steps: [
      async (rig) => {
        for (const name of ["a", "b"]) await rig.api.put("pods", pod({ name }));
        await rig.api.put("replicasets", replicaSet({ replicas: 2 }));
      },
      (rig) => rig.api.change("pods", "a", ({ metadata }) => ({ metadata: { ...metadata, labels: { app: "other" } } })),
    ],
  },
  {
    name: "a rolling update, and the history cleaned up",
    steps: [create({ revisionHistoryLimit: 0 }), spec({ template: template("v2") })],
  },
  { name: "a Recreate Deployment", steps: [create({ strategy: { type: "Recreate" } }), spec({ template: template("v2") })] },
  {
    name: "a size that changes in the middle of a rollout",
    steps: [create({}), spec({ template: template("v2"), replicas: 6 }), spec({ replicas: 1 })],
  },
  {
    name: "a rollback on request",
    steps: [create({}), spec({ template: template("v2") }), annotate({ "deprecated.deployment.rollback.to": "0" })],
  },
];

/**
 * Plays a scenario.
 * @returns the final state without names and times, and the number of pods and ReplicaSets ever created
 */
async function play({ steps }: Scenario, death?: Death): Promise<{ readonly rig: CrashRig; readonly left: unknown }> {
  const rig = await CrashRig.create(death ? [death] : [], noTwins);
  for (const step of steps) {
    await step(rig);
    await rig.settle();
  }
  const owners = new Map(rig.replicaSets.map(({ metadata }) => [metadata.uid, metadata.name]));
  const made = (resource: string): number =>
    rig.api.changes().filter((change) => change.resource === resource && change.type === "ADDED").length;
  const left = {
    replicaSets: rig.replicaSets.map((rs) => [imageOf(rs), sizeOf(rs), rs.metadata.annotations]),
    pods: rig.activePods.map(({ metadata }) => owners.get(metadata.ownerReferences?.[0]?.uid ?? "") ?? "nobody").toSorted(),
    made: [made("replicasets"), made("pods")],
    statuses: [...rig.replicaSets, ...rig.api.all("deployments")].map(({ status }) => [
      status?.["replicas"],
      status?.["availableReplicas"],
    ]),
    deployment: rig.api.all("deployments").map((d) => [imageOf(d), d.metadata.annotations]),
  };
  return { rig, left };
}

/**
 * The number of calls of a scenario that `check` tests. Scenarios have about 30 to 130 calls, and a function is killed at each of them in
 * two ways.
 */
const CHECKED = 4;

describe("a function dies at any one of its calls, before or after the call is executed, and its message is redelivered", () => {
  it.each(SCENARIOS)("$name: the final state is the same, and no object is created twice", { timeout: 240_000 }, async (scenario) => {
    const { rig, left } = await play(scenario);
    const deaths = Array.from({ length: rig.calls }, (_, i) =>
      (["before", "after"] as const).map((when): Death => ({ call: i + 1, when })),
    ).flat();
    expect(deaths.length).toBeGreaterThan(20);
    for (const death of shareOf(deaths, CHECKED)) {
      const died = await play(scenario, death);
      expect(died.rig.deaths, JSON.stringify(death)).toBe(1);
      expect(died.left, JSON.stringify(death)).toEqual(left);
    }
  });
});

const SEEDS = Array.from({ length: 400 }, (_, index) => index + 1);
const SEEDS_CHECKED = 2;

it(
  `a Deployment stays within maxSurge and maxUnavailable during twenty user requests while functions die, and reaches the desired state (${SEEDS.length} seeds, in a check ${SEEDS_CHECKED})`,
  { timeout: 240_000 },
  async () => {
    for (const seed of shareOf(SEEDS, SEEDS_CHECKED)) expect((await liveRandomly(seed)).stats.calls).toBeGreaterThan(100);
  },
);
