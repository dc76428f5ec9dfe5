/** Upstream's event handlers and ours receive the same changes of random objects, one at a time, and must queue the same keys. */
import { afterAll, describe, expect, it } from "vitest";

import type { V1ReplicaSet } from "@kubernetes/client-node";

import { CACHED_RESOURCES, CONTROLLERS, type Controller } from "../../shared/kube/objects/resources.ts";
import type { KubeObject } from "../../shared/kube/objects/wire.ts";
import { compareVersions } from "../../shared/kube/releases.ts";
import { judgeProgram } from "./build.ts";
import { COMPARED_RELEASE } from "./release.ts";
import { SharedApiServer, collection, Door, type State } from "./shared-api-server.ts";
import { diceOf, type Dice } from "./dice.ts";
import { startJudge } from "./judge.ts";
import { keysOfOurs, syncOurs, type Changed } from "./ours.ts";
import { scriptOf } from "./scripts.ts";

const LIVES = 25;
const STEPS = 6;
const built = await judgeProgram();
const missing = "missing" in built ? built.missing : undefined;

/** Returns the changes, one object at a time. Deletions of a resource come last, unless another object takes the name. */
function changesOf(before: State, after: State): readonly Changed[] {
  return CACHED_RESOURCES.flatMap((resource) => {
    const find = (state: State, uid: string) => state[resource].find(({ metadata }) => metadata.uid === uid);
    const put = after[resource].map((object): Changed => ({ resource, old: find(before, object.metadata.uid), new: object }));
    const gone = before[resource].flatMap((old): readonly Changed[] =>
      find(after, old.metadata.uid) ? [] : [{ resource, old, new: undefined }],
    );
    const names = new Set(after[resource].map(({ metadata }) => metadata.name));
    const isReplaced = ({ old }: Changed): boolean => names.has(old?.metadata.name ?? "");
    const changed = put.filter((each) => each.old?.metadata.resourceVersion !== each.new?.metadata.resourceVersion);
    return [...gone.filter(isReplaced), ...changed, ...gone.filter((each) => !isReplaced(each))];
  });
}

function withChange(state: State, { resource, old, new: now }: Changed): State {
  const others = state[resource].filter(({ metadata }) => metadata.uid !== (old ?? now)?.metadata.uid);
  return { ...state, [resource]: now === undefined ? others : [...others, now] };
}

/**
 * Keys that ours may queue in addition, when a pod changes its owner: its former owner even if the pod is being deleted, because it then
 * has fewer terminating replicas; and the Recreate Deployment that the pod leaves, although the pod still exists, or before 1.37 although
 * others remain (affected-keys.ts of shared/controllers/replicaset and shared/controllers/deployment).
 */
function mayQueueMore({ resource, old, new: now }: Changed, controller: Controller): boolean {
  const owner = (object: KubeObject | undefined): string => JSON.stringify(object?.metadata.ownerReferences ?? []);
  if (resource === "pods" && now === undefined && controller === "deployment") return compareVersions(COMPARED_RELEASE.name, "1.37") < 0;
  const changesHands = resource === "pods" && now !== undefined && owner(old) !== owner(now);
  return changesHands && (controller === "deployment" || now.metadata.deletionTimestamp !== undefined);
}

/** Changes owners or labels of existing objects, or deletes a pod, more often than the users of a script do. */
async function shake(shared: SharedApiServer, dice: Dice): Promise<void> {
  const { replicasets, pods } = await shared.state();
  for (const [resource, objects] of [
    ["replicasets", replicasets],
    ["pods", pods],
  ] as const) {
    if (objects.length === 0) continue;
    const { name } = dice.pick(objects).metadata;
    const path = `${collection(resource)}/${name}`;
    const what = dice.int(0, 3);
    const metadata = what === 0 ? { ownerReferences: null } : { labels: { app: dice.pick(["web", "other"]) } };
    if (what >= 2 && resource === "pods") await shared.person("DELETE", path, { gracePeriodSeconds: 0 });
    else await shared.person("PATCH", path, { metadata }, "application/merge-patch+json");
  }
}

/** Adds pods and waiting Deployments, because histories of Deployments have few of both. */
async function crowd(shared: SharedApiServer, dice: Dice): Promise<void> {
  const { deployments, replicasets } = await shared.state();
  for (const { metadata } of deployments.filter(() => dice.chance(0.2))) {
    const spec = { strategy: { type: "Recreate", rollingUpdate: null } };
    await shared.person("PATCH", `${collection("deployments")}/${metadata.name}`, { spec }, "application/merge-patch+json");
  }
  if (replicasets.length === 0) return;
  const { metadata, spec } = replicasets[0] as unknown as V1ReplicaSet; // the kind was checked above
  const owner = { apiVersion: "apps/v1", kind: "ReplicaSet", name: metadata?.name, uid: metadata?.uid, controller: true };
  for (let pods = dice.int(0, 3); pods > 0; pods--) {
    const labels = spec?.template?.metadata?.labels;
    const body = { metadata: { generateName: "crowd-", labels, ownerReferences: [owner] }, spec: spec?.template?.spec };
    await shared.person("POST", collection("pods"), body);
  }
}

function textOf({ resource, old, new: now }: Changed): string {
  return `${old === undefined ? "new" : now === undefined ? "gone" : "changed"} ${resource} ${(now ?? old)?.metadata.name ?? ""}`;
}

describe.skipIf(missing !== undefined)(
  `affected keys equal those of upstream's handlers${missing === undefined ? "" : ` (${missing})`}`,
  () => {
    const judge = "program" in built ? startJudge(built.program) : undefined;
    afterAll(() => judge?.close());

    it.for(CONTROLLERS)("histories of a %s enqueue the same keys", { timeout: 300_000 }, async (lived) => {
      if (judge === undefined) throw new Error("skipped");
      const wrong: string[] = [];
      let queued = 0;
      for (let seed = 1; seed <= LIVES; seed++) {
        const shared = await SharedApiServer.create();
        const dice = diceOf(seed);
        const script = scriptOf(shared, dice, lived);
        let known = await shared.state();
        for (let step = 0; step < STEPS; step++) {
          await (step === 0 ? script.begin() : script.step());
          if (lived === "deployment") await crowd(shared, dice);
          for (let shaken = 0; shaken < 2; shaken++) await shake(shared, dice);
          const observed = await shared.state();
          await syncOurs(shared, { controller: script.controller, key: script.key, observed, faults: script.faults() });
          for (const changed of changesOf(known, await shared.state())) {
            const before = known;
            known = withChange(known, changed);
            const ours = await keysOfOurs(shared, before, changed);
            for (const controller of CONTROLLERS) {
              const asked = { controller, nowMs: shared.clock.now(), observed: known };
              const theirs = new Set(await judge.keys(new Door(shared.server, []), asked, changed));
              queued += theirs.size;
              const mine = ours[controller].filter((key) => theirs.has(key) || !mayQueueMore(changed, controller));
              const [a, b] = [[...theirs].toSorted().join(), mine.toSorted().join()];
              if (a !== b)
                wrong.push(`seed ${seed}, step ${step}, ${textOf(changed)}: ${controller} ${b || "nothing"}, upstream ${a || "nothing"}`);
            }
          }
        }
        shared.server.close();
      }
      expect(wrong).toEqual([]);
      expect(queued).toBeGreaterThan(LIVES * STEPS);
    });
  },
);
