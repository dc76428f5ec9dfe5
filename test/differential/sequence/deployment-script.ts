/** The history of a Deployment and its ReplicaSets. */
import type { Fields, Json } from "../shared-api-server.ts";
import type { Dice } from "../dice.ts";
import type { Act, Script } from "./script.ts";

const NAME = "web";
const ACTS = 16;
/** Time in ms after which both sides have completed the effects of an action, unless writes are rejected. */
const CALM_MS = 7_000;
const FOR_EVER = 1_000_000;
const ANNOTATION = "deployment.kubernetes.io";

export function deploymentScript(dice: Dice): Script {
  const resource = "deployments";
  const labels = { app: NAME };
  /** Returns a template for a number; equal numbers yield equal templates. */
  const template = (version: number): Fields => ({
    metadata: { labels },
    spec: { containers: [{ name: "c", image: `image:v${version}` }] },
  });
  const fence = (): Json => dice.pick([0, 1, 1, 2, 3, "0%", "10%", "25%", "33%", "50%", "100%"]);
  const strategy = (): Fields => {
    if (dice.chance(0.2)) return { type: "Recreate", rollingUpdate: null };
    const [maxSurge, maxUnavailable] = [fence(), fence()];
    const isNone = (value: Json): boolean => Number.parseInt(String(value), 10) === 0;
    return {
      type: "RollingUpdate",
      rollingUpdate: { maxSurge: isNone(maxSurge) && isNone(maxUnavailable) ? 1 : maxSurge, maxUnavailable },
    };
  };
  // Whether the script pauses the Deployment. A paused Deployment cleans up its history immediately; upstream also deletes a ReplicaSet
  // that the same sync has just scaled up (deployment S16).
  const pauses = dice.chance(0.5);
  const body = {
    metadata: { name: NAME, labels, annotations: dice.chance(0.5) ? { team: "a" } : {} },
    spec: {
      replicas: dice.int(0, 9),
      selector: { matchLabels: labels },
      template: template(dice.int(1, 3)),
      strategy: strategy(),
      ...(dice.chance(0.4) && { minReadySeconds: dice.pick([3, 10]) }),
      ...(pauses && dice.chance(0.2) && { paused: true }),
      progressDeadlineSeconds: dice.pick([60, 60, 600]),
      revisionHistoryLimit: pauses ? 10 : dice.pick([0, 1, 2]),
    },
  };
  const spec = (change: Fields): Act => ({ kind: "spec", resource, name: NAME, change });
  const scale = (): Act => spec({ replicas: dice.pick([0, 1, 2, 3, 5, 8, 10]) });
  const annotate = (annotations: Fields): Act => ({ kind: "annotate", resource, name: NAME, annotations });
  const acts: (Act & { readonly atMs: number })[] = [];
  let atMs = 0;
  const pass = (ms: number): number => (atMs += ms);
  const add = (act: Act): number => acts.push({ ...act, atMs });
  for (let nth = 0; nth < ACTS; nth++) {
    pass(dice.pick([CALM_MS, CALM_MS, CALM_MS, 13_000]));
    switch (dice.int(0, 24)) {
      case 0:
      case 1:
      case 2:
        add(scale());
        break;
      case 3:
      case 4:
      case 5:
      case 6:
        add(spec({ template: template(dice.int(1, 4)) }));
        break;
      case 7:
      case 8:
      case 9:
      case 10:
      case 11:
      case 12:
        add({ kind: "ready", count: dice.int(1, 9) });
        break;
      case 13:
      case 14:
        add({ kind: "reap" });
        break;
      case 15:
      case 16:
        add({ kind: dice.pick(["unready", "fail", "remove", "terminate", "release"]), count: dice.int(1, 3) });
        break;
      case 17:
        add(pauses ? spec({ paused: dice.chance(0.5) }) : spec({ template: template(dice.int(1, 4)) }));
        break;
      case 18:
        add(spec({ strategy: strategy() }));
        break;
      case 19:
        add(
          spec(
            dice.pick([
              { minReadySeconds: dice.pick([0, 3, 10]) },
              { revisionHistoryLimit: pauses ? 10 : dice.int(0, 2) },
              { progressDeadlineSeconds: dice.pick([60, 90, 600]) },
            ]),
          ),
        );
        break;
      case 20:
        add(
          dice.chance(0.5)
            ? annotate({ team: dice.pick(["a", "b", null]), note: dice.pick(["n", null]) })
            : annotate({ "deprecated.deployment.rollback.to": dice.pick(["0", "1", "2", "9"]) }),
        );
        break;
      case 21:
        // No action, until a progress deadline has passed.
        pass(75_000);
        break;
      case 22: {
        const [verb, of] = dice.pick([
          ["create", "pods"],
          ["create", "replicasets"],
          ["change", "deployments/status"],
          ["change", "replicasets/status"],
        ] as const);
        add({ kind: "refuse", verb, resource: of, refusal: "forbidden", skip: 0, times: dice.int(1, 4) });
        // Which of several intermediate statuses is rejected is random, so the annotation makes each later status include the difference.
        if (of === "deployments/status") add(annotate({ refused: String(nth) }));
        else add(of === "replicasets" ? spec({ template: template(dice.int(1, 4)) }) : scale());
        break;
      }
      case 23: {
        const of = dice.pick(["pods", "replicasets"]);
        // Waits until ready pods are available: a failing sync counts them only in its next retry (replica-script.ts covers that).
        pass(CALM_MS);
        add({ kind: "refuse", verb: "create", resource: of, refusal: "forbidden", skip: 0, times: FOR_EVER });
        add(of === "pods" ? scale() : spec({ template: template(dice.int(5, 8)) }));
        pass(dice.pick([9_000, 40_000]));
        add({ kind: "heal" });
        // Another change enqueues the key, because the time of the next retry depends on the number of retries.
        add(of === "pods" ? { kind: "touch", resource: "replicasets", note: String(nth) } : annotate({ healed: String(nth) }));
        break;
      }
      case 24:
        if (dice.chance(0.5)) add({ kind: "collide", name: NAME, change: { template: template(10 + nth) } });
        else {
          add({ kind: "orphan", resource, name: NAME });
          pass(CALM_MS);
          add({ kind: "orphaned", resource, name: NAME });
          pass(CALM_MS);
          add({
            kind: "create",
            resource,
            body: { ...body, metadata: { ...body.metadata, annotations: { [`${ANNOTATION}/revision`]: "1" } } },
          });
        }
        break;
    }
  }
  if (dice.chance(0.4)) {
    // Creates a matching orphan ReplicaSet, which the Deployment adopts as old or new, depending on its template. It has no pods, because
    // the time at which their deletion is seen would be random.
    pass(CALM_MS);
    const left = { ...labels, left: "behind" };
    const metadata = { name: `${NAME}-left`, labels: left };
    const { spec: pods } = template(dice.int(1, 4));
    const of = { replicas: 0, selector: { matchLabels: left }, template: { metadata: { labels: left }, spec: pods ?? null } };
    add({ kind: "create", resource: "replicasets", body: { apiVersion: "apps/v1", kind: "ReplicaSet", metadata, spec: of } });
  }
  return {
    controllers: ["deployment", "replicaset"],
    begin: [{ resource, body }],
    acts,
    endMs: pass(75_000),
    podsLagMs: 0,
    apartMs: 1_100,
  };
}
