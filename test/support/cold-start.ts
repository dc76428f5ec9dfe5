/**
 * A cold start of a function, as on Lambda: a fresh process imports its bundle, reads its secrets, connects, and does
 * its first work: it applies a delta message, or syncs a key. Redis, API server and Secrets Manager are on loopback.
 */
import { spawn } from "node:child_process";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { DIGEST_KEY, CACHE, startCountedSync } from "../harness/sync/counted-sync.ts";
import { startSecretsStandIn } from "./secrets-stand-in.ts";

/** Durations since the start of the process. */
export interface ColdStart {
  /** Processor time, user and system. */
  readonly cpuMs: number;
  readonly ms: number;
  /** Requests to the API server during the work. */
  readonly requests: readonly string[];
}

export interface ColdStage {
  /** `bundle`: the bundle of the function of that name. After dead-deltas, which abandons the cache, no key is queued any more. */
  start(name: string, bundle: string): Promise<ColdStart>;
  /** An empty Node.js process: the baseline. */
  bare(): Promise<Pick<ColdStart, "cpuMs" | "ms">>;
  close(): Promise<void>;
}

const MAC_KEY = "the MAC key of the cold stage";
const NOBODY = "http://127.0.0.1:9/q";
/** Maximum length of a failed process's output in the error: a stack trace quotes whole lines of a minified bundle. */
const OUTPUT_MAX = 1_000;
const OWNERS: Readonly<Record<string, { readonly path: string; readonly kind: string }>> = {
  "sync-deployment": { path: "/apis/apps/v1/namespaces/default/deployments", kind: "Deployment" },
  "sync-replicaset": { path: "/apis/apps/v1/namespaces/default/replicasets", kind: "ReplicaSet" },
  "sync-replicationcontroller": { path: "/api/v1/namespaces/default/replicationcontrollers", kind: "ReplicationController" },
};

export async function startColdStage(redisUrl: string): Promise<ColdStage> {
  const rig = await startCountedSync(redisUrl);
  rig.rekey({ watcher: [MAC_KEY], functions: [MAC_KEY] });
  const secrets = await startSecretsStandIn({
    "deltaloop/test/mac-key": MAC_KEY,
    "deltaloop/test/digest-key": DIGEST_KEY,
    "deltaloop/test/kube": "nobody-asks-for-it",
  });
  const requests: string[] = [];
  const stopListening = rig.server.onRequest(({ userAgent, verb, resource }) => {
    if (userAgent.startsWith("deltaloop/") && resource !== "events") requests.push(`${verb} ${resource}`);
  });
  let count = 0;

  const environment = (name: string): Readonly<Record<string, string>> => ({
    DELTALOOP_DEPLOYMENT: CACHE.deployment,
    DELTALOOP_CLUSTER: CACHE.cluster,
    DELTALOOP_MODE: "act",
    DELTALOOP_MAC_KEY_SECRET: "deltaloop/test/mac-key",
    DELTALOOP_DIGEST_KEY_SECRET: "deltaloop/test/digest-key",
    ...(/^(?:sync|apply)-/.test(name) && { DELTALOOP_KUBE_SECRET: "deltaloop/test/kube" }),
    DELTALOOP_SECRETS_ENDPOINT: secrets.endpoint,
    DELTALOOP_REDIS_URL: redisUrl,
    DELTALOOP_KUBE_SERVER: rig.url,
    DELTALOOP_DELTAS_URL: NOBODY,
    DELTALOOP_SQS_ENDPOINT: NOBODY,
    DELTALOOP_DOORBELLS_DEPLOYMENT_URL: NOBODY,
    DELTALOOP_DOORBELLS_REPLICASET_URL: NOBODY,
    DELTALOOP_DOORBELLS_REPLICATIONCONTROLLER_URL: NOBODY,
    AWS_REGION: "eu-central-1",
    AWS_ACCESS_KEY_ID: "none",
    AWS_SECRET_ACCESS_KEY: "none",
  });

  /** The message that invokes the function; undefined for the sweep, which gets none. */
  const message = async (name: string): Promise<string | undefined> => {
    if (name === "sweep") return undefined;
    const owner = OWNERS[name];
    if (owner === undefined) return rig.message("pods", 0, { k: "W", rv: rig.server.resourceVersion });
    const called = `cold-${++count}`;
    const labels = { app: called };
    const selector = name === "sync-replicationcontroller" ? labels : { matchLabels: labels };
    const spec = { replicas: 1, selector, template: { metadata: { labels }, spec: { containers: [{ name: "c", image: "i" }] } } };
    await rig.person.request("POST", owner.path, { kind: owner.kind, metadata: { name: called }, spec });
    await rig.stream();
    const controller = name.replace("sync-", "");
    return JSON.stringify({ v: 1, c: CACHE.cluster, ctl: controller, e: (await rig.store.epoch())?.epoch, k: `default/${called}` });
  };

  return {
    async start(name, bundle) {
      const body = await message(name);
      const attributes = { SentTimestamp: String(Date.now()), ApproximateReceiveCount: "1", MessageGroupId: "g" };
      const event = { Records: [{ messageId: "m1", receiptHandle: "r1", body, attributes }] };
      requests.length = 0;
      const code = `const { handler } = await import(${JSON.stringify(pathToFileURL(bundle).href)});
        const answer = await handler(${body === undefined ? "" : `${JSON.stringify(event)}, { getRemainingTimeInMillis: () => 15000 }`});
        ${TELL} "cold " + JSON.stringify({ cpuMs, ms, failed: answer?.batchItemFailures?.length ?? 0 }) + "\\n");
        process.exit(0);`;
      const output = await run(code, environment(name));
      const cold = JSON.parse(/^cold (.*)$/m.exec(output)?.[1] ?? "{}") as ColdStart & { readonly failed: number }; // printed above
      if (cold.failed !== 0) throw new Error(`${name} failed its first message:\n${output.slice(-OUTPUT_MAX)}`);
      return { cpuMs: cold.cpuMs, ms: cold.ms, requests: [...requests] };
    },
    async bare() {
      const output = await run(`${TELL} JSON.stringify({ cpuMs, ms })); process.exit(0);`, {});
      return JSON.parse(output) as Pick<ColdStart, "cpuMs" | "ms">; // printed above
    },
    async close() {
      stopListening();
      await rig.close();
      await secrets.stop();
    },
  };
}

const TELL = `const { user, system } = process.cpuUsage(); const [cpuMs, ms] = [(user + system) / 1000, performance.now()]; process.stdout.write(`;

async function run(code: string, env: Readonly<Record<string, string>>): Promise<string> {
  const child = spawn(process.execPath, ["--input-type=module", "--eval", code], {
    env,
    cwd: join("/"),
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding("utf8").on("data", (text: string) => (output += text));
  const ended = await new Promise<number | null>((resolve, reject) => child.once("error", reject).once("close", resolve));
  if (ended !== 0) throw new Error(`a cold start exited with ${ended}:\n${output.slice(-OUTPUT_MAX)}`);
  return output;
}
