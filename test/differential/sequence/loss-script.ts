/** The history of a Deployment whose events or wake-ups are lost: only lists and the resync enqueue keys. */
import type { CachedResource } from "../../../shared/kube/objects/resources.ts";
import type { Fields } from "../shared-api-server.ts";
import type { Dice } from "../dice.ts";
import type { Act, Script } from "./script.ts";

const NAME = "web";
const EPISODES = 6;
const CALM_MS = 8_000;
/** Minimum time between two lists: a reflector that lists again sooner doubles its back-off. */
const PATIENT_MS = 125_000;
/** A time longer than sixteen retries with a doubling back-off. */
const GIVEN_UP_MS = 200_000;
/** The resync period. In no history does it pass before the rejections end. */
const RESYNC_MS = 1_600_000;
const FOR_EVER = 1_000_000;

export function lossScript(dice: Dice): Script {
  const resource = "deployments";
  const labels = { app: NAME };
  const template = (version: number): Fields => ({
    metadata: { labels },
    spec: { containers: [{ name: "c", image: `image:v${version}` }] },
  });
  const body = {
    metadata: { name: NAME, labels },
    spec: {
      replicas: dice.int(2, 6),
      selector: { matchLabels: labels },
      template: template(1),
      strategy: dice.chance(0.3) ? { type: "Recreate" } : { type: "RollingUpdate", rollingUpdate: { maxSurge: 1, maxUnavailable: 1 } },
      progressDeadlineSeconds: 3_600,
    },
  };
  const spec = (change: Fields): Act => ({ kind: "spec", resource, name: NAME, change });
  const acts: (Act & { readonly atMs: number })[] = [];
  let atMs = 0;
  const pass = (ms: number): number => (atMs += ms);
  const add = (act: Act): number => acts.push({ ...act, atMs });
  const unseen = (of: CachedResource, all: readonly Act[]): void => {
    pass(Math.max(0, (sawMs.get(of) ?? -Infinity) + PATIENT_MS - atMs));
    add({ kind: "blind", resource: of });
    for (const act of all) {
      pass(300);
      add(act);
    }
    pass(2_000);
    add({ kind: "see", resource: of });
    sawMs.set(of, atMs);
  };
  const sawMs = new Map<CachedResource, number>();
  for (let nth = 0; nth < EPISODES; nth++) {
    pass(CALM_MS);
    switch (dice.int(0, 5)) {
      case 0:
        add({ kind: "ready", count: dice.int(1, 6) });
        break;
      case 1:
        add(spec({ template: template(dice.int(1, 3)) }));
        break;
      case 2:
      case 3:
        unseen(
          "pods",
          Array.from({ length: dice.int(1, 3) }, () =>
            dice.chance(0.3)
              ? ({ kind: "reap" } as const)
              : {
                  kind: dice.pick(["ready", "unready", "fail", "remove", "remove", "terminate", "release"] as const),
                  count: dice.int(1, 3),
                },
          ),
        );
        break;
      case 4:
        unseen("replicasets", [{ kind: "discard" }]);
        pass(CALM_MS);
        add({ kind: "litter" });
        break;
      case 5:
        unseen(
          "deployments",
          Array.from({ length: dice.int(1, 2) }, () =>
            dice.chance(0.5) ? spec({ replicas: dice.int(0, 8) }) : spec({ template: template(dice.int(1, 3)) }),
          ),
        );
        break;
    }
  }
  let asleepFromMs: number | undefined;
  if (dice.chance(0.4)) {
    // The retries are exhausted, and no event enqueues the key.
    pass(CALM_MS);
    add({ kind: "refuse", verb: "create", resource: "replicasets", refusal: "forbidden", skip: 0, times: FOR_EVER });
    add(spec({ template: template(9) }));
    pass(GIVEN_UP_MS);
    add({ kind: "heal" });
    asleepFromMs = atMs;
    pass(1.7 * RESYNC_MS - atMs);
  }
  return {
    controllers: ["deployment", "replicaset"],
    begin: [{ resource, body }],
    acts,
    endMs: pass(CALM_MS),
    podsLagMs: 0,
    // A reflector waits up to 1.6 s before it lists again.
    apartMs: 3_500,
    resyncMs: RESYNC_MS,
    ...(asleepFromMs !== undefined && { asleepFromMs }),
  };
}
