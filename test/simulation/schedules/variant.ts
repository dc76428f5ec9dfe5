/**
 * A schedule by name: a seed, and what differs from it. `71@2400:9/with=clock jumps/steps=60/without=messages lost+losses/skip=3+4/replicas=1`
 * draws the first 2,400 random numbers of seed 71 and then those of seed 9 (there may be more of `@number:seed`), from there on with a fault
 * that the seed may not have; it ends after 60 steps, has neither of the two faults, leaves out user actions 3 and 4, and no ReplicaSet has
 * more than one replica.
 */
import { createSeededRandom } from "../../../shared/base/memory/random.ts";
import type { Random } from "../../../shared/base/random.ts";

interface Branch {
  /** Number of random numbers that are drawn before this seed's. */
  readonly at: number;
  readonly seed: number;
}

export interface Variant {
  readonly branches: readonly Branch[];
  /** Faults that may happen after the last branch, although the seed has not drawn them. */
  readonly also: ReadonlySet<string>;
  /** Maximum number of steps before the quiet phase. */
  readonly steps: number;
  /** Faults that do not happen. */
  readonly without: ReadonlySet<string>;
  /** Numbers of user actions that do not happen. */
  readonly skip: ReadonlySet<number>;
  /** No ReplicaSet is larger. */
  readonly replicas: number;
}

export const NO_VARIANT: Variant = {
  branches: [],
  also: new Set(),
  steps: Infinity,
  without: new Set(),
  skip: new Set(),
  replicas: Infinity,
};

export interface ScheduleName {
  readonly seed: number;
  readonly variant: Variant;
}

/** @throws {Error} if `text` is not the name of a schedule */
export function parseScheduleName(text: string): ScheduleName {
  const [head = "", ...parts] = text.split("/");
  if (!/^\d+(?:@\d+:\d+)*$/.test(head)) throw new Error(`not a schedule: ${text} (for example 71@2400:9/steps=60)`);
  const [seed, ...branches] = head.split("@");
  const rest = new Map(
    parts.map((part) => {
      const [, key, value] = /^(with|steps|without|skip|replicas)=(.+)$/.exec(part) ?? [];
      if (key === undefined || value === undefined) throw new Error(`not a part of a schedule: ${part}`);
      return [key, value] as const;
    }),
  );
  return {
    seed: Number(seed),
    variant: {
      branches: branches.map((branch) => {
        const [at, branchSeed] = branch.split(":").map(Number);
        return { at: at ?? 0, seed: branchSeed ?? 0 };
      }),
      also: new Set(rest.get("with")?.split("+")),
      steps: Number(rest.get("steps") ?? Infinity),
      without: new Set(rest.get("without")?.split("+")),
      skip: new Set(rest.get("skip")?.split("+").map(Number)),
      replicas: Number(rest.get("replicas") ?? Infinity),
    },
  };
}

export function scheduleNameOf({ seed, variant: { branches, also, steps, without, skip, replicas } }: ScheduleName): string {
  return [
    [seed, ...branches.map(({ at, seed: other }) => `${at}:${other}`)].join("@"),
    ...(also.size === 0 ? [] : [`with=${[...also].join("+")}`]),
    ...(steps === Infinity ? [] : [`steps=${steps}`]),
    ...(without.size === 0 ? [] : [`without=${[...without].join("+")}`]),
    ...(skip.size === 0 ? [] : [`skip=${[...skip].join("+")}`]),
    ...(replicas === Infinity ? [] : [`replicas=${replicas}`]),
  ].join("/");
}

/** The random numbers of a schedule; `draws` counts them. */
export function branched(seed: number, branches: readonly Branch[]): Random & { readonly draws: number } {
  let random = randomOf(seed);
  const left = [...branches];
  let draws = 0;
  return {
    next() {
      for (; left[0] && draws >= left[0].at; left.shift()) random = randomOf(left[0].seed);
      draws++;
      return random.next();
    },
    get draws() {
      return draws;
    },
  };
}

function randomOf(seed: number): Random {
  return createSeededRandom(seed * 7919 + 13);
}
