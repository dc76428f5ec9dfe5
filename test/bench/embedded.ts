/** Shared by the benchmarks on the embedded stack: the stack itself, user requests, and waiting without busy polling. */
import { setTimeout as sleep } from "node:timers/promises";
import { startEmbedded } from "../../cli/dev/embedded.ts";
import type { Embedded, EmbeddedOptions } from "../../cli/dev/embedded.ts";
import { silentLog } from "../support/silent-log.ts";
import { rawClientIn } from "../support/raw-client.ts";
import type { RawClient } from "../support/raw-client.ts";

export interface Stack extends Embedded {
  /** A client in this process: user requests need no socket. */
  readonly person: RawClient;
}

const NODES = 3;

export async function startStack(options: Partial<EmbeddedOptions> = {}): Promise<Stack> {
  const embedded = await startEmbedded({ log: silentLog, nodes: NODES, ...options });
  await embedded.ready();
  return { ...embedded, person: rawClientIn(embedded.server, "bench") };
}

const PATIENCE_MS = 60_000;

/**
 * Polls every 5 ms.
 * @throws {Error} after a minute
 */
export async function until(what: string, look: () => boolean | Promise<boolean>): Promise<void> {
  const end = performance.now() + PATIENCE_MS;
  while (!(await look())) {
    if (performance.now() > end) throw new Error(`not within ${PATIENCE_MS / 1_000} s: ${what}`);
    await sleep(5);
  }
}

/** The template of pods with one small container. */
export function podTemplate(app: string, image = `${app}:1`): object {
  return { metadata: { labels: { app } }, spec: { containers: [{ name: "main", image }], terminationGracePeriodSeconds: 1 } };
}
