/**
 * Writes upstream-answers.json anew from a real API server, keeping its requests. By hand, when upstream's version changes:
 *
 *     node test/unit/local/api-server/record-upstream-answers.ts <kubeconfig>
 *
 * The kubeconfig is an administrator's; the workload controllers must be off (`node test/envtest/cli.ts` starts such a server).
 */
import { writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { KubeConfig } from "@kubernetes/client-node";
import { isObject } from "../../../../shared/local/api-server/scheme/json.ts";
import { connectionOf, createKubeClient } from "../../../../shared/local/scripted-nodes/kube-client.ts";
import { type Exchange, exchange, EXCHANGES_FILE, readExchanges, type Send } from "./upstream-answers.ts";

const NAMESPACE = "golden";
/** The quota controller needs a moment to count before the quota is enforced as we expect it. */
const QUOTA_MS = 1_500;

const kubeConfig = new KubeConfig();
kubeConfig.loadFromFile(process.argv[2] ?? "");
const client = createKubeClient(await connectionOf(kubeConfig), { userAgent: "record-upstream-answers" });

const send: Send = async ({ method, path, query, type, body }) => {
  const answer = await client.raw(method, query === "" ? path : `${path}?${query}`, body, type);
  return { status: answer.status, body: isObject(answer.body) ? answer.body : {} };
};

const uids = new Map<string, string>();
const recorded: Exchange[] = [];
for (const one of readExchanges()) {
  const { status, answer } = await exchange(one, send, uids);
  recorded.push({ ...one, status, answer: isObject(answer) ? answer : {} });
  if (one.name === "quota") await sleep(QUOTA_MS);
}
writeFileSync(EXCHANGES_FILE, `[\n${recorded.map((one) => JSON.stringify(one)).join(",\n")}\n]\n`);
process.stdout.write(`${recorded.length} answers recorded; the namespace ${NAMESPACE} is being deleted\n`);
