// Checks of the Redis server's eviction policy and INFO.
import { expect, it } from "vitest";

import { evictionProblem, serverFacts, versionProblem } from "../../../../shared/store/redis/server.ts";

const info = (policy: string): string => `# Memory\r\nused_memory:1\r\nmaxmemory_policy:${policy}\r\nallocator:x\r\n`;

it.each(["allkeys-lru", "allkeys-random", "allkeys-lfu"])("rejects %s with a remedy", (policy) => {
  expect(evictionProblem(info(policy))).toMatch(new RegExp(`maxmemory-policy ${policy} .* set it to noeviction`));
});

it.each(["volatile-lru", "volatile-ttl"])("accepts %s, because it evicts no key without an expiry", (policy) => {
  expect(evictionProblem(info(policy))).toBeUndefined();
});

it("accepts noeviction, and a service that does not report its policy", () => {
  expect(evictionProblem(info("noeviction"))).toBeUndefined();
  expect(evictionProblem("# Memory\r\nused_memory:1\r\n")).toBeUndefined();
});

it.each(["2.8.24", "5.0.14", "6.0.16", "6.1.240"])("rejects Redis %s, and reports the version and the remedy", (version) => {
  expect(versionProblem(version)).toBe(`Redis ${version} is too old: use Redis 6.2 or newer, or Valkey`);
});

it.each(["6.2.0", "7.0.15", "7.2.4", "8.0.0", "10.0.1", undefined])("accepts Redis %s", (version) => {
  expect(versionProblem(version)).toBeUndefined();
});

it("ignores unknown and malformed lines of INFO", () => {
  const lines = [
    "# Server",
    "redis_version:7.2.4",
    "# Memory",
    "used_memory:1000",
    "used_memory_human:1K",
    "maxmemory:4000",
    "maxmemory_policy:noeviction",
    "# Persistence",
    "loading:1",
    "rdb_last_bgsave_status:err",
    "aof_enabled:1",
    "aof_last_write_status:ok",
    "# Stats",
    "evicted_keys:7",
    "# Replication",
    "role:master",
    "connected_slaves:2",
    "slave0:ip=10.0.0.1,port=6379,state=online",
  ];
  expect(serverFacts(lines.join("\r\n"))).toEqual({
    version: "7.2.4",
    role: "master",
    replicas: 2,
    policy: "noeviction",
    evicted: 7,
    usedBytes: 1000,
    maxBytes: 4000,
    appendOnly: true,
    saveFailed: true,
    loading: true,
  });
  expect(serverFacts("aof_last_write_status:err\r\n")).toMatchObject({ saveFailed: true, loading: false, appendOnly: false });
  expect(serverFacts("")).toEqual({
    replicas: 0,
    evicted: 0,
    usedBytes: 0,
    maxBytes: 0,
    appendOnly: false,
    saveFailed: false,
    loading: false,
  });
});
