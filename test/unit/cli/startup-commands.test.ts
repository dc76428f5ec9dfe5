/** Commands whose API server is not ready: the calls that they retry, and the errors that end them immediately. */
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";

import { createApiServer } from "../../../shared/api-server/api-server.ts";
import { serveHttp, type HttpApiServer } from "../../../shared/api-server/http.ts";
import { createSystemClock } from "../../../shared/base/system/clock.ts";
import { createSystemRandom } from "../../../shared/base/system/random.ts";
import type { FaultRule } from "../../fault-profile/fault-profile.ts";
import { unavailable } from "../../fault-profile/refusals.ts";
import { startFaultInjectingServer, type FaultInjectingServer } from "../../fault-profile/server.ts";
import { kubeconfigOf } from "../../support/kubeconfig.ts";

const MAIN = join(import.meta.dirname, "../../../cli/main.ts");
const NOWHERE = "http://127.0.0.1:9";
/** The watcher's environment; neither Redis nor a queue answers. */
const ENVIRONMENT = {
  DELTALOOP_DEPLOYMENT: "prod",
  DELTALOOP_CLUSTER: "0123456789ab",
  DELTALOOP_DIGEST_KEY: "d".repeat(64),
  DELTALOOP_MAC_KEY: "e".repeat(64),
  DELTALOOP_REDIS_URL: "redis://127.0.0.1:9",
  DELTALOOP_DELTAS_URL: `${NOWHERE}/0/deltas.fifo`,
  DELTALOOP_DOORBELLS_DEPLOYMENT_URL: `${NOWHERE}/0/deployment`,
  DELTALOOP_DOORBELLS_REPLICASET_URL: `${NOWHERE}/0/replicaset`,
  DELTALOOP_DOORBELLS_REPLICATIONCONTROLLER_URL: `${NOWHERE}/0/replicationcontroller`,
  DELTALOOP_SQS_ENDPOINT: NOWHERE,
};

let api: HttpApiServer;
let front: FaultInjectingServer;
let folder: string;
beforeAll(async () => void (api = await serveHttp(createApiServer({ clock: createSystemClock(), random: createSystemRandom() }))));
afterAll(() => api.close());
beforeEach(async () => {
  front = await startFaultInjectingServer({ url: api.url });
  folder = mkdtempSync(join(tmpdir(), "deltaloop-startup-"));
  writeFileSync(join(folder, "kubeconfig"), kubeconfigOf({ server: front.url }));
});
afterEach(async () => {
  await front.close();
  rmSync(folder, { recursive: true });
});

/** Runs a command until it exits, or until its output contains `until`. */
async function run(
  parameters: readonly string[],
  { until = "\0", environment: own = {} }: { readonly until?: string; readonly environment?: Readonly<Record<string, string>> } = {},
) {
  const environment = { ...process.env, ...ENVIRONMENT, DELTALOOP_KUBE_SERVER: front.url, AWS_REGION: "eu-central-1", ...own };
  const command = [MAIN, ...parameters];
  const child = spawn(process.execPath, command, { cwd: folder, env: environment, stdio: ["ignore", "pipe", "pipe"] });
  let [stdout, stderr] = ["", ""];
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    const had = stdout.includes(until);
    stdout += text;
    if (!had && stdout.includes(until)) child.kill("SIGINT"); // a second SIGINT would end it immediately
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => void (stderr += text));
  const code = await new Promise<number | null>((resolve) => child.once("close", resolve));
  return { code, stdout, stderr };
}

const refuse = (about: FaultRule["about"], first: number, code = 503): FaultRule => ({
  ...{ name: `first ${first}`, about, often: { first } },
  fault: { kind: "refuse", with: code === 503 ? unavailable() : { code, body: { kind: "Status", code, reason: "Unauthorized" } } },
});

describe("a command that starts by calling the API server", () => {
  const CAPTURE = ["capture", "-o", "-", "--kubeconfig", "kubeconfig"];
  const EXPLAIN = ["explain", "--kubeconfig", "kubeconfig", "-n", "default"];
  const SHADOW = ["shadow", "--kubeconfig", "kubeconfig", "--metrics", "127.0.0.1:0"];

  it("capture retries while the API server returns 503, and reports the wait", async () => {
    front.behave(refuse({ verbs: ["list"], resource: "pods" }, 3));
    const { code, stderr } = await run(CAPTURE, { until: '"listend"' });
    expect(stderr).toContain(`waiting for the API server ${front.url} call="GET /api/v1/pods: 503 ServiceUnavailable"`);
    expect(code).toBe(0);
  });

  it("explain of a cluster retries while the API server returns 503 or closes connections, and reports the wait", async () => {
    front.behave(refuse({ verbs: ["list"], resource: "pods" }, 3), {
      ...{ name: "lost", about: { verbs: ["list"], resource: "deployments" }, often: { first: 1 } },
      fault: { kind: "loseRequest" },
    });
    const { code, stderr } = await run(EXPLAIN);
    expect(stderr).toContain(`waiting for the API server ${front.url} call="GET /api/v1/namespaces/default/pods: 503 ServiceUnavailable"`);
    expect(code).toBe(1); // the workload does not exist
  });

  it.each([
    { verb: "capture", command: CAPTURE },
    { verb: "explain", command: EXPLAIN },
    { verb: "shadow", command: SHADOW },
  ])("$verb exits at once with 401 and the remedy", async ({ command }) => {
    front.behave(refuse({ resource: "pods" }, 1_000, 401));
    const { code, stderr } = await run(command);
    expect(stderr).toMatch(/^deltaloop: GET \/api\/v1\/(?:namespaces\/default\/)?pods fails: 401 Unauthorized\. .*renew the token/m);
    expect(code).toBe(2);
  });

  it("doctor waits for the API server, and does not report a single 503 or closed connection", async () => {
    front.behave(refuse({ resource: "" }, 2), refuse({ resource: "selfsubjectaccessreviews" }, 3), {
      ...{ name: "lost", about: { resource: "selfsubjectaccessreviews" }, often: { nth: 20 } },
      fault: { kind: "loseRequest" },
    });
    const { code, stdout } = await run(["doctor", "-o", "json"]);
    // cli/README.md describes the format
    const { findings } = JSON.parse(stdout) as { readonly findings: readonly { check: string; state: string; seen: string }[] };
    const seen = findings.filter(({ check }) => check === "api.answers" || check === "permissions");
    expect(seen.filter(({ seen: text }) => /503|no answer|not answer|closed/i.test(text))).toEqual([]);
    expect(seen.length).toBeGreaterThan(1);
    expect(code).toBe(1); // Redis does not respond
  });

  it("doctor checks each cluster of the watcher's DELTALOOP_CLUSTERS, with the watcher's allowances", async () => {
    mkdirSync(join(folder, "clusters"));
    writeFileSync(join(folder, "clusters/blue"), kubeconfigOf({ server: front.url }, { token: "t0ken" }));
    const directory = { DELTALOOP_CLUSTERS: join(folder, "clusters"), DELTALOOP_CLUSTERS_ALLOW: "loopback,insecure" };
    const { code, stdout, stderr } = await run(["doctor", "-o", "json"], { environment: directory });
    expect(stderr).toBe("");
    expect(code).toBe(1); // Redis does not respond
    expect(JSON.parse(stdout)).toMatchObject({
      rejected: [],
      clusters: [{ name: "blue", cluster: expect.stringMatching(/^[0-9a-f]{32}$/) }],
    });
    expect(stdout).toMatch(/"check":"api\.cluster"[^}]*"state":"notChecked"/);
  });

  it("doctor reports a server that does not answer within --startup-timeout", async () => {
    front.behave(refuse({}, 1_000));
    const { stdout } = await run(["doctor", "-o", "json", "--startup-timeout", "0s"]);
    expect(stdout).toMatch(/"check":"api\.answers".*"seen":"no answer: 503 ServiceUnavailable"/);
  });
});
