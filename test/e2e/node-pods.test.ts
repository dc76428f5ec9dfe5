/** Features of pods on one of our nodes: a real API server and scheduler, `deltaloop node`, and real containers. */
import { readFileSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";

import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { IMAGES } from "../containerd/images.ts";
import { controlPlaneBinaries } from "../envtest/binaries.ts";
import { eventually, measured, startCluster } from "../support/e2e.ts";
import type { Cluster } from "../support/e2e.ts";
import { nodesReady, refusedForGood, startNodes, whereNodesCanRun } from "../harness/node-processes/containerd-nodes.ts";
import type { NodeAgent } from "../harness/node-processes/containerd-nodes.ts";
import {
  answerOf,
  conditionOf,
  containerOf,
  eventsSay,
  getPod,
  isReady,
  podEnded,
  podGone,
  podOf,
  podReady,
  podWhere,
  runtimeId,
  server,
  shell,
  STAY,
} from "../harness/node-processes/pods.ts";
import type { PodView } from "../harness/node-processes/pods.ts";
import { AWAIT_SIZE, openTerminal, TERMINAL_SIZE } from "../support/terminal.ts";
import type { Terminal } from "../support/terminal.ts";

const ABSENT = "127.0.0.1:1/none:1";
const SECONDS = 1_000;
/** The prompt of busybox's shell, or the hint that kubectl prints if it attaches after the prompt was written. */
const PROMPT = /\/ # $|try pressing enter\.\n/u;

await whereNodesCanRun("pods on a node of ours", () => {
  let cluster: Cluster;
  let node: NodeAgent;
  let kubectl: string;

  beforeAll(async () => {
    const binaries = await controlPlaneBinaries();
    if ("missing" in binaries) throw new Error(binaries.missing);
    kubectl = binaries.kubectl;
    cluster = await startCluster({ machines: "scheduler" });
    const [only] = await startNodes(cluster, ["node-a"]);
    if (only === undefined) throw new Error("no node was started");
    node = only;
    await nodesReady(cluster, node);
  });

  afterAll(async () => {
    await node?.stop();
    await cluster?.stop();
  });

  const logs = (pod: string, ...more: readonly string[]): Promise<string> => cluster.kubectl("logs", pod, ...more);
  const run = async (pod: PodView, container: string, command: string): Promise<string> => {
    const { stdout, stderr, exitCode } = await node.cri.execSync(runtimeId(containerOf(pod, container)), ["sh", "-c", command], 10);
    if (exitCode !== 0) throw new Error(`${command}: exit ${exitCode}: ${stderr}`);
    return stdout;
  };

  describe.concurrent("an image that does not exist", () => {
    it("a missing image is reported with upstream's message, and other pods on the node are not affected", async () => {
      await cluster.apply(podOf("neighbour", { containers: [server()] }));
      const before = containerOf(await podReady(cluster, "neighbour"));
      await cluster.apply(podOf("none", { containers: [{ name: "main", image: ABSENT }] }));
      const reasons = new Set<string>();
      await podWhere(cluster, "none", "waits for its image", (pod) => {
        reasons.add(containerOf(pod).state.waiting?.reason ?? "");
        return reasons.has("ErrImagePull") && reasons.has("ImagePullBackOff");
      });
      expect(await cluster.kubectl("get", "pods", "none", "--no-headers")).toMatch(/^none +0\/1 +(ErrImagePull|ImagePullBackOff) +0 /);
      const cause =
        `failed to pull and unpack image "${ABSENT}": failed to resolve reference "${ABSENT}": failed to do request: ` +
        'Head "http://127.0.0.1:1/v2/none/manifests/1": dial tcp 127.0.0.1:1: connect: connection refused';
      const said = [
        `Pulling: Pulling image "${ABSENT}"`,
        `Failed: Failed to pull image "${ABSENT}": ${cause}`,
        "Failed: Error: ErrImagePull",
        `BackOff: Back-off pulling image "${ABSENT}"`,
        "Failed: Error: ImagePullBackOff",
      ];
      await eventsSay(cluster, "none", ...said);
      const { waiting } = containerOf(await podWhere(cluster, "none", "backs off", isBackingOff)).state;
      expect(waiting?.message).toBe(`Back-off pulling image "${ABSENT}": ErrImagePull: ${cause}`);
      expect(containerOf(await podReady(cluster, "neighbour"))).toEqual(before);
      expect(await answerOf((await getPod(cluster, "neighbour"))?.status.podIP)).toBe("v1 neighbour\n");
    });

    const isBackingOff = (pod: PodView): boolean => containerOf(pod).state.waiting?.reason === "ImagePullBackOff";
  });

  describe.concurrent("a container that exits", () => {
    it("a container that exits fails its pod under Never, and is not restarted [node-agent 92] [node-agent 103]", async () => {
      await cluster.apply(podOf("never", { restartPolicy: "Never", containers: [shell("main", "echo sad; exit 3")] }));
      const pod = await podEnded(cluster, "never");
      const { state, restartCount, ready } = containerOf(pod);
      expect([pod.status.phase, state.terminated?.exitCode, state.terminated?.reason, restartCount, ready]).toEqual([
        "Failed",
        3,
        "Error",
        0,
        false,
      ]);
      expect(conditionOf(pod.status, "Ready")).toMatchObject({ status: "False", reason: "PodFailed" });
      expect(await logs("never")).toBe("sad\n");
      expect(await cluster.kubectl("get", "pods", "never", "--no-headers")).toMatch(/^never +0\/1 +Error +0 /);
      await cluster.kubectl("delete", "pod", "never", "--timeout=30s");
    });

    it("a container that exits is restarted under OnFailure until it succeeds [node-agent 92]", async () => {
      const script = "echo x >> /work/runs; [ $(busybox wc -l < /work/runs) -ge 2 ]";
      await cluster.apply(
        podOf("onfailure", {
          restartPolicy: "OnFailure",
          containers: [shell("main", script, { volumeMounts: [{ name: "work", mountPath: "/work" }] })],
          volumes: [{ name: "work", emptyDir: {} }],
        }),
      );
      const pod = await podEnded(cluster, "onfailure");
      const { state, lastState, restartCount } = containerOf(pod);
      expect([pod.status.phase, state.terminated?.exitCode, state.terminated?.reason, restartCount]).toEqual([
        "Succeeded",
        0,
        "Completed",
        1,
      ]);
      expect(lastState.terminated?.exitCode).toBe(1);
      expect(conditionOf(pod.status, "Ready")).toMatchObject({ status: "False", reason: "PodCompleted" });
      expect(await cluster.kubectl("get", "pods", "onfailure", "--no-headers")).toMatch(/^onfailure +0\/1 +Completed +1 /);
    });

    // A sync waits two seconds for a container to stop. An exit code of 0 after a requested stop does not count as success.
    it.each([
      {
        cause: "its liveness probe fails",
        pod: "cut-by-probe",
        more: { livenessProbe: { exec: { command: ["false"] }, periodSeconds: 1, failureThreshold: 1, initialDelaySeconds: 2 } },
      },
      { cause: "its sandbox dies", pod: "cut-by-sandbox", more: {} },
    ])(
      "a container is restarted under OnFailure when $cause and it takes 3 s to exit with 0 [node-agent 127]",
      async ({ pod: name, more }) => {
        const first = 'echo > /work/first; trap "sleep 3; exit 0" TERM; sleep 3600 & wait';
        await cluster.apply(
          podOf(name, {
            restartPolicy: "OnFailure",
            terminationGracePeriodSeconds: 10,
            containers: [
              shell("main", `if [ -e /work/first ]; then echo done; exit 0; fi; ${first}`, {
                ...more,
                volumeMounts: [{ name: "work", mountPath: "/work" }],
              }),
            ],
            volumes: [{ name: "work", emptyDir: {} }],
          }),
        );
        const begun = await podWhere(cluster, name, "runs", (one) => containerOf(one).state.running !== undefined);
        if (name === "cut-by-sandbox") process.kill(await pauseProcess(begun), "SIGKILL");
        const pod = await podEnded(cluster, name);
        const { state, lastState, restartCount } = containerOf(pod);
        expect([pod.status.phase, state.terminated?.exitCode, lastState.terminated?.exitCode, restartCount]).toEqual([
          "Succeeded",
          0,
          0,
          1,
        ]);
        const tookMs = Date.parse(lastState.terminated?.finishedAt ?? "") - Date.parse(lastState.terminated?.startedAt ?? "");
        expect(tookMs).toBeGreaterThanOrEqual(3 * SECONDS);
        expect(await logs(name)).toBe("done\n");
      },
    );

    it("a container that exits under Always is restarted with back-off and upstream's message, and both runs' logs are shown [node-agent 92] [node-agent 103]", async () => {
      await cluster.apply(podOf("always", { containers: [shell("main", "echo run; exit 4")] }));
      const pod = await podWhere(cluster, "always", "backs off", (one) => {
        const { state, restartCount } = containerOf(one);
        return restartCount >= 1 && state.waiting?.reason === "CrashLoopBackOff";
      });
      const { state, lastState, restartCount } = containerOf(pod);
      expect(state.waiting?.message).toMatch(/^back-off (10|20)s restarting failed container=main pod=always_default\([-0-9a-f]{36}\)$/);
      expect([pod.status.phase, lastState.terminated?.exitCode]).toEqual(["Running", 4]);
      expect(conditionOf(pod.status, "ContainersReady")).toMatchObject({ status: "False", reason: "ContainersNotReady" });
      expect(await cluster.kubectl("get", "pods", "always", "--no-headers")).toMatch(/^always +0\/1 +CrashLoopBackOff +1 \(/);
      await eventsSay(cluster, "always", `BackOff: Back-off restarting failed container main in pod always_default(${pod.metadata.uid})`);
      expect([restartCount, await logs("always"), await logs("always", "--previous")]).toEqual([1, "run\n", "run\n"]);
    });

    it("reports a termination message from the file, or from the log after a failure with FallbackToLogsOnError [node-agent 93]", async () => {
      const fallBack = { terminationMessagePolicy: "FallbackToLogsOnError" };
      await cluster.apply(
        podOf("messages", {
          restartPolicy: "Never",
          containers: [
            shell("file", "echo -n DONE > /dev/termination-log"),
            shell("nonroot", "echo -n OTHER > /dev/custom", {
              terminationMessagePath: "/dev/custom",
              securityContext: { runAsUser: 65_534 },
            }),
            shell("log", "echo -n SAID; exit 1", fallBack),
            shell("success", "echo -n SAID", fallBack),
          ],
        }),
      );
      const pod = await podEnded(cluster, "messages");
      const messages = ["file", "nonroot", "log", "success"].map((name) => containerOf(pod, name).state.terminated?.message);
      expect(messages).toEqual(["DONE", "OTHER", "SAID", undefined]);
    });
  });

  describe.concurrent("init containers", () => {
    for (const restartPolicy of ["Always", "Never"])
      it(`init containers run in order before the other containers with ${restartPolicy} [node-agent 94]`, async () => {
        const name = `init-${restartPolicy.toLowerCase()}`;
        const mounted = { volumeMounts: [{ name: "work", mountPath: "/work" }] };
        await cluster.apply(
          podOf(name, {
            restartPolicy,
            initContainers: [shell("first", "echo first >> /work/order", mounted), shell("second", "echo second >> /work/order", mounted)],
            containers: [shell("main", `echo main >> /work/order; cat /work/order; ${restartPolicy === "Never" ? "true" : STAY}`, mounted)],
            volumes: [{ name: "work", emptyDir: {} }],
          }),
        );
        const pod = restartPolicy === "Never" ? await podEnded(cluster, name) : await podReady(cluster, name);
        expect(["first", "second"].map((one) => containerOf(pod, one).state.terminated?.reason)).toEqual(["Completed", "Completed"]);
        expect(conditionOf(pod.status, "Initialized")?.status).toBe("True");
        expect(await logs(name)).toBe("first\nsecond\nmain\n");
      });

    it("a failed init container fails its pod under Never, and nothing else starts [node-agent 95]", async () => {
      await cluster.apply(
        podOf("init-fails", { restartPolicy: "Never", initContainers: [shell("first", "exit 5")], containers: [shell("main", STAY)] }),
      );
      const pod = await podEnded(cluster, "init-fails");
      expect([pod.status.phase, containerOf(pod, "first").state.terminated?.exitCode, containerOf(pod).containerID]).toEqual([
        "Failed",
        5,
        undefined,
      ]);
      expect(await cluster.kubectl("get", "pods", "init-fails", "--no-headers")).toMatch(/^init-fails +0\/1 +Init:Error +0 /);
    });

    it("a failed init container is retried under Always, and the other containers wait [node-agent 95]", async () => {
      await cluster.apply(podOf("init-retries", { initContainers: [shell("first", "exit 5")], containers: [shell("main", STAY)] }));
      const pod = await podWhere(cluster, "init-retries", "tried twice", (one) => containerOf(one, "first").restartCount >= 1);
      expect([pod.status.phase, containerOf(pod).state.waiting?.reason, containerOf(pod).containerID]).toEqual([
        "Pending",
        "PodInitializing",
        undefined,
      ]);
      expect(conditionOf(pod.status, "Initialized")).toMatchObject({ status: "False", reason: "ContainersNotInitialized" });
    });

    it("sidecars run alongside the other containers, and end after them", async () => {
      const sidecar = shell("proxy", 'trap "echo ended >> /work/order; exit 0" TERM; echo up >> /work/order; sleep 3600 & wait', {
        restartPolicy: "Always",
        startupProbe: { exec: { command: ["ls", "/work/order"] }, periodSeconds: 1 },
        volumeMounts: [{ name: "work", mountPath: "/work" }],
      });
      const mounted = { volumeMounts: [{ name: "work", mountPath: "/work" }] };
      await cluster.apply(
        podOf("sidecar", {
          restartPolicy: "Never",
          terminationGracePeriodSeconds: 10,
          initContainers: [sidecar],
          containers: [shell("main", "cat /work/order; sleep 3; echo done", mounted)],
          volumes: [{ name: "work", emptyDir: {} }],
        }),
      );
      const running = await podWhere(cluster, "sidecar", "runs both", isReady);
      expect(containerOf(running, "proxy")).toMatchObject({ ready: true, started: true, restartCount: 0 });
      const pod = await podEnded(cluster, "sidecar");
      const [main, proxy] = [containerOf(pod).state.terminated, containerOf(pod, "proxy").state.terminated];
      expect([pod.status.phase, main?.exitCode, proxy?.exitCode]).toEqual(["Succeeded", 0, 0]);
      expect(Date.parse(proxy?.finishedAt ?? "")).toBeGreaterThanOrEqual(Date.parse(main?.finishedAt ?? ""));
      expect(await logs("sidecar")).toBe("up\ndone\n");
    });
  });

  describe.concurrent("probes", () => {
    it("a liveness probe restarts only the container that fails [node-agent 97]", async () => {
      const often = { periodSeconds: 1, failureThreshold: 1 };
      // Uses two pods, because Events of one object are limited to a burst of 25 and repeated restarts exhaust that.
      await cluster.apply(
        podOf("lively", {
          containers: [
            shell("exec", `echo ok > /tmp/health; sleep 2; busybox rm /tmp/health; ${STAY}`, {
              livenessProbe: { exec: { command: ["cat", "/tmp/health"] }, initialDelaySeconds: 1, ...often },
            }),
            { ...server(), livenessProbe: { httpGet: { path: "/", port: 8080 }, ...often, failureThreshold: 3 } },
            shell("exec-passes", STAY, { livenessProbe: { exec: { command: ["true"] }, ...often, failureThreshold: 3 } }),
          ],
        }),
        podOf("lively-tcp", {
          containers: [
            shell("tcp", STAY, { livenessProbe: { tcpSocket: { port: 81 }, initialDelaySeconds: 1, ...often } }),
            { ...server(), livenessProbe: { tcpSocket: { port: 8080 }, ...often, failureThreshold: 10 } },
          ],
        }),
      );
      const restarted = (pod: string, container: string): ReturnType<typeof podWhere> =>
        podWhere(cluster, pod, `restarted ${container}`, (one) => containerOf(one, container).restartCount >= 1);
      const [pod, tcp] = await Promise.all([restarted("lively", "exec"), restarted("lively-tcp", "tcp")]);
      expect(["main", "exec-passes"].map((name) => containerOf(pod, name).restartCount)).toEqual([0, 0]);
      expect(containerOf(tcp).restartCount).toBe(0);
      await eventsSay(
        cluster,
        "lively",
        "Killing: Container exec failed liveness probe, will be restarted",
        "Unhealthy: Liveness probe failed: cat: can't open '/tmp/health': No such file or directory\n",
      );
    });

    it("a startup probe blocks the other probes, and decides when a container counts as started [node-agent 97]", async () => {
      const late = `sleep 4; echo up > /tmp/up; ${STAY}`;
      const probe = { exec: { command: ["cat", "/tmp/up"] }, periodSeconds: 1 };
      await cluster.apply(
        podOf("starter", {
          containers: [
            shell("main", late, {
              startupProbe: { ...probe, failureThreshold: 60 },
              livenessProbe: { ...probe, failureThreshold: 1 },
              readinessProbe: { exec: { command: ["true"] }, periodSeconds: 1 },
            }),
          ],
        }),
      );
      const early = await podWhere(cluster, "starter", "runs", (pod) => containerOf(pod).state.running !== undefined);
      expect(containerOf(early)).toMatchObject({ started: false, ready: false });
      const pod = await podReady(cluster, "starter");
      const { started, restartCount, state } = containerOf(pod);
      expect([started, restartCount]).toEqual([true, 0]);
      const ready = Date.parse(conditionOf(pod.status, "Ready")?.lastTransitionTime ?? "");
      expect(ready - Date.parse(state.running?.startedAt ?? "")).toBeGreaterThanOrEqual(4 * SECONDS);
    });

    it("a readiness probe waits for its delay, and makes a pod unready without restarting its container [node-agent 96]", async () => {
      await cluster.apply(
        podOf("ready-later", {
          containers: [shell("main", STAY, { readinessProbe: { exec: { command: ["true"] }, initialDelaySeconds: 5, periodSeconds: 1 } })],
        }),
        podOf("never-ready", {
          containers: [shell("main", STAY, { readinessProbe: { exec: { command: ["false"] }, periodSeconds: 1 } })],
        }),
        podOf("in-and-out", {
          containers: [
            shell("main", `echo ok > /tmp/ok; ${STAY}`, {
              readinessProbe: { exec: { command: ["cat", "/tmp/ok"] }, periodSeconds: 1, failureThreshold: 2 },
            }),
          ],
        }),
      );
      const inside = await podReady(cluster, "in-and-out");
      await run(inside, "main", "busybox rm /tmp/ok");
      const out = await podWhere(cluster, "in-and-out", "is out", (pod) => !isReady(pod));
      expect([out.status.phase, containerOf(out).restartCount, containerOf(out).state.running !== undefined]).toEqual(["Running", 0, true]);
      expect(conditionOf(out.status, "Ready")).toMatchObject({
        status: "False",
        reason: "ContainersNotReady",
        message: "containers with unready status: [main]",
      });
      await run(out, "main", "echo ok > /tmp/ok");
      await podReady(cluster, "in-and-out");
      const later = await podReady(cluster, "ready-later");
      const readyAt = Date.parse(conditionOf(later.status, "Ready")?.lastTransitionTime ?? "");
      expect(readyAt - Date.parse(containerOf(later).state.running?.startedAt ?? "")).toBeGreaterThanOrEqual(5 * SECONDS);
      const never = await podWhere(cluster, "never-ready", "runs", ({ status }) => status.phase === "Running");
      expect([isReady(never), containerOf(never).restartCount]).toEqual([false, 0]);
      expect(await cluster.kubectl("get", "pods", "never-ready", "--no-headers")).toMatch(/^never-ready +0\/1 +Running +0 /);
    });
  });

  describe.concurrent("hooks and grace periods", () => {
    /** Responds with the first line of each request. */
    const LISTEN = `busybox nc -ll -p 8080 -e sh -c '
      read line; echo "$line" > /proc/1/fd/1
      while read more && [ "$more" != "$(printf "\\r")" ]; do true; done
      printf "HTTP/1.1 200 OK\\r\\nContent-Length: 0\\r\\nConnection: close\\r\\n\\r\\n"'`;

    it("HTTP hooks are called: postStart before the container counts as started, and preStop before it is stopped [node-agent 98]", async () => {
      await cluster.apply(podOf("listener", { containers: [shell("main", LISTEN)] }));
      const { podIP } = (await podReady(cluster, "listener")).status;
      const get = (path: string): object => ({ httpGet: { host: podIP, port: 8080, path } });
      await cluster.apply(
        podOf("hooked", {
          terminationGracePeriodSeconds: 20,
          containers: [shell("main", STAY, { lifecycle: { postStart: get("/started"), preStop: get("/stopping") } })],
        }),
      );
      await podReady(cluster, "hooked");
      expect(await logs("listener")).toMatch(/^GET \/started HTTP\/1.1\r?\n$/);
      await cluster.kubectl("delete", "pod", "hooked", "--timeout=40s");
      expect(await logs("listener")).toMatch(/\nGET \/stopping HTTP\/1.1\r?\n$/);
    });

    it("exec hooks run in the container, and a failed postStart hook ends the container [node-agent 98]", async () => {
      const exec = (script: string): object => ({ exec: { command: ["sh", "-c", script] } });
      const trace = [{ name: "trace", mountPath: "/trace" }];
      const volumes = [{ name: "trace", hostPath: { path: `${node.containerd.directory}/trace`, type: "DirectoryOrCreate" } }];
      await cluster.apply(
        podOf("exec-hooks", {
          terminationGracePeriodSeconds: 20,
          containers: [
            shell("main", STAY, {
              lifecycle: { postStart: exec("echo after > /trace/start"), preStop: exec("sleep 1; echo before > /trace/stop") },
              volumeMounts: trace,
            }),
          ],
          volumes,
        }),
        podOf("bad-hook", { containers: [shell("main", STAY, { lifecycle: { postStart: exec("exit 9") } })] }),
      );
      await podReady(cluster, "exec-hooks");
      const read = (file: string): string => readFileSync(`${node.containerd.directory}/trace/${file}`, "utf8");
      expect(read("start")).toBe("after\n");
      await cluster.kubectl("delete", "pod", "exec-hooks", "--timeout=40s");
      expect(read("stop")).toBe("before\n");
      await podWhere(cluster, "bad-hook", "was started again", (pod) => containerOf(pod).restartCount >= 1);
      await eventsSay(cluster, "bad-hook", "FailedPostStartHook: PostStartHook failed");
    });

    it("deleting a pod again with a shorter grace period shortens its termination [node-agent 118]", async () => {
      await cluster.apply(podOf("hurried", { terminationGracePeriodSeconds: 300, containers: [server({ args: ["stubborn"] })] }));
      await podReady(cluster, "hurried");
      await cluster.kubectl("delete", "pod", "hurried", "--wait=false");
      await eventually("it was told to end", async () => (await logs("hurried")).includes("got SIGTERM, staying\n"));
      const from = performance.now();
      await cluster.kubectl("delete", "pod", "hurried", "--grace-period=3", "--timeout=60s");
      const tookMs = performance.now() - from;
      // kubectl fails after 60 s, long before the first grace period is over.
      measured(`300 s of grace cut to 3 s: deleted after ${(tookMs / SECONDS).toFixed(1)} s`);
    });

    it("a container that handles SIGTERM ends immediately, and one that ignores SIGTERM ends after its grace period", async () => {
      await cluster.apply(
        podOf("obedient", { terminationGracePeriodSeconds: 300, containers: [server()] }),
        podOf("stubborn", { terminationGracePeriodSeconds: 6, containers: [server({ args: ["stubborn"] })] }),
      );
      await Promise.all([podReady(cluster, "obedient"), podReady(cluster, "stubborn")]);
      const took = async (name: string): Promise<number> => {
        const from = performance.now();
        // kubectl fails after 60 s: a fifth of the grace period of the container that exits on SIGTERM.
        await cluster.kubectl("delete", "pod", name, "--timeout=60s");
        return performance.now() - from;
      };
      const [obedientMs, stubbornMs] = await Promise.all([took("obedient"), took("stubborn")]);
      measured(`deleted in ${(obedientMs / SECONDS).toFixed(1)} s, with a grace of 6 s used up in ${(stubbornMs / SECONDS).toFixed(1)} s`);
      expect(stubbornMs).toBeGreaterThan(6 * SECONDS);
    });
  });

  describe.concurrent("a container's environment", () => {
    it("bytes that are not UTF-8 are unchanged in files, while containerd replaces them in variables, which an Event reports", async () => {
      const bytes = Buffer.from([0x61, 0xff, 0xfe, 0xc3, 0xa9, 0xc3]);
      const key = bytes.toString("base64");
      await cluster.apply(
        { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "seal" }, binaryData: { key } },
        { apiVersion: "v1", kind: "Secret", metadata: { name: "seal" }, data: { key } },
        podOf("sealed", {
          containers: [
            shell("main", STAY, {
              env: [{ name: "SEAL", valueFrom: { secretKeyRef: { name: "seal", key: "key" } } }],
              envFrom: [
                { prefix: "P_", secretRef: { name: "seal" } },
                { prefix: "BINARY_", configMapRef: { name: "seal" } },
              ],
              volumeMounts: ["configMap", "secret"].map((name) => ({ name: name.toLowerCase(), mountPath: `/${name}` })),
            }),
          ],
          volumes: [
            { name: "configmap", configMap: { name: "seal" } },
            { name: "secret", secret: { secretName: "seal" } },
          ],
        }),
      );
      const pod = await podReady(cluster, "sealed");
      const hex = async (of: string): Promise<string> => await run(pod, "main", `${of} | busybox hexdump -v -e '1/1 "%02x"'`);
      expect([await hex("cat /configMap/key"), await hex("cat /secret/key")]).toEqual([bytes.toString("hex"), bytes.toString("hex")]);
      // The value after JSON encoding in Go, which containerd uses for the OCI specification (containerd/containerd#13453).
      const replaced = Buffer.from("a\uFFFD\uFFFD\u00E9\uFFFD").toString("hex");
      const variables = await Promise.all(["SEAL", "P_key", "BINARY_key"].map((name) => hex(`printf %s "$${name}"`)));
      expect(variables).toEqual([replaced, replaced, ""]); // upstream sets no environment variables from binaryData
      const says = "P_key, SEAL: the value is not valid UTF-8, and containerd replaces the invalid bytes: mount the Secret as a file";
      await eventsSay(cluster, "sealed", `InvalidEnvironmentVariableValues: ${says}`);
    });

    it("volumes and variables reflect ConfigMaps, Secrets and the pod, including later changes [node-agent 107] [node-agent 108] [node-agent 109]", async () => {
      await cluster.apply(
        { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "settings" }, data: { color: "blue", size: "xl" } },
        { apiVersion: "v1", kind: "Secret", metadata: { name: "keys" }, stringData: { password: "hunter2" } },
        podOf(
          "sees",
          {
            containers: [
              shell("main", STAY, {
                env: [
                  { name: "COLOR", valueFrom: { configMapKeyRef: { name: "settings", key: "color" } } },
                  { name: "PASSWORD", valueFrom: { secretKeyRef: { name: "keys", key: "password" } } },
                  { name: "MISSING", valueFrom: { configMapKeyRef: { name: "nothing", key: "x", optional: true } } },
                  { name: "POD_NAME", valueFrom: { fieldRef: { fieldPath: "metadata.name" } } },
                  { name: "POD_IP", valueFrom: { fieldRef: { fieldPath: "status.podIP" } } },
                  { name: "HOST_IP", valueFrom: { fieldRef: { fieldPath: "status.hostIP" } } },
                  { name: "UID", valueFrom: { fieldRef: { fieldPath: "metadata.uid" } } },
                  { name: "LIMIT", valueFrom: { resourceFieldRef: { resource: "limits.memory", divisor: "1Mi" } } },
                ],
                envFrom: [{ configMapRef: { name: "settings" }, prefix: "CFG_" }],
                resources: { limits: { memory: "64Mi" } },
                volumeMounts: [
                  { name: "settings", mountPath: "/settings" },
                  { name: "keys", mountPath: "/keys" },
                  { name: "about", mountPath: "/about" },
                  { name: "all", mountPath: "/all" },
                  { name: "shared", mountPath: "/shared" },
                ],
              }),
              shell("other", `echo from-other > /shared/note; ${STAY}`, { volumeMounts: [{ name: "shared", mountPath: "/shared" }] }),
            ],
            volumes: [
              { name: "settings", configMap: { name: "settings", items: [{ key: "color", path: "deep/color", mode: 0o400 }] } },
              { name: "keys", secret: { secretName: "keys" } },
              { name: "about", downwardAPI: { items: [{ path: "labels", fieldRef: { fieldPath: "metadata.labels" } }] } },
              {
                name: "all",
                projected: {
                  sources: [
                    { serviceAccountToken: { path: "token", audience: "vault", expirationSeconds: 600 } },
                    { configMap: { name: "settings", items: [{ key: "size", path: "size" }] } },
                    { secret: { name: "keys" } },
                  ],
                },
              },
              { name: "shared", emptyDir: {} },
            ],
          },
          { labels: { tier: "one" } },
        ),
      );
      const pod = await podReady(cluster, "sees");
      const env = await run(pod, "main", 'echo "$COLOR $PASSWORD $CFG_size $POD_NAME $POD_IP $HOST_IP $UID $LIMIT [$MISSING]"');
      expect(env).toBe(`blue hunter2 xl sees ${pod.status.podIP} ${pod.status.hostIP} ${pod.metadata.uid} 64 []\n`);
      expect(await run(pod, "main", "cat /settings/deep/color /keys/password /about/labels /all/size /all/password /shared/note")).toBe(
        'bluehunter2tier="one"xlhunter2from-other\n',
      );
      expect(await run(pod, "main", "busybox stat -L -c %a /settings/deep/color; busybox stat -L -c %a /keys/password")).toBe("400\n644\n");

      const review = await tokenReview(await run(pod, "main", "cat /all/token"), "vault");
      expect(review).toMatchObject({
        authenticated: true,
        audiences: ["vault"],
        user: { username: "system:serviceaccount:default:default" },
      });
      expect(review.user?.extra?.["authentication.kubernetes.io/pod-uid"]).toEqual([pod.metadata.uid]);
      const token = await run(pod, "main", "cat /var/run/secrets/kubernetes.io/serviceaccount/token");
      expect((await tokenReview(token)).authenticated).toBe(true);

      await cluster.apply(
        { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "settings" }, data: { color: "green", size: "s" } },
        { apiVersion: "v1", kind: "Secret", metadata: { name: "keys" }, stringData: { password: "swordfish" } },
      );
      let tries = 0;
      await eventually(
        "the files changed",
        async () => {
          // Changes a label to cause a sync, because a running pod is otherwise synced every 60 to 90 s.
          await cluster.kubectl("label", "pod", "sees", "--overwrite", `tier=again-${++tries}`);
          return (await run(pod, "main", "cat /settings/deep/color /keys/password /all/size /about/labels")).startsWith("greenswordfishs");
        },
        40 * SECONDS,
      );
      await eventually("the labels changed", async () => (await run(pod, "main", "cat /about/labels")) === `tier="again-${tries}"`);
      expect(await run(pod, "main", "echo $COLOR")).toBe("blue\n");
      expect(containerOf(await podReady(cluster, "sees")).restartCount).toBe(0);
    });

    interface Review {
      readonly authenticated?: boolean;
      readonly audiences?: readonly string[];
      readonly user?: { readonly username: string; readonly extra?: Readonly<Record<string, readonly string[]>> };
    }

    /** Returns the API server's TokenReview of a token. */
    async function tokenReview(token: string, ...audiences: readonly string[]): Promise<Review> {
      const body = {
        apiVersion: "authentication.k8s.io/v1",
        kind: "TokenReview",
        spec: { token, ...(audiences.length > 0 && { audiences }) },
      };
      const answer = await cluster.client.request("POST", "/apis/authentication.k8s.io/v1/tokenreviews", body);
      return answer["status"] as Review; // the response to a TokenReview
    }

    it("waits for a missing ConfigMap until it exists, and reports the wait [node-agent 108]", async () => {
      await cluster.apply(
        podOf("waits", {
          containers: [shell("main", STAY, { volumeMounts: [{ name: "late", mountPath: "/late" }] })],
          volumes: [{ name: "late", configMap: { name: "late" } }],
        }),
        podOf("waits-env", {
          containers: [shell("main", STAY, { env: [{ name: "X", valueFrom: { configMapKeyRef: { name: "late", key: "x" } } }] })],
        }),
      );
      await eventsSay(cluster, "waits", 'FailedMount: MountVolume.SetUp failed for volume "late" : configmap "late" not found');
      await podWhere(cluster, "waits-env", "says why", (pod) => {
        const { waiting } = containerOf(pod).state;
        return waiting?.reason === "CreateContainerConfigError" && waiting.message === 'configmap "late" not found';
      });
      await cluster.apply({ apiVersion: "v1", kind: "ConfigMap", metadata: { name: "late" }, data: { x: "1" } });
      expect(await run(await podReady(cluster, "waits"), "main", "cat /late/x")).toBe("1");
      expect(await run(await podReady(cluster, "waits-env"), "main", "echo $X")).toBe("1\n");
    });

    it("a container has its own hostname, hosts file, user and privileges [node-agent 101] [node-agent 103] [node-agent 104] [node-agent 111]", async () => {
      await cluster.apply({ apiVersion: "v1", kind: "Service", metadata: { name: "fooservice" }, spec: { ports: [{ port: 8765 }] } });
      await cluster.apply(
        podOf("self", {
          hostAliases: [{ ip: "123.45.67.89", hostnames: ["foo", "bar"] }],
          containers: [
            shell("main", STAY, {
              securityContext: { runAsUser: 65_534, readOnlyRootFilesystem: true, allowPrivilegeEscalation: false },
            }),
            shell("own-hosts", STAY, { volumeMounts: [{ name: "own", mountPath: "/etc/hosts", subPath: "hosts" }] }),
          ],
          initContainers: [shell("write", "echo mine > /own/hosts", { volumeMounts: [{ name: "own", mountPath: "/own" }] })],
          volumes: [{ name: "own", emptyDir: {} }],
        }),
        podOf("on-host", { hostNetwork: true, containers: [shell("main", STAY)] }),
      );
      const pod = await podReady(cluster, "self");
      expect(pod.status.hostIP).toBe("127.0.0.1");
      expect(await run(pod, "main", "busybox hostname; busybox id -u")).toBe("self\n65534\n");
      const hosts = await run(pod, "main", "cat /etc/hosts");
      expect(hosts).toContain("# Kubernetes-managed hosts file.\n");
      expect(hosts).toContain("123.45.67.89\tfoo\tbar\n");
      expect(hosts).toContain(`${pod.status.podIP}\tself\n`);
      expect(await run(pod, "own-hosts", "cat /etc/hosts")).toBe("mine\n");
      expect(await run(pod, "main", "echo x > /file 2> /dev/null || echo refused")).toBe("refused\n");
      expect(await run(pod, "main", "busybox grep NoNewPrivs /proc/1/status")).toMatch(/\t1\n$/);
      expect(await run(pod, "own-hosts", 'echo "$FOOSERVICE_SERVICE_PORT $FOOSERVICE_PORT_8765_TCP_PROTO"')).toBe("8765 tcp\n");
      const onHost = await podReady(cluster, "on-host");
      expect(onHost.status.podIP).toBe(onHost.status.hostIP);
      expect(await run(onHost, "main", "cat /etc/hosts")).toContain("# Kubernetes-managed hosts file (host network).\n");
    });

    it("a container has the command and arguments of its image or spec, with variables expanded [node-agent 105] [node-agent 106]", async () => {
      const env = [
        { name: "WHO", value: "world" },
        { name: "GREETING", value: "hello $(WHO) $$(WHO)" },
      ];
      const mount = (subPathExpr: string): object => ({ volumeMounts: [{ name: "work", mountPath: "/work", subPathExpr }] });
      await cluster.apply(
        podOf("words", {
          restartPolicy: "Never",
          containers: [
            { name: "image", image: IMAGES.busybox, args: ["-c", "echo image with args"] },
            { name: "both", image: IMAGES.busybox, command: ["echo"], args: ["$(GREETING)"], env },
            shell("sub", "echo here > /work/file; ls /all", {
              env,
              volumeMounts: [
                { name: "work", mountPath: "/work", subPathExpr: "$(WHO)" },
                { name: "work", mountPath: "/all" },
              ],
            }),
          ],
          volumes: [{ name: "work", emptyDir: {} }],
        }),
        podOf("absolute", {
          containers: [shell("main", STAY, { env: [{ name: "WHERE", value: "/tmp" }], ...mount("$(WHERE)") })],
          volumes: [{ name: "work", emptyDir: {} }],
        }),
      );
      await podEnded(cluster, "words");
      const said = await Promise.all(["image", "both", "sub"].map((container) => logs("words", "-c", container)));
      expect(said).toEqual(["image with args\n", "hello world $(WHO)\n", "world\n"]);
      const refused = await podWhere(
        cluster,
        "absolute",
        "is refused",
        (pod) => containerOf(pod).state.waiting?.reason === "CreateContainerConfigError",
      );
      expect(containerOf(refused).containerID).toBeUndefined();
    });

    it("a container has volumes with the right modes, and limits by QoS class [node-agent 110] [node-agent 114]", async () => {
      const limits = { cpu: "100m", memory: "32Mi" };
      const mounts = ["disk", "memory"].map((name) => ({ name, mountPath: `/${name}` }));
      const modes = "for d in /disk /memory; do busybox stat -c %a $d; done; busybox grep -c ' /memory tmpfs ' /proc/mounts";
      await cluster.apply(
        podOf("modes", {
          containers: [
            shell("root", STAY, { volumeMounts: mounts, resources: { limits } }),
            shell("nobody", STAY, { volumeMounts: mounts, resources: { limits }, securityContext: { runAsUser: 65_534 } }),
          ],
          volumes: [
            { name: "disk", emptyDir: {} },
            { name: "memory", emptyDir: { medium: "Memory" } },
          ],
        }),
      );
      const pod = await podReady(cluster, "modes");
      expect(pod.status.qosClass).toBe("Guaranteed");
      expect(await run(pod, "root", modes)).toBe("777\n1777\n1\n");
      expect(await run(pod, "nobody", "echo mine > /disk/f; echo mine > /memory/f; cat /disk/f /memory/f")).toBe("mine\nmine\n");
      const limit = await run(pod, "root", "cd /sys/fs/cgroup; cat memory/memory.limit_in_bytes 2> /dev/null || cat memory.max");
      expect(limit.trim()).toBe(String(32 * 1024 * 1024));
    });
  });

  describe.concurrent("a pod's lifecycle", () => {
    it("an activeDeadlineSeconds that is set on a running pod ends the pod [node-agent 100]", async () => {
      await cluster.apply(podOf("deadline", { containers: [shell("main", STAY)] }, { labels: { step: "one" } }));
      await podReady(cluster, "deadline");
      await cluster.kubectl(
        "patch",
        "pod",
        "deadline",
        "-p",
        JSON.stringify({ metadata: { labels: { step: "two" } }, spec: { activeDeadlineSeconds: 3 } }),
      );
      const pod = await podEnded(cluster, "deadline");
      expect([pod.metadata.labels?.["step"], pod.status.phase, pod.status.reason, pod.status.message]).toEqual([
        "two",
        "Failed",
        "DeadlineExceeded",
        "Pod was active on the node longer than the specified deadline",
      ]);
      await eventually("its container ended", async () =>
        (await node.containers(pod.metadata.uid)).every(({ state }) => state === "CONTAINER_EXITED"),
      );
    });

    it("accepts ephemeral containers, one after the other [node-agent 113]", async () => {
      await cluster.apply(podOf("debugged", { containers: [server()] }));
      const before = await podReady(cluster, "debugged");
      for (const name of ["debug-1", "debug-2"]) {
        await cluster.kubectl(
          "debug",
          "debugged",
          `--image=${IMAGES.busybox}`,
          `--container=${name}`,
          "--profile=general",
          "--",
          "sh",
          "-c",
          STAY,
        );
        await podWhere(cluster, "debugged", `runs ${name}`, (pod) => containerOf(pod, name).state.running !== undefined);
      }
      const after = await podReady(cluster, "debugged");
      expect(containerOf(after)).toEqual(containerOf(before));
      expect(after.status.ephemeralContainerStatuses?.map(({ name }) => name)).toEqual(["debug-1", "debug-2"]);
    });

    it("a pod waits while it needs features that the runtime or the node lacks [node-agent 112]", async () => {
      await cluster.apply({
        apiVersion: "node.k8s.io/v1",
        kind: "RuntimeClass",
        metadata: { name: "other" },
        handler: "none-such",
      });
      await cluster.apply(
        podOf("sysctl", {
          containers: [shell("main", STAY)],
          securityContext: { sysctls: [{ name: "net.ipv4.ip_unprivileged_port_start", value: "81" }] },
        }),
        podOf("unsafe-sysctl", {
          containers: [shell("main", STAY)],
          securityContext: { sysctls: [{ name: "kernel.msgmax", value: "65536" }] },
        }),
        podOf("other-runtime", { runtimeClassName: "other", containers: [shell("main", STAY)] }),
      );
      const refused = await podEnded(cluster, "unsafe-sysctl");
      expect([refused.status.phase, refused.status.reason]).toEqual(["Failed", "SysctlForbidden"]);
      const pod = await podReady(cluster, "sysctl");
      expect(await run(pod, "main", "cat /proc/sys/net/ipv4/ip_unprivileged_port_start")).toBe("81\n");
      const held = await podWhere(cluster, "other-runtime", "is looked at", ({ status }) => (status.containerStatuses ?? []).length > 0);
      expect([held.status.phase, containerOf(held).containerID]).toEqual(["Pending", undefined]);
      await eventually("the runtime is asked for that handler", async () =>
        (
          await cluster.kubectl("get", "events", "--field-selector=reason=FailedCreatePodSandBox,involvedObject.name=other-runtime")
        ).includes('no runtime for "none-such" is configured'),
      );
    });

    it("a pod starts, is observed while it terminates, and leaves no container running [node-agent 99]", async () => {
      await cluster.apply(
        podOf("brief", {
          terminationGracePeriodSeconds: 60,
          containers: [shell("main", `trap "sleep 10; exit 0" TERM; sleep 3600 & wait`)],
        }),
      );
      const pod = await podReady(cluster, "brief");
      await cluster.kubectl("delete", "pod", "brief", "--wait=false");
      const ending = await podWhere(cluster, "brief", "is ending", ({ metadata }) => metadata.deletionTimestamp !== undefined);
      expect(ending.status.phase).toBe("Running");
      expect(await cluster.kubectl("get", "pods", "brief", "--no-headers")).toMatch(/^brief +1\/1 +Terminating +0 /);
      await podGone(cluster, "brief");
      expect((await node.containers(pod.metadata.uid)).filter(({ state }) => state !== "CONTAINER_EXITED")).toEqual([]);
      expect((await node.leftovers()).directories).not.toContain(pod.metadata.uid);
    });
  });

  describe.concurrent("a user at a terminal", () => {
    const terminal = (...args: readonly string[]): Terminal =>
      openTerminal([kubectl, ...args], {
        KUBECONFIG: cluster.plane.adminKubeconfig,
        KUBECACHEDIR: join(node.containerd.directory, "kubectl"),
        KUBERC: "off",
      });

    it("runs a pod interactively, and receives its exit code [node-agent 460]", async () => {
      const screen = terminal("run", "-it", "--rm", "by-hand", `--image=${IMAGES.busybox}`, "--restart=Never", "--command", "--", "sh");
      await screen.see(PROMPT);
      screen.type(`${AWAIT_SIZE}; echo sum-$((40 + 2))\n`);
      await screen.see(`${TERMINAL_SIZE}\n`);
      await screen.see("sum-42\n");
      screen.type("echo sleeping-$((1)); sleep 600\n");
      await screen.see("sleeping-1\n");
      screen.type("\x03"); // Ctrl-C ends the foreground command, not the pod
      screen.type("exit 3\n");
      await screen.see('pod "by-hand" deleted');
      expect(await screen.ended).toBe(3);
      expect(screen.screen()).toContain("pod default/by-hand terminated (Error)");
      await podGone(cluster, "by-hand");
    });

    it("attaches to a waiting shell, detaches and attaches to the same shell again [node-agent 460]", async () => {
      await cluster.apply(
        podOf("shell", { containers: [{ name: "main", image: IMAGES.busybox, command: ["sh"], stdin: true, tty: true }] }),
      );
      await podReady(cluster, "shell");
      const first = terminal("attach", "-it", "shell");
      await first.see("If you don't see a command prompt, try pressing enter.");
      first.type("kept=seven\necho is-$kept\n");
      await first.see("is-seven\n");
      await first.close();
      const second = terminal("attach", "-it", "shell");
      await second.see("If you don't see a command prompt, try pressing enter.");
      second.type(`echo still-$kept; ${AWAIT_SIZE}\n`);
      await second.see("still-seven\n");
      await second.see(`${TERMINAL_SIZE}\n`);
      second.type("exit 4\n");
      await second.ended;
      const pod = await podWhere(cluster, "shell", "was started again", (one) => containerOf(one).restartCount === 1 && isReady(one));
      expect(containerOf(pod).lastState.terminated?.exitCode).toBe(4);
      expect(await logs("shell", "--previous")).toContain("still-seven");
    });

    it("inspects a running pod with an ephemeral container [node-agent 460]", async () => {
      await cluster.apply(podOf("patient", { containers: [server()] }));
      const before = containerOf(await podReady(cluster, "patient"));
      const screen = terminal("debug", "-it", "patient", `--image=${IMAGES.busybox}`, "--target=main", "--container=doctor", "--", "sh");
      await screen.see(PROMPT);
      screen.type(`tr '\\0' ' ' < /proc/1/cmdline; wget -qO- http://127.0.0.1:8080; ${AWAIT_SIZE}\n`);
      await screen.see(/\/server .*v1 patient\n/u);
      await screen.see(`${TERMINAL_SIZE}\n`);
      screen.type("exit 5\n");
      await screen.ended;
      const pod = await podWhere(
        cluster,
        "patient",
        "has its doctor's code",
        (one) => containerOf(one, "doctor").state.terminated !== undefined,
      );
      expect(containerOf(pod, "doctor").state.terminated?.exitCode).toBe(5);
      expect(containerOf(pod)).toEqual(before);
    });

    it("debugs a copy of a pod [node-agent 460]", async () => {
      await cluster.apply(podOf("original", { containers: [server()] }));
      const before = containerOf(await podReady(cluster, "original"));
      const args = [`--image=${IMAGES.busybox}`, "--copy-to=copy", "--share-processes", "--container=doctor", "--", "sh"];
      const screen = terminal("debug", "-it", "original", ...args);
      await screen.see(PROMPT);
      screen.type("hostname; wget -qO- http://127.0.0.1:8080; cat /proc/[0-9]*/cmdline | tr '\\0' ' '\n");
      await screen.see("copy\nv1 copy\n");
      await screen.see("/server ");
      screen.type("exit\n");
      await screen.ended;
      expect(containerOf((await getPod(cluster, "original")) as PodView)).toEqual(before);
      await cluster.kubectl("delete", "pod", "copy", "--timeout=30s");
    });
  });

  it("the agent sends no request that the API server forbids to a node", async () => {
    expect(await refusedForGood(cluster)).toEqual([]);
  });
});

/** The container that holds a pod's namespaces. */
async function pauseProcess({ metadata: { uid } }: PodView): Promise<number> {
  for (const pid of (await readdir("/proc")).filter((name) => /^\d+$/u.test(name))) {
    const [command, cgroup] = await Promise.all(
      ["cmdline", "cgroup"].map((file) => readFile(`/proc/${pid}/${file}`, "utf8").catch(() => "")),
    );
    if (command?.startsWith("/pause") && cgroup?.replaceAll("_", "-").includes(uid)) return Number(pid);
  }
  throw new Error(`no pause process of pod ${uid}`);
}
