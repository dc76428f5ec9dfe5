/** `deltaloop explain deploy/web` with an in-memory API server, and the output of explain and capture for access problems. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { spawn } from "node:child_process";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { createApiServer } from "../../../../shared/api-server/api-server.ts";
import { serveHttp, type HttpApiServer } from "../../../../shared/api-server/http.ts";
import { createSystemClock } from "../../../../shared/base/system/clock.ts";
import { createSystemRandom } from "../../../../shared/base/system/random.ts";
import { RESOURCES } from "../../../../shared/kube/objects/resources.ts";
import type { JsonObject } from "../../../../shared/base/json.ts";
import { at, deployment, oldPods, pod, replicaSet } from "../../../support/incident.ts";
import type { Placed } from "../../../support/incident.ts";
import { kubeconfigOf } from "../../../support/kubeconfig.ts";

const MAIN = join(import.meta.dirname, "../../../../cli/main.ts");

let folder: string;
beforeEach(() => void (folder = mkdtempSync(join(tmpdir(), "deltaloop-explain-"))));
afterEach(() => rmSync(folder, { recursive: true }));

interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

interface RunOptions {
  /** Called when the first output arrives. */
  readonly onText?: () => void;
}

/** Asynchronous, because the API server runs in this process. */
async function run(url: string, parameters: readonly string[], { onText }: RunOptions = {}): Promise<Ended> {
  writeFileSync(join(folder, "kubeconfig"), kubeconfigOf({ server: url }));
  const child = spawn(process.execPath, [MAIN, ...parameters, "--kubeconfig", "kubeconfig"], {
    cwd: folder,
    stdio: ["ignore", "pipe", "pipe"],
  });
  let [stdout, stderr] = ["", ""];
  child.stdout.setEncoding("utf8").on("data", (text: string) => (stdout += text));
  if (onText) child.stdout.once("data", onText);
  child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  const code = await new Promise<number | null>((resolve) => child.once("close", resolve));
  return { code, stdout, stderr };
}

function place(server: ReturnType<typeof createApiServer>, [resource, fields]: Placed): void {
  const { group, kind, apiVersion } = RESOURCES[resource];
  server.place(group === "" ? resource : `${resource}.${group}`, { kind, apiVersion, ...fields } as unknown as JsonObject); // API objects are JSON
}

const createServerOf = (objects: readonly Placed[]): ReturnType<typeof createApiServer> => {
  const server = createApiServer({ clock: createSystemClock(), random: createSystemRandom(), garbageCollection: false });
  for (const each of objects) place(server, each);
  return server;
};

describe("explain of a running cluster", () => {
  let api: HttpApiServer;
  beforeAll(async () => {
    const waiting = { reason: "ErrImageNeverPull", message: 'Container image "app:v2" is not present with pull policy of Never' };
    api = await serveHttp(
      createServerOf([deployment(), replicaSet("web-a"), replicaSet("web-b"), ...oldPods, pod({ state: { waiting } })]),
    );
  });
  afterAll(() => api.close());

  it.each([
    { name: "the cause of a stuck rollout, and exits with 1", words: ["deploy/web", "-n", "shop"] },
    { name: "the same for an object given as two arguments", words: ["deployment.apps", "web", "-n", "shop"] },
  ])("prints $name", async ({ words }) => {
    const { code, stdout, stderr } = await run(api.url, ["explain", ...words]);
    expect(stdout.split("\n")[0]).toMatch(/^deployment\.apps\/web -n shop: STUCK, revision 2, at /);
    expect(stdout.replaceAll(/\s+/g, " ")).toContain("imagePullPolicy is Never");
    expect(stdout).toContain("Changed   web.image app:v1 → app:v2 at 2026-03-01T10:05:00Z");
    expect(stderr).toBe("");
    expect(code).toBe(1);
  });

  it("lists the workloads of the namespace, worst first", async () => {
    const { code, stdout } = await run(api.url, ["explain", "-n", "shop"]);
    expect(stdout).toMatch(/^1 workload: 1 not complete\nstuck {7}3\/3 {2}deployment\.apps\/web -n shop\n/);
    expect(stdout).toMatch(
      /^ {12}image app:v2 of container web cannot be pulled: imagePullPolicy is\n {12}Never, and the node does not have it$/m,
    );
    expect(code).toBe(0);
  });

  it("exits with 1 when the namespace contains no workload", async () => {
    const { code, stdout, stderr } = await run(api.url, ["explain", "-n", "nope"]);
    expect([code, stdout, stderr]).toEqual([1, "", "deltaloop: no workload found in namespace nope\n"]);
  });

  it("marks in JSON the findings that need a history", async () => {
    const { stdout } = await run(api.url, ["explain", "deploy/web", "-n", "shop", "-o", "json"]);
    const { notObservable } = JSON.parse(stdout) as { readonly notObservable: unknown };
    expect(notObservable).toEqual(["two writers of replicas", "change without effect"]);
  });

  it("reports a missing object", async () => {
    const { code, stderr } = await run(api.url, ["explain", "deploy/api", "-n", "shop"]);
    expect(stderr).toBe("deltaloop: deployment.apps/api is not in namespace shop\n");
    expect(code).toBe(2);
  });
});

describe("explain --watch", () => {
  const starting = pod({ state: { waiting: { reason: "ContainerCreating" } } });
  const failed = { type: "Progressing", status: "False", reason: "ProgressDeadlineExceeded", lastUpdateTime: at(-1) };
  it.each([
    { name: "0 once the rollout is complete", status: { replicas: 3, updatedReplicas: 3 }, health: "COMPLETE", code: 0 },
    { name: "1 once the rollout is past its deadline", status: { conditions: [failed] }, health: "STUCK", code: 1 },
  ])("prints each changed verdict, and exits with $name", async ({ status, health, code }) => {
    const server = createServerOf([deployment(), replicaSet("web-a"), replicaSet("web-b"), ...oldPods, starting]);
    const api = await serveHttp(server);
    try {
      const ended = await run(api.url, ["explain", "deploy/web", "-n", "shop", "--watch"], {
        onText: () => place(server, deployment({ status })),
      });
      const heads = ended.stdout.split("\n").filter((line) => line.startsWith("deployment.apps/web"));
      expect(heads.map((line) => /: ([A-Z]+),/.exec(line)?.[1])).toEqual(["PROGRESSING", health]);
      expect(ended.stdout.replaceAll(/\s+/g, " ")).toContain(
        "not observable without a capture: two writers of replicas, change without effect",
      );
      expect(ended.code).toBe(code);
    } finally {
      await api.close();
    }
  });
});

describe("exits with code 2 from explain and capture on a permanent failure", () => {
  let server: Server;
  let answer: { readonly code: number; readonly body: string } = { code: 200, body: "" };
  beforeAll(async () => {
    server = createServer((_, response) => void response.writeHead(answer.code).end(answer.body));
    await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  });
  afterAll(() => server.close());

  it.each([
    { name: "rejected credentials", code: 401, body: "{}", says: /renew the token or certificate/i },
    { name: "a missing permission", code: 403, body: "{}", says: /bind a role/i },
    { name: "a response that is not JSON", code: 200, body: "<html>", says: /is a Kubernetes API server/ },
    { name: "a server that is not Kubernetes", code: 404, body: "<html>", says: /is a Kubernetes API server/ },
  ])("exits with code 2: $name", async ({ code, body, says }) => {
    answer = { code, body };
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`; // a listening TCP server has an AddressInfo
    for (const parameters of [
      ["explain", "deploy/web"],
      ["capture", "-o", "c.jsonl"],
    ]) {
      const ended = await run(url, parameters);
      expect(ended.stderr).toMatch(says);
      expect(
        ended.stderr
          .trimEnd()
          .split("\n")
          .filter((line) => !line.startsWith("warn: waiting for")),
      ).toHaveLength(1);
      expect(ended.code).toBe(2);
    }
  });
});

it("does not treat a missing capture as an object", () => {
  const { status, stderr } = spawnSync(process.execPath, [MAIN, "explain", "incident.jsonl.gz", "deploy/web"], {
    cwd: folder,
    encoding: "utf8",
  });
  expect(stderr).toBe("deltaloop: incident.jsonl.gz cannot be read: no such file\n");
  expect(status).toBe(2);
});
