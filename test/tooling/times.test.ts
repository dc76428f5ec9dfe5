/** The table of times, compared with every file that states one of them and with the relations between them. */
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";

import { describe, expect, it } from "vitest";

import { SCRIPTS } from "../../shared/store/redis/scripts/load.ts";
import { DEAD_DELTA_QUEUE, DELTA_QUEUE, DOORBELL_QUEUE } from "../../shared/local/queues.ts";
import * as times from "../../shared/base/times.ts";

const ROOT = process.cwd();
const SCRIPT_FOLDER = "shared/store/redis/scripts";
const read = (path: string): Promise<string> => readFile(join(ROOT, path), "utf8");

/** Returns `{ name: seconds }` for the blocks of a YAML fragment that contain `field`; block names are indented by `indent` spaces. */
function secondsOf(yaml: string, indent: number, field: string): Readonly<Record<string, number>> {
  const blocks = yaml.split(new RegExp(`^ {${indent}}(?=[A-Za-z][\\w-]*:)`, "m"));
  return Object.fromEntries(
    blocks.flatMap((block) => {
      const value = new RegExp(`^ +${field}: (\\d+)$`, "m").exec(block)?.[1];
      return value === undefined ? [] : [[/^[\w-]+/.exec(block)?.[0] ?? "", Number(value)] as const];
    }),
  );
}

describe("files with times of their own equal the table", () => {
  it("the functions' time limits", async () => {
    const { sync, ...others } = times.FUNCTION_TIMEOUT_SECONDS;
    const syncs = Object.fromEntries(["deployment", "replicaset", "replicationcontroller"].map((name) => [`sync-${name}`, sync]));
    expect(secondsOf(await read("infra/functions.yml"), 0, "timeout")).toEqual({ ...others, ...syncs });
  });

  it("the queues' visibility, for CloudFormation and for local queues", async () => {
    const { deltas, deadDeltas, doorbells } = times.VISIBILITY_SECONDS;
    expect(secondsOf(await read("infra/queues.yml"), 2, "VisibilityTimeout")).toEqual({
      DeltasQueue: deltas,
      DeltasDeadQueue: deadDeltas,
      DeploymentQueue: doorbells,
      ReplicaSetQueue: doorbells,
      ReplicationControllerQueue: doorbells,
    });
    expect([DELTA_QUEUE.attributes, DEAD_DELTA_QUEUE, DOORBELL_QUEUE.attributes].map(({ VisibilityTimeout }) => VisibilityTimeout)).toEqual(
      [deltas, deadDeltas, doorbells].map(String),
    );
  });

  it("the scripts, which get each from the table and define none", async () => {
    const { LEASE_MS, OP_DEADLINE_MS, MAY_LAND_MS, EXPECTATION_MS } = times;
    for (const [script, parts] of Object.entries(SCRIPTS)) {
      const text = parts.join("\n");
      for (const [name, ms] of Object.entries({ LEASE_MS, OP_DEADLINE_MS, MAY_LAND_MS, EXPECTATION_MS })) {
        const defined = [...text.matchAll(new RegExp(`local ${name} = (\\d+)`, "g"))].map(([, value]) => Number(value));
        const isUsed = new RegExp(`\\b${name}\\b`).test(text.replace(/^--.*$/gm, "").replace(/^local \w+_MS = \d+$/gm, ""));
        expect(defined, `${name} in ${script}`).toEqual(defined.length === 0 && !isUsed ? [] : [ms]);
      }
    }
    for (const file of await readdir(join(ROOT, SCRIPT_FOLDER), { recursive: true })) {
      if (file.endsWith(".lua"))
        expect(await read(join(SCRIPT_FOLDER, file)), file).not.toMatch(/local (LEASE|OP_DEADLINE|MAY_LAND|EXPECTATION)_MS/);
    }
  });
});

describe("relations between the times", () => {
  const second = 1_000;
  const shortestMs = Math.min(...Object.values(times.FUNCTION_TIMEOUT_SECONDS)) * second;

  it("a request outlives a webhook of 10 s, and a lease outlives a request", () => {
    expect(times.REQUEST_TIMEOUT_MS).toBeGreaterThan(10 * second);
    expect(times.WRITE_MARGIN_MS).toBeGreaterThan(times.REQUEST_TIMEOUT_MS);
    // A write can start between two renewals, even if the later renewal takes as long as the timeout of a Redis command.
    expect(times.LEASE_MS).toBeGreaterThan(times.RENEWAL_MS + times.REDIS_COMMAND_TIMEOUT_MS + times.WRITE_MARGIN_MS);
  });

  it("an intent blocks its key while the call may take effect, and no longer than the lease of a dead run", () => {
    expect(times.MAY_LAND_MS).toBeGreaterThan(times.REQUEST_TIMEOUT_MS);
    expect(times.OP_DEADLINE_MS).toBeGreaterThanOrEqual(times.MAY_LAND_MS);
    expect(times.OP_DEADLINE_MS).toBeLessThanOrEqual(times.LEASE_MS - times.RENEWAL_MS);
  });

  it("after any SIGKILL, another process continues within 30 s", () => {
    expect(times.TAKEOVER_MS_MAX).toBeLessThanOrEqual(30 * second);
    expect(Math.max(times.LEASE_MS, times.OP_DEADLINE_MS) + 2 * times.SWEEP_PERIOD_MS).toBeLessThanOrEqual(times.TAKEOVER_MS_MAX);
    expect(times.VISIBILITY_SECONDS.deltas * second).toBeLessThanOrEqual(times.TAKEOVER_MS_MAX);
  });

  it("a stall of Redis or of the API server is reported before the shortest function times out", () => {
    const answeredMs = shortestMs - times.ANSWER_RESERVE_MS;
    expect(times.REDIS_COMMAND_TIMEOUT_MS).toBeLessThan(answeredMs);
    expect(times.REDIS_CONNECT_TIMEOUT_MS).toBeLessThan(times.REDIS_COMMAND_TIMEOUT_MS);
    expect(times.APPLIER_REQUEST_TIMEOUT_MS + times.APPLIER_WAIT_MS_MAX).toBeLessThan(answeredMs);
  });

  it("messages stay invisible for six time limits, and a sync has time for more than one request", () => {
    const { "apply-deltas": applier, "dead-deltas": dead, sync } = times.FUNCTION_TIMEOUT_SECONDS;
    const { deltas, deadDeltas, doorbells } = times.VISIBILITY_SECONDS;
    expect([deltas / applier, deadDeltas / dead, doorbells / sync].every((limits) => limits >= 6)).toBe(true);
    expect(sync * second).toBeGreaterThanOrEqual(2 * times.WRITE_MARGIN_MS);
  });

  it("a call for a Lease ends well before the Lease of 15 s, whose holder gives up after 10 s", () => {
    expect(times.LEASE_CALL_WAIT_MS_MAX + times.LEASE_CALL_TIMEOUT_MS).toBeLessThan((15 - 10 + 1) * second);
  });
});
