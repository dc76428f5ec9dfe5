/** Computes findings from facts: runs all checks of `doctor`. */
import type { Facts } from "./facts.ts";
import type { Finding } from "./finding.ts";
import { judgeApi, judgeClocks, judgeRights } from "./judge-api.ts";
import { judgeAudits, judgeCache, judgeWatcher } from "./judge-cache.ts";
import { judgeQueues } from "./judge-queues.ts";
import { judgeRedis } from "./judge-redis.ts";
import { judgeWork } from "./judge-work.ts";

/** Returns at least one finding for each check, even if its facts could not be read; for the audit only on request. */
export function judge(facts: Facts): readonly Finding[] {
  return [
    ...judgeApi(facts),
    ...judgeRights(facts.roles),
    ...judgeClocks(facts),
    ...judgeRedis(facts),
    ...judgeQueues(facts.queues),
    ...judgeWatcher(facts),
    ...judgeCache(facts),
    ...judgeAudits(facts),
    ...judgeWork(facts),
  ];
}
