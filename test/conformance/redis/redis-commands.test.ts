/**
 * The probe of a Redis before the first deployment, and the limits of a managed service that it stands for: refused commands, at most 3,999
 * arguments, and a policy that evicts keys with an expiry.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

import type { Redis } from "ioredis";
import { afterEach, describe, expect, it } from "vitest";

import { redisClient } from "../../../shared/store/redis/client.ts";
import { KEYLESS_COMMANDS, probeCommands, SCRIPT_COMMANDS } from "../../../shared/store/redis/inspect/command-probe.ts";
import { ARGUMENTS_MAX, connect } from "../../../shared/store/redis/connection.ts";
import { deltaloop, ROOT } from "../../support/e2e.ts";
import { ensureRedisServer, startRedis, startRedisCluster } from "../../support/redis.ts";

const reason = ensureRedisServer();
const SCRIPTS = join(ROOT, "shared", "store", "redis", "scripts");
const sources = readdirSync(SCRIPTS, { recursive: true, encoding: "utf8" })
  .filter((name) => name.endsWith(".lua"))
  .map((name) => ({ name, text: readFileSync(join(SCRIPTS, name), "utf8").replace(/--.*$/gm, "") }));

it("the probe calls every command that a script calls, and no other", () => {
  expect(sources.length).toBeGreaterThan(30);
  const called = new Set(sources.flatMap(({ text }) => [...text.matchAll(/\bp?call\("([A-Z]+)"/g)].map(([, command]) => command)));
  expect([...new Set([...SCRIPT_COMMANDS, ...KEYLESS_COMMANDS].map(([command]) => command))].toSorted()).toEqual([...called].toSorted());
});

it("only the memory of Events gets an expiry, so that a volatile-* policy evicts no key that a decision reads", () => {
  const expiring = sources.filter(({ text }) => /EXPIRE|SETEX|"P?EXAT"|"[EP]X"/.test(text)).map(({ name }) => name);
  expect(expiring).toEqual([join("audit", "correlate-events.lua")]);
});

describe.skipIf(reason !== undefined)(`commands of Redis${reason === undefined ? "" : `, skipped: ${reason}`}`, () => {
  const ends: (() => unknown)[] = [];
  afterEach(async () => {
    for (const end of ends.splice(0).toReversed()) await end();
  });
  const server = async (...args: readonly string[]) => {
    const started = await startRedis(...args);
    ends.push(() => started.stop());
    return started;
  };
  /** A server whose clients may not call some commands. */
  const restricted = async (...rules: readonly string[]): Promise<string> => {
    const { port, url } = await server();
    const admin = redisClient({ url, cluster: false });
    await admin.call("ACL", "SETUSER", "probed", "on", ">pw", "~*", "&*", "+@all", ...rules);
    admin.disconnect();
    return `redis://probed:pw@127.0.0.1:${port}`;
  };
  const failures = (findings: Awaited<ReturnType<typeof probeCommands>>) =>
    findings.filter(({ state }) => state !== "ok").map(({ what, seen }) => `${what}: ${seen}`);

  it("finds nothing wrong with a redis-server, and leaves no key", async () => {
    const { url } = await server();
    expect(failures(await probeCommands({ url, cluster: false }, "C"))).toEqual([]);
    const client = redisClient({ url, cluster: false });
    ends.push(() => client.disconnect());
    expect(await client.dbsize()).toBe(0);
  });

  it("reports each command that an ACL refuses, and what that costs", async () => {
    const url = await restricted("-wait", "-info", "-zmscore", "-config");
    const found = failures(await probeCommands({ url, cluster: false }, "B"));
    expect(found.map((line) => line.split(":")[0])).toEqual(["INFO", "commands in scripts", "WAIT"]);
    expect(found[1]).toMatch(/ZMSCORE \(.*INFO \(/);
  });

  it("reports a Redis that refuses scripts, has no replica in class B, or evicts any key", async () => {
    const scriptless = await restricted("-evalsha");
    expect(failures(await probeCommands({ url: scriptless, cluster: false }, "C"))).toEqual([expect.stringMatching(/^EVALSHA.*NOPERM/)]);
    const { url } = await server("--maxmemory-policy", "allkeys-lru");
    const found = failures(await probeCommands({ url, cluster: false }, "B"));
    expect(found).toEqual([expect.stringMatching(/^maxmemory-policy: .*allkeys-lru/), expect.stringMatching(/^WAIT: no replica/)]);
  });

  it("accepts a policy that evicts keys with an expiry only, as ElastiCache Serverless has it", async () => {
    const { url } = await server("--maxmemory-policy", "volatile-lru");
    expect(failures(await probeCommands({ url, cluster: false }, "C"))).toEqual([]);
  });

  // Proves nothing about ElastiCache Serverless, which is a cluster to its clients but another server.
  it("works on a Redis Cluster in class A or C, and refuses class B there", async () => {
    const cluster = await startRedisCluster(3);
    ends.push(() => cluster.stop());
    const url = cluster.nodes[0]?.url ?? "";
    expect(failures(await probeCommands({ url, cluster: true }, "A"))).toEqual([]);
    expect(failures(await probeCommands({ url, cluster: true }, "B"))).toEqual([expect.stringMatching(/^durability: class B/)]);
  });

  it("sends no request with more than 3,999 arguments, and a script gets all of them unchanged", async () => {
    const { url } = await server();
    const client = redisClient({ url, cluster: false }) as Redis;
    ends.push(() => client.disconnect());
    const sent: number[] = [];
    const send = client.sendCommand.bind(client);
    client.sendCommand = (command, stream) => {
      sent.push(1 + (command.args as readonly unknown[]).length);
      return send(command, stream);
    };
    const { run } = connect(client);
    const texts = Array.from({ length: 2_000 }, (_, i) => [`stop:${i}`, "", `=é\u0000\u001f"\\${i}`]).flat();
    expect(await run("setStop", ["ep", "guard"], ["", "", "2000", ...texts])).toEqual(["ok"]);
    expect(Math.max(...sent)).toBeLessThanOrEqual(ARGUMENTS_MAX);
    const stored = await client.hgetall("guard");
    expect(Object.keys(stored)).toHaveLength(2_000);
    expect(stored["stop:1999"]).toBe('é\u0000\u001f"\\1999');
  });

  it("`deltaloop doctor --redis` needs no deployment, and exits with 1 when a command is refused", async () => {
    const good = await server();
    const checked = deltaloop(["doctor", "--redis", good.url]);
    expect(await checked.exited).toMatchObject({ code: 0 });
    expect(checked.output()).toContain("commands in scripts: all ");
    const refused = deltaloop(["doctor", "--redis", await restricted("-hmget")]);
    expect(await refused.exited).toMatchObject({ code: 1 });
    expect(refused.output()).toMatch(/failure +commands in scripts: HMGET/);
  });
});
