/** The faults of the trials: one fault at every call of every example, and random faults. */
import { createSeededRandom } from "../../../shared/base/memory/random.ts";
import type { Fault } from "../../../shared/test-kit/simulation.ts";
import type { CallName } from "./call-faults.ts";
import { SCENES } from "./scenes.ts";
import type { Scene } from "./scenes.ts";
import type { Outcome, Trial } from "./trials.ts";

const DEATHS: readonly Fault[] = [
  { kind: "dies", isDone: false },
  { kind: "dies", isDone: true },
];
const LOSSES: readonly Fault[] = [
  { kind: "lost", isDone: false },
  { kind: "lost", isDone: true },
];
const OTHERS = [undefined, undefined, "takes the name", "edits", "deletes"] as const;
const FAULTS_MAX = 4;
/**
 * Maximum number of tested occurrences of the same call. Even without faults, a call may occur more often, because a failed sync repeats
 * it.
 */
const REPEATED_MAX = 2;

/** Returns one trial of each scene without faults: its calls are the fault points of the other trials. */
export function plainTrials(prefix = "plain"): readonly Trial[] {
  return SCENES.map((scene) => ({ id: `${prefix}-${scene.controller}`, scene, faults: [] }));
}

/** Each scene with each concurrent writer. */
export function contestedTrials(prefix: string): readonly Trial[] {
  const others = OTHERS.filter((other) => other !== undefined);
  return SCENES.flatMap((scene) =>
    others.map((other) => ({ id: `${prefix}-${scene.controller}-${other.split(" ")[0]}`, scene, faults: [], other })),
  );
}

/** Kills the process before and after each call of the plain trials, and drops the request or the response of each request. */
export function everyPoint({ calls }: Outcome): readonly Trial[] {
  return plainTrials().flatMap(({ id, scene }) =>
    (calls.get(id) ?? []).flatMap((call, index) =>
      [...DEATHS, ...(isRequest(call) ? LOSSES : [])].map((fault): Trial => ({
        id: `${scene.controller}-${index + 1}-${fault.kind}-${fault.isDone ? "after" : "before"}`,
        scene,
        faults: [[call, fault]],
      })),
    ),
  );
}

/** Several faults and a concurrent writer at once. */
export function randomTrials({ calls }: Outcome, count: number, seed: number): readonly Trial[] {
  const random = createSeededRandom(seed);
  // the list is never empty
  const one = <T>(all: readonly [T, ...T[]] | readonly T[]): T => all[Math.floor(random.next() * all.length)] as T;
  return Array.from({ length: count }, (_, index): Trial => {
    const scene: Scene = one(SCENES);
    const points = (calls.get(`plain-${scene.controller}`) ?? []).flatMap(again);
    const faults = Array.from({ length: 1 + Math.floor(random.next() * FAULTS_MAX) }, () => {
      const call = one(points);
      return [call, one(isRequest(call) ? [...DEATHS, ...LOSSES] : DEATHS)] as const;
    });
    const other = one(OTHERS);
    return { id: `random-${seed}-${index}`, scene, faults, ...(other && { other }) };
  });
}

function isRequest(call: CallName): boolean {
  return !["writeThrough", "correlateEvents", "done"].some((name) => call.startsWith(`${name} `));
}

/** Adds `create pods 2` for `create pods 1`. */
function again(call: CallName): readonly CallName[] {
  const at = call.lastIndexOf(" ");
  const nth = Number(call.slice(at + 1));
  return Array.from({ length: REPEATED_MAX }, (_, more) => `${call.slice(0, at)} ${nth + more}`);
}
