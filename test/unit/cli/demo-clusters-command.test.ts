/** `deltaloop demo --clusters`, with redis-server and with the Store in memory. Catches: a step that never completes, a cluster that waits for another. */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";

import { describe, expect, it } from "vitest";

import { ensureRedisServer } from "../../support/redis.ts";

const MAIN = join(import.meta.dirname, "../../../cli/main.ts");
const DEMO_MS_MAX = 100_000;
const run = promisify(execFile);
const noRedis = ensureRedisServer();

async function demo(environment: Readonly<Record<string, string>>, ...flags: readonly string[]): Promise<string> {
  const options = { env: { ...process.env, NO_COLOR: "1", ...environment }, timeout: DEMO_MS_MAX };
  const { stdout, stderr } = await run(process.execPath, [MAIN, "demo", ...flags], options);
  return `${stdout}${stderr}`;
}

describe.each([
  { store: "redis-server", environment: {}, skipped: noRedis },
  { store: "memory", environment: { PATH: "/nowhere" }, skipped: undefined },
])("with the store $store", ({ store, environment, skipped }) => {
  it.skipIf(skipped !== undefined)(
    `rolls out in all other clusters while one does not answer, and then in that one${skipped === undefined ? "" : ` (${skipped})`}`,
    async () => {
      const printed = await demo(environment, "--clusters", "3");
      expect(printed).toMatch(new RegExp(`^Ready after .*: 3 in-memory API servers, .*, store ${store}\\.$`, "m"));
      const steps = [...printed.matchAll(/^> (.*)\n(?:.*\n)*? {2}complete in (.*) after /gm)].map(([, what, where]) => [what, where]);
      expect(steps).toEqual([
        ["create Deployment web with 3 replicas of web:v1 in each cluster", "3 clusters"],
        ["cluster-1 does not answer; roll web to image web:v2 in the others", "2 clusters"],
        ["cluster-1 is reachable again and rolls out web:v2", "1 cluster"],
      ]);
      expect(printed).toMatch(/^Done in .* made \d+ writes and 18 pods; /m);
      expect(printed).not.toMatch(/error|warn/i);
    },
    DEMO_MS_MAX,
  );
});

it.each(["--open", "--real-agent"])("rejects %s, which applies to one cluster", async (flag) => {
  await expect(demo({}, "--clusters", "2", flag)).rejects.toMatchObject({
    code: 2,
    stderr: expect.stringContaining(`${flag} applies to one cluster`),
  });
});
