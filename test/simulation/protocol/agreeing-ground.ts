/**
 * Combines two grounds (Stores under test): calls go to both, and `report` receives results that differ. The schedule uses the results of
 * the reference.
 */
import { isDeepStrictEqual } from "node:util";
import type { Store } from "../../../shared/store/ports/store.ts";
import type { Ground } from "../schedules/ground.ts";

export function createAgreeingGround(reference: Ground, other: Ground, report: (what: string) => void): Ground {
  const both = async (name: string, left: () => Promise<unknown>, right: () => Promise<unknown>): Promise<unknown> => {
    const [expected, actual] = [await left(), await right()];
    const [a, b] = [comparable(expected), comparable(actual)];
    if (!isDeepStrictEqual(a, b)) report(`${name}: ${JSON.stringify(a)} in memory, ${JSON.stringify(b)} on Redis`);
    return expected;
  };
  const verb =
    (name: string, left: Verb, right: Verb) =>
    (...args: readonly unknown[]): Promise<unknown> =>
      both(
        name,
        () => left(...args),
        () => right(...args),
      );
  const verbs = Object.entries(reference.store as unknown as Verbs).map(([name, left]) => {
    return [name, verb(name, left, (...args) => (other.store as unknown as Verbs)[name]?.(...args) ?? Promise.resolve())];
  });
  return {
    store: Object.fromEntries(verbs) as Store, // has the same verbs
    clock: {
      get now() {
        return reference.clock.now;
      },
      set now(now) {
        reference.clock.now = now;
        other.clock.now = now;
      },
      after: reference.clock.after,
    },
    watermark: async (...args) =>
      (await both(
        "watermark",
        () => reference.watermark(...args),
        () => other.watermark(...args),
      )) as string,
    intents: async () => {
      return (await both(
        "intents",
        () => reference.intents(),
        () => other.intents(),
      )) as Awaited<ReturnType<Ground["intents"]>>;
    },
    snapshot: async () => {
      const backs = [await reference.snapshot(), await other.snapshot()];
      return async () => {
        for (const back of backs) await back();
      };
    },
    failOver: async () => void (await Promise.all([reference.failOver(), other.failOver()])),
    clear: async () => void (await Promise.all([reference.clear(), other.clear()])),
  };
}

type Verb = (...args: readonly unknown[]) => Promise<unknown>;
type Verbs = Readonly<Record<string, Verb>>;

/**
 * Returns the value without undefined fields, without the deadlines of planned intents, which nothing reads, and with sorted lists of objects, because the Store guarantees no order.
 */
function comparable(value: unknown): unknown {
  if (value instanceof Map)
    return new Map([...value].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([key, each]) => [key, comparable(each)]));
  if (Array.isArray(value)) {
    const all: readonly unknown[] = value.map(comparable);
    return all.every((each) => typeof each === "object") ? all.toSorted((a, b) => (text(a) < text(b) ? -1 : 1)) : all;
  }
  if (typeof value !== "object" || value === null) return value;
  const isPlanned = "state" in value && value.state === "planned";
  const fields = Object.entries(value).filter(([name, each]) => each !== undefined && !(isPlanned && name === "deadlineMs"));
  return Object.fromEntries(fields.toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([name, each]) => [name, comparable(each)]));
}

function text(value: unknown): string {
  return JSON.stringify(value) ?? "";
}
