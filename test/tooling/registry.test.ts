/** The table of controllers, compared with everything that is generated from it. */
import { readFile } from "node:fs/promises";

import { describe, expect, it } from "vitest";

import { LagMeter } from "../../cli/dev/lag-meter.ts";
import { fragments } from "../../infra/fragments.ts";
import type { Controller } from "../../shared/kube/objects/resources.ts";
import type { AffectedKeys } from "../../shared/controllers/cache/affected-keys.ts";
import { prepareChanges } from "../../shared/controllers/cache/prepare.ts";
import { environmentOf, parseConfiguration } from "../../shared/controllers/lambda/configuration.ts";
import { startFunctionHost } from "../../shared/local/function-host.ts";
import type { SqsHandler } from "../../shared/controllers/lambda/sqs-handler.ts";
import { createVirtualClock } from "../../shared/base/memory/clock.ts";
import { createMemoryQueue } from "../../shared/store/memory/queue/queue.ts";
import { createSeededRandom } from "../../shared/base/memory/random.ts";
import { createSqsDoorbells } from "../../shared/store/sqs/doorbells.ts";
import { functionsOf } from "../../shared/controllers/registry/functions.ts";
import { doorbellsVariable, logicalName, serviceAccount } from "../../shared/controllers/registry/names.ts";
import { cacheOf } from "../../shared/controllers/registry/cache-of.ts";
import { REGISTRY, watchedBy } from "../../shared/controllers/registry/registry.ts";
import type { Registry } from "../../shared/controllers/registry/cache-of.ts";
import { rolesOf } from "../../shared/controllers/registry/rights.ts";
import { lanesOf } from "../../shared/store/lane.ts";
import { cachedPod } from "../support/builders.ts";
import { silentLog } from "../support/silent-log.ts";

const read = (path: string): Promise<string> => readFile(new URL(`../../${path}`, import.meta.url), "utf8");

describe("generated from the table", () => {
  it.each(Object.entries(fragments(REGISTRY)))("infra/%s equals the output of node infra/generate.ts", async (path, text) => {
    expect(await read(`infra/${path}`)).toBe(text);
  });

  it("serverless.yml has each controller's doorbells", async () => {
    const lines = (await read("serverless.yml")).split("\n").map((line) => line.trim());
    const variables = lines.filter((line) => line.startsWith("DELTALOOP_DOORBELLS_"));
    expect(variables).toEqual(REGISTRY.controllers.map((entry) => `${doorbellsVariable(entry.name)}: !Ref ${logicalName(entry)}Queue`));
  });
});

/** Enqueues the team whose name the pod has. */
const teamKeys: AffectedKeys = (delta) => {
  const pod = delta.resource === "pods" ? (delta.new ?? delta.old) : undefined;
  if (pod === undefined) return [];
  // The Store's types list the built-in controllers; at run time it accepts any name.
  return [{ controller: "team-guard" as Controller, key: `${pod.namespace}/${pod.name}`, uid: "t-1", urgency: "act" }];
};

/** A third-party controller on its own resource. */
const OPEN: Registry = {
  controllers: [
    ...REGISTRY.controllers,
    {
      name: "team-guard",
      primary: "teams",
      dependents: "pods",
      reads: ["teams", "pods"],
      affectedKeys: teamKeys,
      contract: [{ what: "delete a pod", verb: "delete", resource: "pods", of: "owned", require: ["/uid"], allow: ["/uid"] }],
    },
  ],
  resources: {
    ...REGISTRY.resources,
    teams: { path: "apis/example.com/v1", apiVersion: "example.com/v1", group: "example.com", kind: "Team" },
  },
};
const NAMES = OPEN.controllers.map(({ name }) => name);

describe("a fourth controller, as one more entry", () => {
  it("a user controller has one lane for its resource, and one more concurrent applier", () => {
    const appliers = (registry: Registry) => functionsOf(registry).find(({ name }) => name === "apply-deltas")?.queue?.maximumConcurrency;
    expect([appliers(REGISTRY), appliers(OPEN)]).toEqual(["25", "26"]);
    expect(["teams", "teams~team-guard~k3x9", "constructor"].map(lanesOf)).toEqual([1, 1, 1]);
  });

  it("receives changes", async () => {
    const pod = cachedPod({ name: "a" });
    const change = { type: "delete", key: `${pod.namespace}/a`, uid: pod.uid, rv: "9", object: undefined } as const;
    const { items } = await prepareChanges(
      {
        readIndex: () =>
          Promise.resolve({ rows: [{ resource: "pods", row: { ...change, object: pod, lane: 0 } as never }], primaries: [], counts: [] }),
      },
      cacheOf(OPEN),
      "pods",
      [change],
      { live: () => Promise.reject(new Error("unexpected live read: every cached value verifies")) },
    );
    expect(items[0]?.effects.map(({ controller }) => controller)).toContain("team-guard");
  });

  it("a user controller has a variable for its doorbells, which go to the queue of that name", async () => {
    const queueUrls = Object.fromEntries(NAMES.map((name) => [name, `https://sqs/1/${name}`]));
    const configuration = {
      deployment: "prod",
      cluster: "5d3f00aa11bb",
      mode: "act" as const,
      guard: "on" as const,
      kubernetes: "supported" as const,
      digestKey: "0123456789abcdef",
      macKeys: ["fedcba9876543210", "fedcba9876543211"],
      redis: { url: "redis://cache:6379", cluster: true, durability: "C" as const },
      kube: { server: "https://k8s:6443", caFile: "/ca", token: "t" },
      queues: { endpoint: "http://127.0.0.1:4566", deltas: "https://sqs/1/deltas.fifo", doorbells: queueUrls },
      logLevel: "info" as const,
      metrics: "none" as const,
    };
    const environment = environmentOf(configuration);
    expect(environment["DELTALOOP_DOORBELLS_TEAM_GUARD_URL"]).toBe("https://sqs/1/team-guard");
    expect(parseConfiguration(environment, NAMES)).toEqual(configuration);
    expect(() => parseConfiguration({ ...environment, DELTALOOP_DOORBELLS_TEAM_GUARD_URL: "" }, NAMES)).toThrow(
      /TEAM_GUARD_URL: is missing/,
    );

    const sent: unknown[] = [];
    const sqs = { call: (_: unknown, input: unknown) => Promise.resolve({ ...(sent.push(input) && {}) }) };
    // The doorbells only use `call` of the SQS client; the types list only built-in controllers.
    const doorbells = createSqsDoorbells(sqs as never, { queueUrls: queueUrls as { readonly [C in Controller]: string }, cid: "c1" });
    await doorbells.ring([{ controller: "team-guard" as Controller, key: "shop/a", epoch: "e1", delayMs: 0 }]);
    expect(sent).toMatchObject([{ QueueUrl: "https://sqs/1/team-guard", Entries: [{ Id: "0" }] }]);
  });

  it("a user controller is hosted with the others", async () => {
    const [clock, random] = [createVirtualClock(0), createSeededRandom(1)];
    const queue = () => createMemoryQueue({ clock, random, visibilityMs: 1_000, maxReceiveCount: 1, faults: () => ({}) });
    const called: string[] = [];
    const handler =
      (name: string): SqsHandler =>
      (_, { functionName }) =>
        Promise.resolve(void called.push(`${name} as ${functionName}`));
    const own = queue();
    const host = startFunctionHost({
      sources: { deltas: queue(), doorbells: { "team-guard": own } },
      handlers: { applyDeltas: handler("applier"), deadDeltas: handler("dead"), sync: { "team-guard": handler("own") } },
      clock,
      log: silentLog,
    });
    own.put({ body: "{}", delayMs: 0 });
    await clock.advance(100);
    expect(called).toEqual(["own as sync-team-guard"]);
    const stopped = host.stop();
    await clock.advance(10_000);
    await stopped;
  });

  it("a user controller has its own rights, and its resources are watched", () => {
    expect(watchedBy(OPEN)).toEqual([...watchedBy(REGISTRY), "teams"]);
    const roles = rolesOf(OPEN);
    expect(roles.find(({ controller }) => controller === "team-guard")).toEqual({
      name: serviceAccount("sync-team-guard"),
      controller: "team-guard",
      clusterRules: [
        { apiGroup: "", resource: "pods", verbs: ["get", "list", "delete"] },
        { apiGroup: "example.com", resource: "teams", verbs: ["get"] },
        { apiGroup: "example.com", resource: "teams/finalizers", verbs: ["update"] },
      ],
      namespaceRules: [{ apiGroup: "coordination.k8s.io", resource: "leases", verbs: ["get"] }],
    });
    expect(roles[0]?.clusterRules).toContainEqual({ apiGroup: "example.com", resource: "teams", verbs: ["get", "list", "watch"] });
    expect(() => rolesOf({ ...OPEN, resources: REGISTRY.resources })).toThrow("resource teams is not in the registry");
  });

  it("a user controller is in every generated fragment, without changing the others", () => {
    const [before, after] = [fragments(REGISTRY), fragments(OPEN)];
    const added = Object.entries(after).map(([path, text]) => {
      const known = new Set(before[path]?.split("\n"));
      return [path, text.split("\n").filter((line) => !known.has(line) && line !== "").length] as const;
    });
    for (const [path, lines] of added) if (path !== "profiles.yml") expect(lines, path).toBeGreaterThan(0);
    expect(after["queues.yml"]).toContain("  TeamGuardQueue:\n");
    expect(after["functions.yml"]).toContain('"deltaloop/${sls:stage}/kube/sync-team-guard"]\n');
    expect(after["redis-users.yml"]).toContain("~dl:${sls:stage}:{*}:rl:team-guard ");
    expect(after["roles.yml"]?.match(/!GetAtt TeamGuardQueue\.Arn/g)).toHaveLength(
      // The controller's own role reads the queue; functions that send doorbells, and the watcher, may send to it.
      1 + functionsOf(OPEN).filter(({ rings }) => rings).length + 1,
    );
    expect(after["alarms.yml"]).toContain("A doorbell of the TeamGuard controller");
    expect(after["extensions.yml"]).toContain("SyncDashteamDashguardLambdaFunction:\n");
    expect(after["manifests/rbac.yaml"]).toContain("name: deltaloop-sync-team-guard\n");
  });

  it("the demo also measures a controller that is added to the registry", () => {
    const lag = new LagMeter(OPEN);
    lag.request({
      verb: "delete",
      resource: "pods",
      group: "",
      subresource: "",
      namespace: "shop",
      name: "a",
      status: 200,
      atMs: 5,
      userAgent: "deltaloop/0.1.0 (team-guard)",
      response: { metadata: { name: "a" } },
    } as never); // the fields of a record that the meter reads
    expect(lag.writes).toBe(1);
  });
});
