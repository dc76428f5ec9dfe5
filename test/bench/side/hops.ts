/**
 * The duration of each step of one request, from the timestamps of the API server's audit log and of Redis' MONITOR, which use the same
 * clock. The measured processes run unchanged; MONITOR costs Redis some CPU.
 */
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { createInterface } from "node:readline";

import { Redis } from "ioredis";

import { withoutComments } from "../../../infra/build/inline-scripts.ts";
import { SCRIPTS } from "../../../shared/store/redis/scripts/load.ts";
import type { ScriptName } from "../../../shared/store/redis/scripts/layouts.ts";
import { scriptText } from "../../../shared/store/redis/connection.ts";

/** Something that happened, in ms since 1970. */
export interface Mark {
  readonly atMs: number;
  /** A script's name, or `verb resource/subresource`; `received` and `answered` are appended for requests. */
  readonly name: string;
}

/** The Redis of a measured `dev`. */
export interface MeasuredRedis {
  /** The scripts that Redis has run, in order. */
  readonly marks: readonly Mark[];
  /** CPU seconds of the scripts so far. */
  scriptSeconds(): Promise<number>;
  stop(): void;
}

/** Watches a Redis; without `marks`, MONITOR is off and no marks are recorded. */
export async function measureRedis(url: string, { marks: isMonitored }: { readonly marks: boolean }): Promise<MeasuredRedis> {
  const names = new Map(
    (Object.keys(SCRIPTS) as ScriptName[]) // the keys of SCRIPTS
      .map((name) => [
        createHash("sha1")
          .update(withoutComments(scriptText(name)))
          .digest("hex"),
        name,
      ]), // as it is bundled
  );
  const client = new Redis(url);
  const marks: Mark[] = [];
  const monitor = isMonitored ? await client.monitor() : undefined;
  monitor?.on("monitor", (time: string, [command = "", hash = ""]: readonly string[], source: string) => {
    const name = /^evalsha$/i.test(command) && source !== "lua" ? names.get(hash) : undefined;
    if (name !== undefined) marks.push({ atMs: Number(time) * 1_000, name });
  });
  return {
    marks,
    async scriptSeconds() {
      const stats = await client.info("commandstats");
      return Number(/^cmdstat_evalsha:calls=\d+,usec=(\d+)/m.exec(stats)?.[1] ?? 0) / 1e6;
    },
    stop() {
      monitor?.disconnect();
      client.disconnect();
    },
  };
}

interface Entry {
  readonly verb: string;
  readonly requestReceivedTimestamp: string;
  readonly stageTimestamp: string;
  readonly user: { readonly username: string };
  readonly objectRef?: { readonly resource?: string; readonly subresource?: string; readonly namespace?: string };
}

/** The requests in a namespace since byte `since` of the audit log, without watches: two marks each. */
export async function requestMarks(auditLog: string, since: number, namespace: string): Promise<readonly Mark[]> {
  const marks: Mark[] = [];
  for await (const line of createInterface({ input: createReadStream(auditLog, { start: since }) })) {
    const { verb, objectRef, ...times } = JSON.parse(line) as Entry; // written by the API server
    if (objectRef?.namespace !== namespace || verb === "watch") continue;
    const name = `${verb} ${[objectRef.resource, objectRef.subresource].filter(Boolean).join("/")}`;
    marks.push({
      atMs: Date.parse(times.requestReceivedTimestamp) + microseconds(times.requestReceivedTimestamp),
      name: `${name} received`,
    });
    marks.push({ atMs: Date.parse(times.stageTimestamp) + microseconds(times.stageTimestamp), name: `${name} answered` });
  }
  return marks;
}

/** The part of a timestamp below one millisecond, in ms. */
function microseconds(timestamp: string): number {
  return Number(/\.\d{3}(\d{3})/.exec(timestamp)?.[1] ?? 0) / 1_000;
}

/** One step: it ends with the first mark of this name after the previous step. */
export interface Step {
  readonly title: string;
  readonly until: string;
}

/** The durations of `steps` between two times, and of what follows the last step. Undefined if a mark is missing. */
export function stepsOf(steps: readonly Step[], marks: readonly Mark[], fromMs: number, toMs: number): readonly number[] | undefined {
  const sorted = marks.filter(({ atMs }) => atMs >= fromMs && atMs <= toMs).toSorted((a, b) => a.atMs - b.atMs);
  const durations: number[] = [];
  let atMs = fromMs;
  for (const { until } of steps) {
    const mark = sorted.find((one) => one.atMs >= atMs && one.name === until);
    if (mark === undefined) return undefined;
    durations.push(mark.atMs - atMs);
    atMs = mark.atMs;
  }
  return [...durations, toMs - atMs];
}
