/** Checks of the properties that Redis reports. */
import type { Facts } from "./facts.ts";
import { failure, notChecked, ok, warning } from "./finding.ts";
import type { Finding } from "./finding.ts";
import { versionProblem } from "@deltaloop/store/redis";

const MEMORY_PERCENT_MAX = 80;

export function judgeRedis({ server, durability, redisCluster }: Facts): readonly Finding[] {
  if (server.kind === "unseen") {
    const remedy =
      "Start Redis, or correct DELTALOOP_REDIS_URL and the network between (security group, TLS, password); the watcher relists by itself.";
    const others = ["version", "role", "policy", "evicted", "memory", "replicas", "persistence"] as const;
    return [
      failure("redis.answers", `no answer: ${server.why}`, remedy),
      ...others.map((name) => notChecked(`redis.${name}`, "Redis does not answer")),
    ];
  }
  const { version, role, replicas, policy, evicted, usedBytes, maxBytes, appendOnly, saveFailed, loading } = server.value;
  const findings: Finding[] = [ok("redis.answers", `answers in ${server.tookMs} ms`, { number: server.tookMs })];

  const problem = versionProblem(version);
  if (version === undefined) findings.push(notChecked("redis.version", "not reported"));
  else if (problem !== undefined) findings.push(failure("redis.version", version, `${problem}.`));
  else findings.push(ok("redis.version", version));

  if (loading)
    findings.push(failure("redis.role", "Redis is still loading its data", "Wait until Redis has loaded its data; calls fail until then."));
  else if (role === "slave")
    findings.push(
      failure(
        "redis.role",
        "a replica",
        "Point DELTALOOP_REDIS_URL at the primary: a replica takes no writes, and every gate is closed on it.",
      ),
    );
  else findings.push(role === undefined ? notChecked("redis.role", "not reported") : ok("redis.role", "primary"));

  if (policy === undefined) findings.push(notChecked("redis.policy", "not reported"));
  else if (policy === "noeviction" || policy.startsWith("volatile-")) findings.push(ok("redis.policy", policy));
  else
    findings.push(
      failure(
        "redis.policy",
        `${policy}: Redis would evict part of the cache`,
        "Set maxmemory-policy to noeviction, with CONFIG SET or in the parameter group of the service.",
      ),
    );

  if (evicted === 0) findings.push(ok("redis.evicted", "nothing evicted", { number: 0 }));
  else
    findings.push(
      warning(
        "redis.evicted",
        `${evicted} keys since Redis started`,
        "Set maxmemory-policy noeviction and give Redis more memory; the watcher opens a new epoch if cached keys were evicted.",
        { number: evicted },
      ),
    );

  const percent = maxBytes === 0 ? 0 : Math.round((100 * usedBytes) / maxBytes);
  const used = `${Math.ceil(usedBytes / 2 ** 20)} MiB used${maxBytes === 0 ? "" : `, ${percent} % of maxmemory`}`;
  if (percent >= 100)
    findings.push(
      failure(
        "redis.memory",
        used,
        "Give Redis more memory, or delete objects from the cluster: Redis rejects writes, so no controller acts until Redis has had free memory for 15 s.",
        { number: percent },
      ),
    );
  else if (percent > MEMORY_PERCENT_MAX)
    findings.push(
      warning(
        "redis.memory",
        used,
        "Give Redis more memory before it rejects writes: about 800 bytes per pod, and twice that for a new epoch.",
        {
          number: percent,
        },
      ),
    );
  else findings.push(ok("redis.memory", used, { number: percent }));

  const seen = `class ${durability}, ${replicas} replica${replicas === 1 ? "" : "s"}`;
  const number = { number: replicas };
  if (redisCluster) findings.push(notChecked("redis.replicas", "in a Redis Cluster, INFO describes only the node that responds"));
  else if (durability === "B" && replicas === 0)
    findings.push(
      failure(
        "redis.replicas",
        seen,
        "Restore the replica: with durability B, no message counts as applied and no controller acts until a replica has it.",
        number,
      ),
    );
  else if (durability === "C" && replicas > 0)
    findings.push(
      warning(
        "redis.replicas",
        seen,
        "Set DELTALOOP_REDIS_DURABILITY=B for watcher and functions, so that a failover loses no write that a function acted on.",
        number,
      ),
    );
  else findings.push(ok("redis.replicas", seen, number));

  if (saveFailed)
    findings.push(
      failure(
        "redis.persistence",
        "the last save to disk failed",
        "Check the disk of Redis: with stop-writes-on-bgsave-error, the default, Redis rejects writes until a save succeeds.",
      ),
    );
  else findings.push(ok("redis.persistence", `append-only file ${appendOnly ? "on" : "off"}`));
  return findings;
}
