/**
 * Records the responses in upstream-answers.json, upstream-refusals.jsonl and upstream-applies.json again from a real API server, with
 * unchanged requests. Run it manually when upstream's version changes:
 *
 *     node test/unit/local/api-server/record-upstream-answers.ts <kubeconfig> [applies]
 *
 * The kubeconfig is an administrator's; the workload controllers must be off (`node test/envtest/cli.ts` starts such a server).
 */
import { setTimeout as sleep } from "node:timers/promises";
import { isObject } from "../../../../shared/base/json.ts";
import { kubeHttpConfigFrom } from "../../../../shared/kube/kubeconfig/kubeconfig.ts";
import { createApiClient } from "../../../envtest/api-client.ts";
import {
  type Exchange,
  exchange,
  PAUSES_MS,
  readApplies,
  readExchanges,
  sendOver,
  writeApplies,
  writeExchanges,
} from "./upstream-answers.ts";

const send = sendOver(createApiClient(await kubeHttpConfigFrom(process.argv[2] ?? "", { component: "record-upstream-answers" })));
const uids = new Map<string, string>();

async function record(exchanges: readonly Exchange[], hasManagedFields: boolean): Promise<readonly Exchange[]> {
  const recorded: Exchange[] = [];
  for (const one of exchanges) {
    const { status, answer } = await exchange(one, send, uids, hasManagedFields);
    recorded.push({ ...one, status, answer: isObject(answer) ? answer : {} });
    await sleep(PAUSES_MS[one.name] ?? 0);
  }
  process.stdout.write(`${recorded.length} answers recorded\n`);
  return recorded;
}

if (process.argv[3] !== "applies") writeExchanges(await record(readExchanges(), false));
writeApplies(await record(readApplies(), true));
