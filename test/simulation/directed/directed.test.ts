// Would catch: a function that is killed after a write and leaves work undone, and a stale or missing event that leads to surplus objects.
import { describe, expect, it, test } from "vitest";
import { shareOf } from "../../support/share.ts";
import type { Rule } from "../rules.ts";
import { runDirected, SCENARIOS } from "./directed.ts";
import { undesired } from "./desired.ts";
import { changeOf, chosenPlans, plansOf, PLANS_MAX } from "./plans.ts";
import type { Recorded } from "./plans.ts";

const numberOf = (scenario: string, plan: number): number => SCENARIOS.indexOf(scenario) * PLANS_MAX + plan + 1;
const NUMBERS = ["scale-up-down", "rolling-update", "undo", "recreate", "controller"].flatMap((scenario) =>
  Array.from({ length: 12 }, (_, plan) => ({ scenario, plan })),
);

test("there are twenty recorded scenarios", () => expect(SCENARIOS).toHaveLength(20));

it.each(shareOf(NUMBERS, 2))(
  "$scenario with plan $plan ends in the desired state without surplus objects",
  { timeout: 60_000 },
  async ({ scenario, plan }) => {
    const { violations, stats } = await runDirected(numberOf(scenario, plan), new Set());
    expect(violations).toEqual([]);
    expect(stats).toMatchObject({ plans: 1 });
  },
);

const PLANTED: readonly (readonly [off: readonly Rule[], scenario: string, plans: readonly number[], violation: RegExp])[] = [
  [["abandoned"], "rollover", [1], /desired: Deployment default\/web has 0 ReplicaSets with its template/],
  [["intents", "writeThrough", "effects"], "recreate", [0, 60, 65, 67, 100], /surplus: create pods: \d+ times, without the fault 8/],
];

it.each(PLANTED)("without %j, in scenario %s one of the plans %j fails", { timeout: 60_000 }, async (off, scenario, plans, violation) => {
  const found: string[] = [];
  for (const plan of plans)
    found.push(...(await runDirected(numberOf(scenario, plan), new Set(off))).violations.map(({ rule, what }) => `${rule}: ${what}`));
  expect(found.join("\n")).toMatch(violation);
});

describe("plans", () => {
  const recorded: Recorded = {
    writes: ["create pods", "create pods", "delete pods"],
    events: new Map([
      [
        "pods",
        [
          { key: "shop/a", change: "ADDED" },
          { key: "shop/b", change: "ADDED" },
          { key: "shop/a", change: "DELETED" },
        ],
      ],
    ]),
  };

  it("has a crash after each write, and two plans for each event that a later one of its object follows", () => {
    expect(plansOf(recorded).map(({ covers }) => covers)).toEqual([
      "crash after create pods",
      "crash after create pods",
      "crash after delete pods",
      "stale pods: ADDED, then DELETED",
      "hidden pods: ADDED, then DELETED",
    ]);
  });

  it("chooses each pair of fault and step once before it chooses one again, and 200 plans at most", () => {
    const chosen = chosenPlans({ ...recorded, writes: [...Array.from({ length: 300 }, () => "create pods"), "delete pods"] });
    expect(chosen).toHaveLength(PLANS_MAX);
    expect(chosen.slice(0, 5)).toEqual([
      { pattern: "crash", write: 0 },
      { pattern: "crash", write: 300 },
      { pattern: "stale", resource: "pods", from: 0, until: 2 },
      { pattern: "hidden", resource: "pods", from: 0, until: 2 },
      { pattern: "crash", write: 299 },
    ]);
  });

  it("names the parts of an object that changed", () => {
    const before = { metadata: { name: "a", namespace: "shop", uid: "1", resourceVersion: "1" }, spec: { replicas: 1 }, status: {} };
    const after = { ...before, metadata: { ...before.metadata, labels: { app: "web" } }, spec: { replicas: 2 } };
    expect(changeOf("MODIFIED", before, after)).toBe("MODIFIED spec and labels");
    expect(changeOf("DELETED", before, after)).toBe("DELETED");
  });
});

test("an end with a missing pod, an orphan and an old status is not the desired state", () => {
  const metadata = { namespace: "shop", resourceVersion: "1" };
  const owner = { apiVersion: "apps/v1", kind: "ReplicaSet", name: "web", uid: "rs", controller: true };
  const rs = {
    kind: "ReplicaSet",
    metadata: { ...metadata, name: "web", uid: "rs", generation: 2 },
    spec: { replicas: 2, selector: { matchLabels: { app: "web" } } },
    status: { observedGeneration: 1, replicas: 2 },
  };
  const pods = [{ ownerReferences: [owner], labels: { app: "web" } }, { labels: { app: "web" } }, { ownerReferences: [owner], labels: {} }];
  const objects = pods.map((own, at) => ({ kind: "Pod", metadata: { ...metadata, ...own, name: `web-${at}`, uid: String(at) } }));
  expect(undesired([rs, ...objects.slice(0, 2)])).toEqual([
    "ReplicaSet shop/web has 1 pods, wants 2",
    "ReplicaSet shop/web did not adopt web-1",
    "ReplicaSet shop/web reports 1,2,0, is 2,1,0",
  ]);
  expect(
    undesired([{ ...rs, status: { observedGeneration: 2, replicas: 2 } }, objects[0], objects[2]].flatMap((each) => each ?? [])),
  ).toEqual(["ReplicaSet shop/web did not release web-2"]);
});
