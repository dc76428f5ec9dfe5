/**
 * User controllers under faults, from one seed: processes are killed before and after calls, responses are lost, the Store is emptied, the
 * watch is up to a minute late, and other writers change and delete owned objects. The scenes themselves contain the name conflicts.
 *
 * OS1 each scene reaches its final state, and no object of another writer is changed.
 * OS2 after that, another sync sends no request.
 *
 * The World also checks each write (shared/test-kit/world/record.ts).
 */
import { createSeededRandom } from "../../../shared/base/memory/random.ts";
import { createCallFaults, openWorld } from "../../../shared/test-kit/simulation.ts";
import type { Call, Fault } from "../../../shared/test-kit/simulation.ts";
import { late } from "../../harness/own/late-watch.ts";
import { addBystanders, SCENES } from "./scenes.ts";

const LATE_MS_MAX = 60_000;
/** Time after which all delayed events have arrived and the longest lease has expired. */
const CALM_MS = 90_000;
/** The World never skips a time as short as this. If it skips a longer time, the watch ends, and the next watch is late again. */
const AWAKE_MS = 4_000;
/** Maximum number of changes by other writers: after five reverts within ten minutes a controller waits, which a separate test covers. */
const OTHERS_MAX = 3;
/** Maximum number of losses: after more, the Store closes its gates (LN5), because two programs may be using it. */
const EMPTIED_MAX = 2;
const FAULTS: readonly Fault[] = [
  { kind: "dies", isDone: false },
  { kind: "dies", isDone: true },
  { kind: "lost", isDone: false },
  { kind: "lost", isDone: true },
];
const STORE_CALLS = new Set(["writeThrough", "correlateEvents", "done"]);

/** @throws {Error} with the difference from the expected state */
export async function simulateOwn(
  seed: number,
  trace: (line: string) => void = () => undefined,
): Promise<{ readonly stats: Readonly<Record<string, number>> }> {
  const random = createSeededRandom(seed);
  const chance = (probability: number): boolean => random.next() < probability;
  const below = (n: number): number => Math.floor(random.next() * n);
  const scene = SCENES[seed % SCENES.length] as (typeof SCENES)[number]; // SCENES is not empty
  const faultShare = chance(0.7) ? 0.05 + random.next() * 0.25 : 0;
  const lateMs = chance(0.3) ? below(LATE_MS_MAX) : 0;
  let isCalm = false;
  const faults = createCallFaults((call: Call) => {
    if (isCalm || !chance(faultShare)) return undefined;
    const fault = FAULTS[below(STORE_CALLS.has(call.name) ? 2 : FAULTS.length)];
    trace(`${call.key}: ${call.name} ${fault?.kind} ${fault?.isDone === true ? "after" : "before"}`);
    return fault;
  });
  const w = await openWorld(
    { controllers: scene.controllers, seed, builtIn: chance(0.1) },
    {
      faults,
      kube: (kube, component, clock) =>
        component === "watcher" && lateMs > 0 ? { ...kube, watch: late(kube.watch.bind(kube), clock, lateMs) } : kube,
    },
  );
  const stats: Record<string, number> = { [`scenes of ${scene.name}`]: 1, ...(lateMs > 0 && { "late watches": 1 }) };
  const count = (what: string): void => void (stats[what] = (stats[what] ?? 0) + 1);
  const untouched = await addBystanders(w);
  let others = 0;
  const calm = async (): Promise<void> => {
    isCalm = true;
    await w.advance(`${CALM_MS}ms`);
    for (let ms = 0; lateMs > 0 && ms < lateMs + AWAKE_MS; ms += AWAKE_MS) await w.advance(`${AWAKE_MS}ms`);
    await w.settle();
    isCalm = false;
  };
  for (const { what, act, check, isAwaited } of scene.steps) {
    trace(`${w.now.toISOString()} ${what}`);
    // Another writer's change may come before the object exists; the step then fails and is repeated.
    await act(w).catch(async () => {
      await calm();
      await act(w);
    });
    if (chance(0.9)) await w.advance(`${below(chance(0.5) ? 50 : 40_000)}ms`);
    if (others < OTHERS_MAX && chance(0.3)) {
      const other = scene.others[below(scene.others.length)];
      // The object to change may not exist yet.
      await other?.(w).then(
        () => {
          others++;
          count("other writes");
          trace("  another writer");
        },
        () => undefined,
      );
    }
    if ((stats["emptied Stores"] ?? 0) < EMPTIED_MAX && chance(0.15)) {
      w.emptyStore();
      count("emptied Stores");
      trace("  the Store is emptied");
    }
    if (!isAwaited) continue;
    await calm();
    const why = check(w) ?? untouched();
    if (why !== undefined) throw new Error(`${scene.name}, after "${what}": ${String(why)}`);
  }
  await calm();
  const [last] = scene.steps.slice(-1);
  const why = last?.check(w) ?? untouched();
  if (why !== undefined) throw new Error(`${scene.name}: ${String(why)}`);
  isCalm = true;
  await w.resync();
  stats["faults of calls"] = faults.occurred();
  stats["calls"] = faults.calls().length;
  return { stats };
}
