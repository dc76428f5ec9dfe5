/** The history of one ReplicaSet or ReplicationController. */
import type { Fields } from "../shared-api-server.ts";
import type { Dice } from "../dice.ts";
import type { Act, Script } from "./script.ts";

const NAME = "web";
const ACTS = 9;
/** Time in ms after which both sides have completed the effects of an action, unless writes are rejected. */
const CALM_MS = 6_000;
const FOR_EVER = 1_000_000;

export function replicaScript(dice: Dice): Script {
  const labels = { app: NAME };
  const controller = dice.pick(["replicaset", "replicaset", "replicationcontroller"] as const);
  const resource = controller === "replicaset" ? "replicasets" : "replicationcontrollers";
  const podsLagMs = dice.pick([0, 0, 1_200, 3_000]);
  const body = {
    ...(controller === "replicaset" ? { apiVersion: "apps/v1", kind: "ReplicaSet" } : { apiVersion: "v1", kind: "ReplicationController" }),
    metadata: { name: NAME, labels },
    spec: {
      replicas: dice.int(0, 6),
      ...(dice.chance(0.4) && { minReadySeconds: dice.pick([3, 10, 31]) }),
      selector: controller === "replicaset" ? { matchLabels: labels } : labels,
      template: { metadata: { labels }, spec: { containers: [{ name: "c", image: "i" }] } },
    },
  };
  const spec = (change: Fields): Act => ({ kind: "spec", resource, name: NAME, change });
  const scale = (): Act => spec({ replicas: dice.pick([0, 1, 2, 3, 5, 8, 13]) });
  const acts: (Act & { readonly atMs: number })[] = [];
  let atMs = 0;
  const pass = (ms: number): number => (atMs += ms);
  const add = (act: Act): number => acts.push({ ...act, atMs });
  for (let nth = 0; nth < ACTS; nth++) {
    pass(podsLagMs + dice.pick([CALM_MS, CALM_MS, 9_000, 33_000]));
    // Nothing is rejected while events are delayed: upstream treats a sync on a cache without its own writes as a failure and backs off,
    // so it would retry a rejected write much later than ours.
    switch (dice.int(0, podsLagMs > 0 ? 7 : 9)) {
      case 0:
      case 1:
        add(scale());
        break;
      case 2:
        // A second change before the events of the first one arrive.
        add(scale());
        pass(400);
        add(scale());
        break;
      case 3:
      case 4:
        add({ kind: "ready", count: dice.int(1, 9) });
        break;
      case 5:
        add({ kind: dice.pick(["unready", "fail", "remove", "terminate", "release"]), count: dice.int(1, 3) });
        break;
      case 6:
        add({ kind: "reap" });
        break;
      case 7:
        if (dice.chance(0.5)) add(spec({ minReadySeconds: dice.pick([0, 3, 10, 31]) }));
        else {
          add({ kind: "stray" });
          // Waits until the pod is available; otherwise the choice among equal pods to delete would be random.
          pass(32_000);
          add({ kind: "match" });
        }
        break;
      case 8: {
        // A limited number of rejections.
        const [verb, of] = dice.pick([
          ["create", "pods"],
          ["create", "pods"],
          ["delete", "pods"],
          ["change", `${resource}/status`],
        ] as const);
        // The number of intermediate status writes is random.
        const skip = of === "pods" ? dice.int(0, 3) : 0;
        // Creates may get 5xx responses here, deletes not: a delete with a 5xx response may have been executed, so ours waits for its
        // event.
        const refusal = verb === "create" && skip % 2 === 1 ? "internal" : "forbidden";
        add({ kind: "refuse", verb, resource: of, refusal, skip, times: dice.int(1, 4) });
        add(scale());
        break;
      }
      case 9:
        add({ kind: "refuse", verb: "create", resource: "pods", refusal: "forbidden", skip: dice.int(0, 2), times: FOR_EVER });
        add(spec({ replicas: 14 }));
        if (dice.chance(0.5)) {
          // Retries are rare by now, so these pods become available between two of them.
          pass(12_000);
          add({ kind: "ready", count: dice.int(1, 4) });
        }
        pass(dice.pick([9_000, 40_000]));
        add({ kind: "heal" });
        add(spec({ replicas: 15 }));
        break;
    }
  }
  return { controllers: [controller], begin: [{ resource, body }], acts, endMs: pass(podsLagMs + 45_000), podsLagMs, apartMs: 1_100 };
}
