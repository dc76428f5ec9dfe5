/**
 * Writes upstream-answers.json anew from a real API server, keeping its requests. By hand, when upstream's version changes:
 *
 *     node test/unit/local/api-server/record-upstream-answers.ts <kubeconfig>
 *
 * The kubeconfig is an administrator's; the workload controllers must be off (`node test/envtest/cli.ts` starts such a server).
 */
import { writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { isObject } from "../../../../shared/base/json.ts";
import { kubeHttpConfigFrom } from "../../../../shared/kube/kubeconfig/kubeconfig.ts";
import { createApiClient } from "../../../envtest/api-client.ts";
import { type Exchange, exchange, EXCHANGES_FILE, readExchanges, sendOver } from "./upstream-answers.ts";

const NAMESPACE = "golden";
/** The quota controller needs time to count before the quota is enforced. */
const QUOTA_MS = 1_500;

const send = sendOver(createApiClient(await kubeHttpConfigFrom(process.argv[2] ?? "", { component: "record-upstream-answers" })));
const uids = new Map<string, string>();
const recorded: Exchange[] = [];
for (const one of readExchanges()) {
  const { status, answer } = await exchange(one, send, uids);
  recorded.push({ ...one, status, answer: isObject(answer) ? answer : {} });
  if (one.name === "quota") await sleep(QUOTA_MS);
}
writeFileSync(EXCHANGES_FILE, `[\n${recorded.map((one) => JSON.stringify(one)).join(",\n")}\n]\n`);
process.stdout.write(`${recorded.length} answers recorded; the namespace ${NAMESPACE} is being deleted\n`);
