/**
 * Runs many schedules on one server, several at a time so that neither client nor server is idle, also with one of the Store's rules
 * disabled.
 */
import { Redis } from "ioredis";
import { SCRIPTS } from "../../../shared/store/redis/scripts/load.ts";
import { createAgreeingGround } from "../protocol/agreeing-ground.ts";
import { createMemoryGround } from "../protocol/memory-ground.ts";
import type { Breakage } from "./rules.ts";
import { createRedisGround } from "./ground.ts";
import { runSchedule } from "./schedule.ts";

/** The number of concurrent schedules per connection: all their commands of one tick are sent in one write. */
const SIDE_BY_SIDE = 32;

export interface FailedSchedule {
  readonly seed: number;
  readonly rule: string;
  readonly what: string;
}

export interface ManyOptions {
  readonly url: string;
  readonly first: number;
  readonly last: number;
  readonly off?: Breakage;
  /** Runs protocol seeds on the memory Store as well; an answer that differs counts as a violation. */
  readonly agrees?: boolean;
  /** After the first violation, started schedules run to their end and no further one starts. */
  readonly stop?: boolean;
}

/** @returns the violations by seed, and the number of schedules. */
export async function runMany(options: ManyOptions): Promise<{ readonly ran: number; readonly failed: readonly FailedSchedule[] }> {
  const { agrees = false, off, stop = false, url } = options;
  const restore = off?.script ? mutate(off.script) : () => undefined;
  const failed: FailedSchedule[] = [];
  let [next, ran] = [options.first, 0];
  const client = new Redis(url);
  const work = async (_: unknown, i: number): Promise<void> => {
    const scripts = createRedisGround(client, `ground-${i}`, off?.store);
    while (next <= options.last && !(stop && failed.length > 0)) {
      const seed = next++;
      const differs = (what: string): void => void failed.push({ seed, rule: "agree", what });
      const ground = agrees ? createAgreeingGround(createMemoryGround(), scripts, differs) : scripts;
      const { violations } = await runSchedule({ ground, seed, faults: agrees });
      ran++;
      failed.push(...violations.map(({ rule, what }) => ({ seed, rule, what })));
    }
  };
  try {
    await Promise.all(Array.from({ length: SIDE_BY_SIDE }).map(work));
  } finally {
    restore();
    client.disconnect();
  }
  return { ran, failed: failed.toSorted((a, b) => a.seed - b.seed) };
}

/**
 * Changes the text of scripts for clients that are created later.
 * @throws {Error} if the text to replace is missing, because the mutation would have no effect
 */
function mutate({ scripts, from, to }: NonNullable<Breakage["script"]>): () => void {
  // Clients of a schedule read the table when they are created; this process has no other clients.
  const table = SCRIPTS as unknown as Record<string, readonly string[]>;
  const before = scripts.map((name) => [name, table[name] ?? []] as const);
  for (const [name, parts] of before) {
    const at = parts.findIndex((part) => part.includes(from));
    if (at === -1) throw new Error(`${name} does not contain "${from}"`);
    table[name] = parts.map((part, i) => (i === at ? part.replace(from, () => to) : part));
  }
  return () => {
    for (const [name, parts] of before) table[name] = parts;
  };
}
