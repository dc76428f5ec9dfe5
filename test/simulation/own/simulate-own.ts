/**
 * User controllers under faults, from one seed: processes die before and after calls, answers are lost, the Store is emptied, the watch is
 * up to a minute late, and other writers change and delete what the controllers own. Names are taken by the scenes themselves.
 *
 * OS1 each scene ends in its last state, with all that other writers own untouched.
 * OS2 one more sync sends nothing.
 *
 * The world checks each write besides (shared/test-kit/world/record.ts).
 */
import { createSeededRandom } from "../../../shared/base/memory/random.ts";
import { createCallFaults, openWorld } from "../../../shared/test-kit/simulation.ts";
import type { Call, Fault } from "../../../shared/test-kit/simulation.ts";
import { late } from "../../harness/own/late-watch.ts";
import { addBystanders, SCENES } from "./scenes.ts";

const LATE_MS_MAX = 60_000;
/** What is late has arrived, and the longest lease has ended. */
const CALM_MS = 90_000;
/** The world skips no time as short as this. Where it skips, a watch ends, and the next one is late again. */
const AWAKE_MS = 4_000;
/** Beyond five reverts in ten minutes a controller waits, which a test of its own shows. */
const OTHERS_MAX = 3;
/** Beyond that the Store closes its gates (LN5): two programs may be at work. */
const EMPTIED_MAX = 2;
const FAULTS: readonly Fault[] = [
  { kind: "dies", isDone: false },
  { kind: "dies", isDone: true },
  { kind: "lost", isDone: false },
  { kind: "lost", isDone: true },
];
const STORE_CALLS = new Set(["writeThrough", "correlateEvents", "done"]);

/** @throws {Error} that says what is wrong */
export async function simulateOwn(
  seed: number,
  trace: (line: string) => void = () => undefined,
): Promise<{ readonly stats: Readonly<Record<string, number>> }> {
  const random = createSeededRandom(seed);
  const chance = (probability: number): boolean => random.next() < probability;
  const below = (n: number): number => Math.floor(random.next() * n);
  const scene = SCENES[seed % SCENES.length] as (typeof SCENES)[number]; // never empty
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
    // Another writer's first change may come before the object.
    await act(w).catch(async () => {
      await calm();
      await act(w);
    });
    if (chance(0.9)) await w.advance(`${below(chance(0.5) ? 50 : 40_000)}ms`);
    if (others < OTHERS_MAX && chance(0.3)) {
      const other = scene.others[below(scene.others.length)];
      // What it would change may not exist yet.
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
