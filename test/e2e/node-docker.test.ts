/**
 * `deltaloop node --docker`: a real API server and scheduler, and one of our nodes on a real dockerd. The tests are one sequence: each
 * continues where the previous one ended.
 */
import { randomBytes } from "node:crypto";
import { connect } from "node:net";

import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { LABELS } from "../../shared/node-agent/kubelet/types/labels.ts";
import { ensureDockerd } from "../docker/programs.ts";
import { controlPlaneBinaries } from "../envtest/binaries.ts";
import { eventually, startCluster, whereRealPartsAre } from "../support/e2e.ts";
import type { Cluster } from "../support/e2e.ts";
import { startDockerNode } from "../harness/node-processes/docker-node.ts";
import type { DockerAgent } from "../harness/node-processes/docker-node.ts";
import { answerOf, containerOf, podGone, podOf, podReady, podWhere, server, shell, STAY } from "../harness/node-processes/pods.ts";
import { openTerminal } from "../support/terminal.ts";
import type { Terminal } from "../support/terminal.ts";

const NODE = "on-docker";
const GONE_MS_MAX = 30_000;
/** Bytes of a log line; more than the 16 KiB that Docker writes as one part of a line. */
const LONG_LINE_BYTES = 40_000;
const BIG_BYTES = 2_000_000;

const dockerd = ensureDockerd();
await whereRealPartsAre("a node on Docker", () => suite("program" in dockerd ? dockerd.program : ""), "missing" in dockerd ? dockerd : {});

function suite(program: string): void {
  let cluster: Cluster;
  let node: DockerAgent;
  let kubectlProgram: string;
  beforeAll(async () => {
    const binaries = await controlPlaneBinaries();
    if ("missing" in binaries) throw new Error(binaries.missing);
    kubectlProgram = binaries.kubectl;
    cluster = await startCluster({ machines: "scheduler" });
    node = await startDockerNode(cluster, NODE, program);
    await eventually("the node is registered", () => cluster.get(`/api/v1/nodes/${NODE}`), 30_000);
    await cluster.kubectl("wait", "--for=condition=Ready", "--timeout=30s", `node/${NODE}`);
  });
  afterAll(async () => {
    await node?.stop();
    await cluster?.stop();
  });

  /** Returns all containers that ever ran, as `name/attempt state`. */
  const instances = async (uid: string): Promise<readonly string[]> => {
    const found = await node.cri.listContainers({ labelSelector: { [LABELS.podUid]: uid } });
    return found.map(({ metadata, state }) => `${metadata.name}/${metadata.attempt} ${state}`).toSorted();
  };

  const kubectl = (...args: readonly string[]): Terminal =>
    openTerminal([kubectlProgram, ...args], { KUBECONFIG: cluster.plane.adminKubeconfig, KUBERC: "off" });

  describe("a node on Docker", () => {
    it("[node-agent 400] reports its runtime", async () => {
      expect(await cluster.kubectl("get", "node", NODE, "-o", "jsonpath={.status.nodeInfo.containerRuntimeVersion}")).toMatch(
        /^docker:\/\/\d+\./u,
      );
    });

    it("[node-agent 400] runs a pod with init container, probes, volume and limits, which serves on its address", async () => {
      const probe = { httpGet: { path: "/", port: 8080 }, periodSeconds: 1 };
      const volumeMounts = [{ name: "shared", mountPath: "/shared" }];
      await cluster.apply(
        podOf("web", {
          volumes: [{ name: "shared", emptyDir: {} }],
          initContainers: [shell("init", "echo prepared > /shared/word", { volumeMounts })],
          containers: [
            server({ readinessProbe: probe, livenessProbe: probe, resources: { limits: { cpu: "500m", memory: "64Mi" } } }),
            // The pauses keep the order of the two streams.
            shell(
              "side",
              `cat /shared/word; sleep 0.5; echo to stderr >&2; sleep 0.5; head -c ${LONG_LINE_BYTES} /dev/zero | tr '\\0' x; echo; ${STAY}`,
              {
                volumeMounts,
                readinessProbe: { exec: { command: ["cat", "/shared/word"] }, periodSeconds: 1 },
              },
            ),
          ],
        }),
      );
      const pod = await podReady(cluster, "web");
      expect(await answerOf(pod.status.podIP)).toBe("v1 web\n");
      expect(containerOf(pod).containerID).toMatch(/^docker:\/\/[\da-f]{64}$/u);
      expect(await instances(pod.metadata.uid)).toEqual([
        "init/0 CONTAINER_EXITED",
        "main/0 CONTAINER_RUNNING",
        "side/0 CONTAINER_RUNNING",
      ]);
    });

    it("[node-agent 401] serves kubectl logs, including long lines", async () => {
      const text = `prepared\nto stderr\n${"x".repeat(LONG_LINE_BYTES)}\n`;
      await eventually("the log", async () => (await cluster.kubectl("logs", "web", "-c", "side")) === text);
      expect(await cluster.kubectl("logs", "web", "-c", "main", "--tail=1")).toBe("v1 listening on 8080\n");
      expect(await cluster.kubectl("logs", "web", "-c", "main", "--timestamps")).toMatch(/^\d{4}-\d\d-\d\dT\S{18}Z v1 listening/u);
    });

    it("[node-agent 402] runs commands for kubectl exec, with output, input, exit codes and a missing command", async () => {
      expect(await cluster.kubectl("exec", "web", "-c", "side", "--", "sh", "-c", "echo one; cat /shared/word")).toBe("one\nprepared\n");
      await expect(cluster.kubectl("exec", "web", "-c", "main", "--", "/server", "exit", "7")).rejects.toThrow("exit code 7");
      const input = Array.from({ length: 40_000 }, (_, index) => `line ${index} of what is sent\n`).join("");
      const parameters = ["exec", "-i", "web", "-c", "side", "--", "cat"];
      const { code, stdout } = await cluster.plane.kubectl(parameters, { input });
      expect([code, stdout === input]).toEqual([0, true]);
      await expect(cluster.kubectl("exec", "web", "-c", "side", "--", "/no/such")).rejects.toThrow(/no such file or directory|12[67]/u);
    });

    it("[node-agent 461] serves kubectl attach to the same process, before and after the client disconnects", async () => {
      await cluster.apply(podOf("talker", { containers: [shell("main", 'while read line; do echo "got $line"; done', { stdin: true })] }));
      const id = containerOf(await podReady(cluster, "talker")).containerID;
      for (const word of ["one", "two"]) {
        const attached = kubectl("attach", "-i", "talker");
        await attached.see("try pressing enter.");
        attached.type(`${word}\n`);
        await attached.see(`got ${word}\n`);
        await attached.close();
      }
      expect(containerOf(await podReady(cluster, "talker"))).toMatchObject({ containerID: id, restartCount: 0 });
      expect(await cluster.kubectl("logs", "talker")).toBe("got one\ngot two\n");
    });

    it("[node-agent 461] serves kubectl port-forward: a response, 2 MB in both directions, and a port without a listener", async () => {
      const script = `nc -ll -p 9000 -e cat & ${STAY}`;
      await cluster.apply(podOf("reached", { containers: [server(), shell("echo", script)] }));
      await podReady(cluster, "reached");
      const forward = kubectl("port-forward", "--address=127.0.0.1", "pod/reached", ":8080", ":9000", ":9");
      try {
        const portOf = (of: number): Promise<number> =>
          eventually(
            `port ${of} is forwarded`,
            () => Number(new RegExp(`127\\.0\\.0\\.1:(\\d+) -> ${of}\\n`, "u").exec(forward.screen())?.[1]) || undefined,
          );
        expect(await (await fetch(`http://127.0.0.1:${await portOf(8080)}/`)).text()).toBe("v1 reached\n");
        const sent = randomBytes(BIG_BYTES);
        const echo = connect(await portOf(9000), "127.0.0.1");
        echo.write(sent);
        const chunks: Buffer[] = [];
        let bytes = 0;
        for await (const chunk of echo as AsyncIterable<Buffer>) {
          chunks.push(chunk);
          bytes += chunk.length;
          if (bytes >= BIG_BYTES) break;
        }
        expect(Buffer.concat(chunks).equals(sent)).toBe(true);
        connect(await portOf(9), "127.0.0.1").on("error", () => undefined);
        await forward.see(/ECONNREFUSED|lost connection to pod/u);
      } finally {
        await forward.close();
      }
      await cluster.kubectl("delete", "pod", "reached", "talker", "--wait=false");
    });

    it("[node-agent 403] passes a pod's security context to Docker", async () => {
      const securityContext = {
        runAsUser: 1234,
        runAsGroup: 2345,
        readOnlyRootFilesystem: true,
        allowPrivilegeEscalation: false,
        capabilities: { drop: ["ALL"], add: ["NET_BIND_SERVICE"] },
        seccompProfile: { type: "RuntimeDefault" },
      };
      await cluster.apply(
        podOf("fenced", {
          securityContext: { supplementalGroups: [3456], sysctls: [{ name: "net.ipv4.ip_unprivileged_port_start", value: "99" }] },
          shareProcessNamespace: true,
          hostname: "behind",
          containers: [shell("main", STAY, { securityContext })],
        }),
      );
      await podReady(cluster, "fenced");
      const script =
        "id; cat /proc/self/status /proc/sys/net/ipv4/ip_unprivileged_port_start; cat /etc/hostname; cat /proc/1/cmdline; echo x > /x";
      const { stdout, stderr } = await cluster.plane.kubectl(["exec", "fenced", "--", "sh", "-c", script]);
      expect(stdout).toContain("uid=1234 gid=2345 groups=2345,3456");
      expect(stdout).toMatch(/^CapEff:\s+0+$/mu);
      expect(stdout).toMatch(/^CapBnd:\s+0+400$/mu);
      expect(stdout).toMatch(/^NoNewPrivs:\s+1$/mu);
      expect(stdout).toMatch(/^Seccomp:\s+2$/mu);
      expect(stdout).toContain("99\nbehind\n/pause");
      expect(stderr).toContain("Read-only file system");
    });

    it("[node-agent 404] restarts a container that fails its liveness probe, and shows the previous log", async () => {
      const livenessProbe = { exec: { command: ["cat", "/alive"] }, periodSeconds: 1, failureThreshold: 1, initialDelaySeconds: 1 };
      const script = `echo begun; touch /alive; sleep 2; rm /alive; ${STAY}`;
      await cluster.apply(podOf("sick", { containers: [shell("main", script, { livenessProbe })] }));
      await podWhere(cluster, "sick", "was started again", (pod) => containerOf(pod).restartCount > 0);
      expect(await cluster.kubectl("logs", "sick", "--previous")).toBe("begun\n");
    });

    it("[node-agent 405] keeps containers running when the agent or the daemon is killed", async () => {
      const before = await podReady(cluster, "web");
      await node.kill();
      await node.docker.kill();
      expect(await answerOf(before.status.podIP)).toBe("v1 web\n");
      await node.docker.restart();
      await node.start();
      // The Node object has the agent's new port shortly after the start.
      await eventually("exec works", () => cluster.kubectl("exec", "web", "-c", "main", "--", "/server", "exit", "0"));
      const after = await podReady(cluster, "web");
      expect(containerOf(after)).toMatchObject({ containerID: containerOf(before).containerID, restartCount: 0 });
      expect(after.status.podIP).toBe(before.status.podIP);
      expect(await answerOf(after.status.podIP)).toBe("v1 web\n");
    });

    it("[node-agent 406] releases the resources of deleted pods", async () => {
      expect((await node.leftovers()).sandboxes).not.toEqual([]);
      expect((await node.leftovers()).addresses).not.toEqual([]);
      await cluster.kubectl("delete", "pod", "web", "fenced", "sick", "--wait=false");
      for (const name of ["web", "fenced", "sick"]) await podGone(cluster, name, GONE_MS_MAX);
      // Dead containers are collected every minute; shared resources are released immediately.
      await eventually("nothing is left", async () => {
        const { addresses, directories } = await node.leftovers();
        const running = await node.cri.listContainers({ state: "CONTAINER_RUNNING" });
        expect({ addresses, directories, running }).toEqual({ addresses: [], directories: [], running: [] });
        return true;
      });
    });
  });
}
