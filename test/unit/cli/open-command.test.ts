/** `deltaloop open` as a process, read over HTTP as kubectl does. test/e2e/capture.test.ts uses kubectl itself. */
import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { text } from "node:stream/consumers";

import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { canary, canaryAnnotations, canaryContainer, found } from "../../support/canaries.ts";

const MAIN = join(import.meta.dirname, "../../../cli/main.ts");
const TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
const identity = (name: string, rv: number) => ({ namespace: "shop", name, uid: `uid-${name}`, resourceVersion: String(rv) });
const template = { metadata: { labels: { app: "web" } }, spec: { containers: [canaryContainer("web", "shop:1")] } };
const deployment = (replicas: number, rv: number) => ({
  kind: "Deployment",
  metadata: { ...identity("web", rv), annotations: canaryAnnotations() },
  spec: { replicas, selector: { matchLabels: { app: "web" } }, template },
  status: {},
});
const pod = {
  kind: "Pod",
  metadata: { ...identity("web-1", 12), labels: { app: "web" }, annotations: canaryAnnotations() },
  spec: template.spec,
  status: {
    phase: "Running",
    containerStatuses: [
      {
        ...{ name: "web", ready: false, restartCount: 3, image: "shop:1" },
        state: { waiting: { reason: "CrashLoopBackOff", message: canary("waiting") } },
        lastState: { terminated: { reason: "Error", exitCode: 7, message: canary("terminated") } },
      },
    ],
  },
};
const event = {
  kind: "Event",
  metadata: identity("web-1.1", 13),
  involvedObject: { kind: "Pod", namespace: "shop", name: "web-1", uid: "uid-web-1" },
  ...{ type: "Warning", reason: "BackOff", message: canary("event"), count: 4 },
  lastTimestamp: "2026-03-01T10:00:01Z",
};
const line = (t: string, type: string, object: object): string => `${JSON.stringify({ t: `2026-03-01T10:00:${t}Z`, type, object })}\n`;

describe("deltaloop open", () => {
  let folder: string;
  let file: string;
  let running: ChildProcess;
  let kubeconfig: string;
  let server: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "deltaloop-test-"));
    file = join(folder, "whole-\u0430.jsonl"); // this letter is invalid in a header
    const lines = [
      line("00", "ADDED", deployment(1, 10)),
      line("01", "ADDED", pod),
      line("01", "ADDED", event),
      line("05", "MODIFIED", deployment(5, 20)),
      line("06", "DELETED", { ...pod, metadata: { ...pod.metadata, resourceVersion: "21" } }),
    ];
    await writeFile(file, lines.join(""));
    running = spawn(process.execPath, [MAIN, "open", file, "--at", "+2s"], { stdio: ["pipe", "pipe", "ignore"] });
    for await (const printed of createInterface({ input: running.stdout! })) {
      kubeconfig = printed.replace("export KUBECONFIG=", "");
      break;
    }
    const config = JSON.parse(await readFile(kubeconfig, "utf8")) as {
      readonly clusters: [{ readonly cluster: { readonly server: string } }];
    };
    server = config.clusters[0].cluster.server;
  });
  afterAll(async () => {
    const ended = once(running, "exit");
    running.kill("SIGINT");
    expect((await ended)[0]).toBe(0);
    await expect(readFile(kubeconfig)).rejects.toThrow("ENOENT");
    await rm(folder, { recursive: true });
  });
  const get = async (path: string, init: RequestInit = {}) => {
    const answer = await fetch(`${server}${path}`, init);
    return { status: answer.status, warning: answer.headers.get("warning"), body: await answer.text() };
  };
  const set = async (time: string) => {
    const command = spawn(process.execPath, [MAIN, "open", "--set", time], { env: { ...process.env, KUBECONFIG: kubeconfig } });
    const [out, err] = await Promise.all([text(command.stdout), text(command.stderr), once(command, "exit")]);
    return out + err;
  };

  it("shows objects with their versions and ages at the selected time", async () => {
    const { status, body, warning } = await get("/api/v1/namespaces/shop/pods/web-1");
    expect(status).toBe(200);
    expect(JSON.parse(body)).toMatchObject({
      ...{ apiVersion: "v1", kind: "Pod", metadata: identity("web-1", 12) },
      spec: { containers: [{ name: "web", image: "shop:1" }] },
      status: { containerStatuses: [{ restartCount: 3, state: { waiting: { reason: "CrashLoopBackOff" } } }] },
    });
    expect(warning).toMatch(/^299 - "whole-\?\.jsonl at 10:00:02\.000Z \(\+2\.000s\): commands, .* not captured"$/);
    expect((await get("/api/v1/pods", { headers: { accept: TABLE } })).body).toContain("CrashLoopBackOff");
    const events = await get("/api/v1/namespaces/shop/events?fieldSelector=involvedObject.name%3Dweb-1", { headers: { accept: TABLE } });
    expect(JSON.parse(events.body)).toMatchObject({
      rows: [{ cells: expect.arrayContaining(["1s", "Warning", "pod/web-1", "(not captured: 19 bytes)"]) }],
    });
  });

  it("shows no value of an env variable, annotation or message, even if the capture contains one", async () => {
    const paths = ["/apis/apps/v1/deployments", "/api/v1/pods", "/api/v1/events"];
    const bodies = await Promise.all(paths.map(async (path) => (await get(path)).body));
    expect(bodies.every((body) => body.includes("web"))).toBe(true);
    expect(found([await readFile(file, "utf8")])).not.toEqual([]);
    expect(found(bodies)).toEqual([]);
  });

  it("rejects writes, and every client that does not know the secret path", async () => {
    expect(await get("/api/v1/namespaces/shop/pods/web-1", { method: "DELETE" })).toMatchObject({ status: 405 });
    expect(await get("/apis/apps/v1/namespaces/shop/deployments", { method: "POST", body: "{}" })).toMatchObject({ status: 405 });
    for (const path of ["/api/v1/pods", `/${"0".repeat(32)}/api/v1/pods`, "/moment"]) {
      const { status } = await fetch(new URL(path, server), path === "/moment" ? { method: "PUT", body: "+0s" } : {});
      expect(status, path).toBe(403);
    }
  });

  it("reports what a capture does not contain", async () => {
    expect((await get("/api/v1/nodes")).warning).toContain("nodes were not captured");
    expect((await get("/api/v1/namespaces/shop/configmaps")).warning).toContain("captures have no configmaps");
  });

  it("changes the selected time with --set or a line on standard input, but not to a time outside of the capture", async () => {
    const replicas = async (): Promise<unknown> =>
      (JSON.parse((await get("/apis/apps/v1/namespaces/shop/deployments/web")).body) as { readonly spec: { readonly replicas: number } })
        .spec.replicas;
    expect(await replicas()).toBe(1);
    expect(await set("10:00:06")).toBe("at 2026-03-01T10:00:06.000Z\n");
    expect(await replicas()).toBe(5);
    expect((await get("/api/v1/namespaces/shop/pods/web-1")).status).toBe(404);
    expect(await set("+900s")).toMatch(/^deltaloop: --set \+900s is outside the capture/);
    expect(await replicas()).toBe(5);
    running.stdin?.write("+0s\n");
    await expect.poll(replicas).toBe(1);
  });
});
