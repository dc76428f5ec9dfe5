/** `deltaloop doctor --redis`: whether a Redis accepts every command that deltaloop uses. Needs no cluster, no queues and no deployment. */
import { UsageError } from "@deltaloop/base";
import { probeCommands } from "@deltaloop/store/redis";
import type { CommandFinding, Durability } from "@deltaloop/store/redis";
import { redisFailure } from "../cluster/redis-failure.ts";
import { objectText } from "../output/output-option.ts";
import type { OutputFormat } from "../output/output-option.ts";

export interface ProbeFlags {
  readonly redis?: string;
  readonly redisCluster?: boolean;
  readonly redisDurability: Durability;
  readonly output?: OutputFormat;
}

const FORMAT_VERSION = 1;
const EXIT_FAILURE = 1;
const WIDTH = 10;

/** Prints the findings. Returns the exit code. @throws {UsageError} if the Redis does not answer */
export async function runProbe({ redisCluster: cluster = false, redisDurability, output }: ProbeFlags, url: string): Promise<number> {
  if (!URL.canParse(url) || !/^rediss?:$/.test(new URL(url).protocol))
    throw new UsageError("--redis: write redis://HOST:PORT or rediss://…");
  const findings = await probeCommands({ url, cluster }, redisDurability).catch((error: unknown) => {
    throw redisFailure("--redis", url, error);
  });
  process.stdout.write(output ? objectText({ version: FORMAT_VERSION, findings }, output) : textOf(findings));
  return findings.some(({ state }) => state === "failure") ? EXIT_FAILURE : 0;
}

function textOf(findings: readonly CommandFinding[]): string {
  const lines = findings.map(({ state, what, seen }) => `${state.padEnd(WIDTH)}${what}: ${seen}\n`);
  return `${lines.join("")}This is true of this server and this user only; another service may refuse what this one accepts.\n`;
}
