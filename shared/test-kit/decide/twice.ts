/** Runs a sync twice on one snapshot. A difference means that it reads a clock, randomness or a variable that outlives a sync. */
import { isObject } from "@deltaloop/base";
import type { Controller } from "@deltaloop/sdk";
import { createContext } from "@deltaloop/sdk/context";
import type { Snapshot, Surroundings } from "@deltaloop/sdk/context";

/** A sync that returned two different results for one snapshot. */
export class DifferentResultsError extends Error {
  override readonly name = "DifferentResultsError";
}

type Ended = { readonly returned: unknown } | { readonly thrown: unknown };

/** @returns what the first run returned. @throws what it threw, or {DifferentResultsError} */
export async function syncTwice(
  controller: Controller,
  snapshot: Snapshot,
  { now, log, live }: Omit<Surroundings, "signal">,
): Promise<unknown> {
  const answers = new Map<string, ReturnType<Surroundings["live"]>>();
  const run = async (): Promise<Ended> => {
    const signal = new AbortController().signal;
    const remembered: Surroundings["live"] = async (kind, name, namespace) => {
      const id = `${kind.group}/${kind.kind} ${namespace}/${name}`;
      const answer = answers.get(id) ?? live(kind, name, namespace);
      answers.set(id, answer);
      return structuredClone(await answer);
    };
    const context = createContext(controller.definition, structuredClone(snapshot), { now: new Date(now), signal, log, live: remembered });
    try {
      return { returned: await controller.sync(context) };
    } catch (thrown) {
      return { thrown };
    }
  };
  const first = await run();
  const second = await run();
  const where = `${controller.name}: two syncs of ${snapshot.object.kind} ${snapshot.object.metadata.name} on one snapshot differ`;
  const remedy = "use `now` and the snapshot, no clock, randomness or variable that outlives a sync";
  if ("thrown" in first || "thrown" in second) {
    const [a, b] = [first, second].map((ended) => ("thrown" in ended ? `throws ${messageOf(ended.thrown)}` : "returns"));
    if (a !== b) throw new DifferentResultsError(`${where}: the first ${a}, the second ${b}; ${remedy}`);
    throw "thrown" in first ? first.thrown : undefined;
  }
  const different = differenceOf(first.returned, second.returned);
  if (different !== undefined) throw new DifferentResultsError(`${where}: ${different}; ${remedy}`);
  return first.returned;
}

/** The first path at which two plain values differ: `apply[0].spec.replicas is 3, then 4`. */
export function differenceOf(a: unknown, b: unknown, path = ""): string | undefined {
  const [x, y] = [plain(a), plain(b)];
  if (Array.isArray(x) && Array.isArray(y)) {
    for (let i = 0; i < Math.max(x.length, y.length); i++) {
      const found = differenceOf(x[i], y[i], `${path}[${i}]`);
      if (found !== undefined) return found;
    }
    return undefined;
  }
  if (isObject(x) && isObject(y)) {
    for (const name of new Set([...Object.keys(x), ...Object.keys(y)])) {
      const found = differenceOf(x[name], y[name], path === "" ? name : `${path}.${name}`);
      if (found !== undefined) return found;
    }
    return undefined;
  }
  return x === y ? undefined : `${path || "the result"} is ${text(x)}, then ${text(y)}`;
}

function plain(value: unknown): unknown {
  if (value instanceof Date) return Number.isFinite(value.getTime()) ? value.toISOString() : "an invalid date";
  return Object.is(value, NaN) ? "NaN" : value;
}

const TEXT_MAX = 200;

function text(value: unknown): string {
  const json = value === undefined ? "absent" : JSON.stringify(value);
  return json.length > TEXT_MAX ? `${json.slice(0, TEXT_MAX)}…` : json;
}

function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}
