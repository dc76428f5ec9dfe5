/** The ACL users of infra/redis-users.yml on a real server. redis-store.test.ts covers what functions may do. */
import { globSync, readFileSync } from "node:fs";

import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { redisAccessOf } from "../../shared/controllers/registry/redis-access.ts";
import { REGISTRY } from "../../shared/controllers/registry/registry.ts";
import { ensureRedisServer, startRedis, type RedisServer } from "../support/redis.ts";

const ACCESS = /AccessString: "([^"]+)"/.exec(readFileSync("infra/redis-users.yml", "utf8"))?.[1]?.replaceAll("${sls:stage}", "prod") ?? "";
const SCRIPTS = globSync("shared/store/redis/scripts/**/*.lua").map((file) => readFileSync(file, "utf8"));
const CALLED = [
  ...new Set(SCRIPTS.flatMap((text) => [...text.matchAll(/p?call\(\s*["']([A-Za-z]+)/g)].map(([, name = ""]) => name.toUpperCase()))),
];
/** The commands that the client sends outside of scripts. */
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
  "HSET dl:prod:watchers w x",
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
  describe("the Redis ACL user of the Store", () => {
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
      // Uses no valid arguments, because the test only checks for "no permission".
      for (const name of CALLED)
        expect(await answer(`${name} dl:prod:{c}:x 1`), name).not.toMatch(/no permissions to run|not found|unknown/i);
    });

    it.each(ASKED)("may run %s", async (command) => {
      expect(await answer(command)).toBe("OK");
    });

    it.each(REFUSED)("may not %s", async (command) => {
      expect(await answer(command)).toMatch(/has no permissions/);
    });

    /** Commands that each function's user must not run, because its scripts do not need them. */
    const OTHERS = {
      "apply-deltas": [
        "HSET dl:prod:{c}:guard stop x",
        "HDEL dl:prod:{c}:guard stop",
        "SET dl:prod:{c}:opened 1",
        "ZREM dl:prod:{c}:e1:q:replicaset k",
      ],
      "dead-deltas": [
        "HGETALL dl:prod:{c}:e1:s:pods:o",
        "HSET dl:prod:{c}:e1:s:pods:o f x",
        "HSET dl:prod:{c}:e1:i:o f x",
        "HGET dl:prod:{c}:guard stop",
      ],
      "sync-deployment": [
        "HSET dl:prod:{c}:guard stop x",
        "HSET dl:prod:{c}:e1:l:pods:0 W 9",
        "SET dl:prod:{c}:rl:replicationcontroller 1",
        "HSET dl:prod:{c}:ev:replicationcontroller:g a b",
      ],
      "sync-replicationcontroller": [
        "SET dl:prod:{c}:rl:deployment 1",
        "HDEL dl:prod:{c}:e1:t:pods:0 k",
        "RPUSH dl:prod:{c}:e1:quar x",
        "SCAN 0",
      ],
      sweep: [
        "HGETALL dl:prod:{c}:e1:s:pods:o",
        "HSET dl:prod:{c}:e1:m:pods state SYNCED",
        "HSET dl:prod:{c}:e1:p:replicaset k x",
        "DEL dl:prod:{c}:e1:q:replicaset",
      ],
    };
    it.each(redisAccessOf(REGISTRY))(
      "$name may not run another function's commands, either directly or in a script",
      async ({ name, rules }) => {
        await redis.call("ACL", "SETUSER", name, "reset", ...rules("prod").split(" "), ">password");
        const client = new Redis(server.url, { username: name, password: "password" });
        const refused = [
          ...REFUSED,
          "GET dl:other:{c}:ep",
          "HGETALL dl:prod:watchers",
          "HDEL dl:prod:watchers w",
          ...(Object.entries(OTHERS).find(([of]) => of === name)?.[1] ?? []),
        ];
        for (const command of refused) {
          const [verb = "", ...args] = command.split(" ");
          await expect(client.call(verb, ...args), command).rejects.toThrow(/NOPERM|DEBUG command not allowed/);
          if (!args[0]?.startsWith("dl:prod")) continue;
          const script = "return redis.call(unpack(ARGV))";
          await expect(client.eval(script, 1, args[0], verb, ...args), `${command} in a script`).rejects.toThrow(
            /user executing the script can't|ACL failure in script/,
          );
        }
        client.disconnect();
      },
    );
  });
