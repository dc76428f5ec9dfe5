/** Would catch: a cache that every user of this machine can change, and a password that every user can read. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { describe, expect, it, vi } from "vitest";

import { startLocalRedis } from "../../../../shared/local/processes/local-redis.ts";
import { redisClient } from "../../../../shared/store/redis/client.ts";
import { ensureRedisServer } from "../../../support/redis.ts";

const why = ensureRedisServer();

describe.skipIf(why !== undefined)(`a local redis-server${why === undefined ? "" : ` (${why})`}`, () => {
  it("accepts only connections with its URL's password, which no command line contains", async () => {
    const redis = await startLocalRedis();
    if (redis === undefined) throw new Error("it did not start");
    try {
      const ask = async (url: string): Promise<string> => {
        const client = redisClient({ url, cluster: false }).on("error", () => undefined);
        return await client
          .config("GET", "maxmemory-policy")
          .then(String, (error: unknown) => String(error))
          .finally(() => client.disconnect());
      };
      const { password, port } = new URL(redis.url);
      expect(await ask(redis.url)).toBe("maxmemory-policy,noeviction");
      expect(await ask(`redis://127.0.0.1:${port}`)).toContain("NOAUTH");
      expect(password).toHaveLength(64);
      expect(readFileSync(`/proc/${redis.child.pid}/cmdline`, "utf8")).not.toContain(password);
    } finally {
      await redis.stop();
    }
  });
});

it("does not pass the MAC and digest keys to redis-server", async () => {
  const folder = mkdtempSync(join(tmpdir(), "deltaloop-no-redis-"));
  const [told, started] = [join(folder, "told"), join(folder, "redis-server")];
  writeFileSync(started, `#!/bin/sh\nenv > '${told}'\n`, { mode: 0o755 });
  vi.stubEnv("PATH", `${folder}${delimiter}${process.env["PATH"]}`);
  vi.stubEnv("DELTALOOP_MAC_KEY", "secret");
  try {
    expect(await startLocalRedis()).toBeUndefined();
    expect(readFileSync(told, "utf8")).toContain("PATH=");
    expect(readFileSync(told, "utf8")).not.toContain("DELTALOOP_");
  } finally {
    vi.unstubAllEnvs();
    rmSync(folder, { recursive: true });
  }
});
