/** The user that infra/redis.yml makes, on a real server. */
import { globSync, readFileSync } from "node:fs";

import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { ensureRedisServer, startRedis, type RedisServer } from "../support/redis.ts";

const ACCESS =
  /AccessString: &access\s+"([^"]+)"/.exec(readFileSync("infra/redis.yml", "utf8"))?.[1]?.replace("${sls:stage}", "prod") ?? "";
const SCRIPTS = globSync("shared/store/redis/scripts/**/*.lua").map((file) => readFileSync(file, "utf8"));
const CALLED = [
  ...new Set(SCRIPTS.flatMap((text) => [...text.matchAll(/p?call\(\s*["']([A-Za-z]+)/g)].map(([, name = ""]) => name.toUpperCase()))),
];
/** What the client asks outside a script. */
const ASKED = [
  "INFO memory",
  "TIME",
  "WAIT 1 100",
  "PING",
  "SCRIPT LOAD x",
  "CLUSTER SLOTS",
  "SCAN 0",
  "HELLO 3",
  "HGETALL dl:prod:{c}:ep",
];
const REFUSED = [
  "FLUSHALL",
  "CONFIG GET maxmemory-policy",
  "KEYS *",
  "GET dl:other:{c}:ep",
  "GET anything",
  "ACL WHOAMI",
  "SHUTDOWN",
  "DEBUG SLEEP 1",
];

const missing = ensureRedisServer();
if (missing !== undefined) it.skip(`the store's user: ${missing}`);
else
  describe("the store's user", () => {
    let server: RedisServer;
    let redis: Redis;
    beforeAll(async () => {
      server = await startRedis();
      redis = new Redis(server.url);
      await redis.call("ACL", "SETUSER", "deltaloop", ...ACCESS.split(" "), ">password");
    });
    afterAll(async () => {
      redis.disconnect();
      await server.stop();
    });
    const answer = (command: string) =>
      redis.call("ACL", "DRYRUN", "deltaloop", ...command.split(" ")).then(String, (error: unknown) => String(error));

    it("may run every command of every script", async () => {
      expect(CALLED.length).toBeGreaterThan(20);
      // Some want other arguments than these; what is looked for is a command that it may not run.
      for (const name of CALLED)
        expect(await answer(`${name} dl:prod:{c}:x 1`), name).not.toMatch(/no permissions to run|not found|unknown/i);
    });

    it.each(ASKED)("may ask %s", async (command) => {
      expect(await answer(command)).toBe("OK");
    });

    it.each(REFUSED)("may not %s", async (command) => {
      expect(await answer(command)).toMatch(/has no permissions/);
    });
  });
