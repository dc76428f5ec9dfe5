/**
 * The agent's HTTPS API with a real API server, a real containerd and kubectl. The agent does not run: the test itself registers the node,
 * binds a pod to it and writes the status.
 */
import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { existsSync, mkdirSync, readFileSync, renameSync } from "node:fs";
import { request as httpsRequest } from "node:https";
import { connect } from "node:net";
import type { Socket } from "node:net";
import { join } from "node:path";

import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { createCri } from "../../shared/node-agent/cri/cri.ts";
import type { CriAdapter } from "../../shared/node-agent/cri/cri.ts";
import { createKubeHttp } from "../../shared/kube/http/kube-http.ts";
import { createSystemClock } from "../../shared/base/system/clock.ts";
import { LABELS } from "../../shared/node-agent/kubelet/types/labels.ts";
import { parseNodePod } from "../../shared/node-agent/kubelet/types/pod.ts";
import type { NodePod } from "../../shared/node-agent/kubelet/types/pod.ts";
import { kubeHttpConfigFrom } from "../../shared/kube/kubeconfig/kubeconfig.ts";
import { startNodeApi } from "../../shared/node-agent/server/server.ts";
import type { NodeApi } from "../../shared/node-agent/server/server.ts";
import type { PodSandboxConfig } from "../../shared/node-agent/ports/cri-types.ts";
import type { PodStatus } from "../../shared/node-agent/ports/node-store.ts";
import { startContainerd } from "../containerd/containerd.ts";
import type { ContainerdNode } from "../containerd/containerd.ts";
import { IMAGES } from "../containerd/images.ts";
import { ensureContainerd } from "../containerd/programs.ts";
import { controlPlaneBinaries } from "../envtest/binaries.ts";
import { startControlPlane } from "../envtest/control-plane.ts";
import type { ControlPlane } from "../envtest/control-plane.ts";
import type { KubectlResult } from "../envtest/kubectl.ts";
import { eventually } from "../support/e2e.ts";
import { recordingLog } from "../unit/recording-log.ts";

const NODE = "n1";
const POD = "talker";
/** Bytes of a log line; more than the 16 KiB that containerd writes as one part of a line. */
const LONG_LINE_BYTES = 40_000;
/** A script that prints lines and then obeys the files /say0, /say1, … The pauses keep the order of the two streams. */
const LISTEN = `echo one; sleep 0.2; echo two >&2; sleep 0.2; echo three; n=0
while true; do if [ -s /say$n ]; then . /say$n; n=$((n + 1)); fi; sleep 0.05; done`;

/** Echoes all data on port 9000, for any number of connections. */
const ECHO = "while true; do nc -ll -p 9000 -e cat; done";
const BIG_BYTES = 4_000_000;

const binaries = await controlPlaneBinaries();
const missing = "missing" in binaries ? binaries.missing : ensureContainerd();
if (missing !== undefined) {
  process.stderr.write(`!!!!  node-api cannot run: ${missing}\n`);
  it.skip(`kubectl logs and exec on a real containerd: ${missing}`);
} else {
  suite();
}

function suite(): void {
  let plane: ControlPlane;
  let node: ContainerdNode;
  let cri: CriAdapter;
  let api: NodeApi;
  let pod: NodePod;
  let status: PodStatus;
  const log = recordingLog();
  /** The number of the agent's status requests to the runtime. */
  let statusesAsked = 0;

  beforeAll(async () => {
    [plane, node] = await Promise.all([startControlPlane({ controllers: "without-workloads" }), startContainerd()]);
    cri = createCri(node.endpoint);
    const identity = { user: `system:node:${NODE}`, groups: ["system:nodes"] };
    const config = await kubeHttpConfigFrom(await plane.kubeconfigFor(identity), { component: "node" });
    const podLogsDir = join(node.directory, "pods");
    api = await startNodeApi({
      host: "127.0.0.1",
      port: 0,
      clientCa: String(config.ca),
      nodeName: NODE,
      kube: createKubeHttp(config),
      log,
      clock: createSystemClock(),
      podLogsDir,
      metrics: { contentType: "text/plain", text: async () => "" },
      configuration: {},
      summary: async () => ({}),
      nodeUsage: async () => ({ timestampMs: 0, cpuSeconds: 0, workingSetBytes: 0 }),
      backend: {
        cri: {
          ...cri,
          containerStatus: (id) => {
            statusesAsked++;
            return cri.containerStatus(id);
          },
        },
        pod: (namespace, name, uid = pod.metadata.uid) =>
          namespace === pod.metadata.namespace && name === POD && uid === pod.metadata.uid ? { pod, status } : undefined,
        pods: () => [pod],
        lastLoopMs: () => Date.now(),
      },
    });
    await create({
      kind: "Node",
      metadata: { name: NODE },
      status: { addresses: [{ type: "InternalIP", address: "127.0.0.1" }], daemonEndpoints: { kubeletEndpoint: { Port: api.port } } },
    });
    pod = parseNodePod(
      await create({
        kind: "Pod",
        metadata: { name: POD, namespace: "default" },
        spec: {
          nodeName: NODE,
          containers: ["main", "pulling", "reader", "echo"].map((name) => ({
            name,
            image: IMAGES.busybox,
            ...(name === "reader" && { stdin: true }),
          })),
        },
      }),
    );
    status = await startContainers(podLogsDir);
    const { code, stderr } = await plane.kubectl(["replace", "--raw", `/api/v1/namespaces/default/pods/${POD}/status`, "-f", "-"], {
      input: JSON.stringify({ ...pod, status }),
    });
    expect(code, stderr).toBe(0);
  });

  afterAll(async () => {
    await api?.stop();
    cri?.close();
    await Promise.all([plane?.stop(), node?.stop()]);
  });

  describe("kubectl logs", () => {
    it("shows a container's output, from both streams, in order [node-agent 102] [node-agent 103]", async () => {
      const { stdout, code } = await eventually("three lines", async () => {
        const result = await kubectl("logs", POD, "-c", "main");
        return result.stdout.includes("three\n") && result;
      });
      expect([code, stdout]).toEqual([0, "one\ntwo\nthree\n"]);
    });

    it("shows the last lines, the first bytes, the time, and only recent lines [node-agent 114]", async () => {
      expect((await kubectl("logs", POD, "-c", "main", "--tail=2")).stdout).toBe("two\nthree\n");
      expect((await kubectl("logs", POD, "-c", "main", "--tail=0")).stdout).toBe("");
      expect((await kubectl("logs", POD, "-c", "main", "--limit-bytes=5")).stdout).toBe("one\nt");
      const stamped = (await kubectl("logs", POD, "-c", "main", "--timestamps", "--tail=1")).stdout;
      expect(stamped).toMatch(/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{9}(?:Z|[+-]\d{2}:\d{2}) three\n$/u);
      expect((await kubectl("logs", POD, "-c", "main", "--since=1h")).stdout).toBe("one\ntwo\nthree\n");
      const after = new Date(Date.parse(stamped.slice(0, 23) + "Z") + 2_000).toISOString();
      expect((await kubectl("logs", POD, "-c", "main", `--since-time=${after}`)).stdout).toBe("");
    });

    it("shows the previous instance with --previous, and reports that there is none [node-agent 103]", async () => {
      expect((await kubectl("logs", POD, "-c", "main", "--previous")).stdout).toBe("first life\n");
      const none = await kubectl("logs", POD, "-c", "pulling", "--previous");
      expect([none.code, none.stderr]).toEqual([
        1,
        expect.stringContaining(`previous terminated container "pulling" in pod "${POD}" not found`),
      ]);
    });

    it("reports why there is no output yet [node-agent 114]", async () => {
      const { code, stderr } = await kubectl("logs", POD, "-c", "pulling");
      const text = `container "pulling" in pod "${POD}" is waiting to start: trying and failing to pull image`;
      expect([code, stderr]).toEqual([1, expect.stringContaining(text)]);
    });
  });

  describe("kubectl exec", () => {
    it("runs a command with separate streams and returns its exit code [node-agent 102]", async () => {
      expect(await exec("sh", "-c", "echo out; echo err >&2; exit 7")).toEqual({
        stdout: "out\n",
        stderr: "err\ncommand terminated with exit code 7\n",
        code: 7,
      });
      expect(await exec("true")).toEqual({ stdout: "", stderr: "", code: 0 });
    });

    it("passes standard input completely, and bytes unchanged [node-agent 102]", async () => {
      const input = `first\n${"x".repeat(300_000)}\nlast`;
      const { stdout, code } = await plane.kubectl(["exec", "-i", POD, "-c", "main", "--", "cat"], { input });
      expect([code, stdout.length, stdout === input]).toEqual([0, input.length, true]);
    });

    it("reports a missing program and a missing container", async () => {
      const noProgram = await exec("nothing-of-that-name");
      expect(noProgram.code).not.toBe(0);
      expect(noProgram.stderr).toContain("nothing-of-that-name");
      const notRunning = await kubectl("exec", POD, "-c", "pulling", "--", "true");
      expect([notRunning.code, notRunning.stderr]).toEqual([1, expect.stringContaining(`container not found ("pulling")`)]);
    });
  });

  describe("kubectl attach", () => {
    it("attaches to the container's main process, receives its later output, and sends its input [node-agent 303]", async () => {
      const attached = kubectlLater("attach", "-i", POD, "-c", "reader");
      attached.child.stdin?.write("one\n");
      await eventually("the process answers", () => attached.output().includes("heard one\n"));
      attached.child.stdin?.write("two\n");
      await eventually("and again", () => attached.output().includes("heard two\n"));
      attached.child.kill("SIGKILL"); // disconnects the client
      await attached.ended;
      await eventually("nothing is left of it", () => api.streams() === 0);
      const again = kubectlLater("attach", "-i", POD, "-c", "reader");
      again.child.stdin?.write("three\n");
      await eventually("who comes later joins the same process", () => again.output().includes("heard three\n"));
      again.child.kill("SIGKILL");
      await again.ended;
      const { code, stderr } = await kubectl("attach", POD, "-c", "pulling");
      expect([code, stderr]).toEqual([1, expect.stringContaining(`container pulling not found in pod ${POD}_default`)]);
    });
  });

  describe("kubectl port-forward", () => {
    it("forwards many concurrent connections, even large and aborted ones, and leaves no socket open [node-agent 304]", async () => {
      const forward = kubectlLater("port-forward", `pod/${POD}`, ":9000");
      const port = await portOf(forward, 9000);
      const big = randomBytes(BIG_BYTES);
      const echo = async (bytes: Buffer): Promise<Buffer> => {
        const socket = connect(port, "127.0.0.1");
        const back = chunksOf(socket, bytes.length);
        socket.write(bytes);
        const all = await back;
        socket.destroy();
        return all;
      };
      expect((await echo(big)).equals(big)).toBe(true);
      const small = Array.from({ length: 12 }, (_, n) => Buffer.from(`connection ${n}`));
      expect(await Promise.all(small.map(echo))).toEqual(small);
      // Two misbehaving clients: one disconnects while it sends, the other sends nothing.
      for (const bytes of [big, Buffer.alloc(0)]) {
        const rude = connect(port, "127.0.0.1").on("error", () => undefined);
        await once(rude, "connect");
        rude.write(bytes);
        rude.resetAndDestroy();
      }
      expect((await echo(Buffer.from("still there"))).toString()).toBe("still there");
      forward.child.kill("SIGTERM");
      await forward.ended;
      await eventually("nothing is left of it", () => api.streams() === 0);
    });

    it("reports a port without a listener, and a pod that does not exist [node-agent 304]", async () => {
      const forward = kubectlLater("port-forward", `pod/${POD}`, ":9001");
      const port = await portOf(forward, 9001);
      const socket = connect(port, "127.0.0.1").on("error", () => undefined);
      await once(socket, "connect");
      await eventually("kubectl says why", () => forward.output().includes("onnection refused"));
      socket.destroy();
      forward.child.kill("SIGTERM");
      await forward.ended;
      const { code } = await kubectl("port-forward", "pod/nobody", ":1");
      expect(code).toBe(1);
    });
  });

  describe("a WebSocket client of the API server", () => {
    it("receives a command's output and a log, on one channel per stream [node-agent 102]", async () => {
      const pods = `/api/v1/namespaces/default/pods/${POD}`;
      const command = ["sh", "-c", "echo over; echo the wire >&2"].map((word) => `command=${encodeURIComponent(word)}`).join("&");
      const channels = await overWebSocket(`${pods}/exec?container=main&stdout=true&stderr=true&${command}`, "v4.channel.k8s.io");
      expect([channels.get(1), channels.get(2)]).toEqual(["over\n", "the wire\n"]);
      expect(JSON.parse(channels.get(3) ?? "")).toMatchObject({ status: "Success" });
      const log = await overWebSocket(`${pods}/log?container=main&tailLines=1`, "binary.k8s.io", { channels: false });
      expect(log.get(0)).toBe("three\n");
    });
  });

  describe("a direct client of the node", () => {
    it("receives 401 without a valid token, 403 without permission, and a response with permission", async () => {
      await kubectl("create", "serviceaccount", "stranger");
      await kubectl("create", "serviceaccount", "reader");
      await kubectl("create", "clusterrole", "read-node-pods", "--verb=get", "--resource=nodes/pods");
      await kubectl("create", "clusterrolebinding", "reader", "--clusterrole=read-node-pods", "--serviceaccount=default:reader");
      const [stranger, reader] = await Promise.all([tokenOf("stranger"), tokenOf("reader")]);
      const logs = `/containerLogs/default/${POD}/main`;
      expect(await ask("/pods")).toEqual({ code: 401, body: "Unauthorized" });
      expect(await ask("/pods", "not-a-token")).toEqual({ code: 401, body: "Unauthorized" });
      const who = "user=system:serviceaccount:default:stranger, verb=get, resource=nodes";
      expect(await ask(logs, stranger)).toEqual({ code: 403, body: `Forbidden (${who}, subresource(s)=[proxy])\n` });
      expect(await ask("/pods", stranger)).toEqual({ code: 403, body: `Forbidden (${who}, subresource(s)=[pods proxy])\n` });
      const served = await ask("/pods", reader);
      expect([served.code, (JSON.parse(served.body) as { items: NodePod[] }).items.map(({ metadata }) => metadata.name)]).toEqual([
        200,
        [POD],
      ]);
      expect((await ask(logs, reader)).code).toBe(403);
      const logged = JSON.stringify(log.lines);
      expect([stranger, reader].some((token) => logged.includes(token))).toBe(false);
    });
  });

  describe("kubectl logs -f", () => {
    it("continues across a rotation, joins long lines, and ends with the container [node-agent 102] [node-agent 114]", async () => {
      const { id, logPath } = await cri.containerStatus(runningId());
      const before = statusesAsked;
      const following = kubectl("logs", "-f", POD, "-c", "main", "--tail=1");
      // The agent reads the status once for the log's path, and again after it has sent the content, to decide whether more can follow.
      await eventually("the agent has sent the log's last line", () => statusesAsked >= before + 2);
      let told = 0;
      const say = async (command: string, last: string): Promise<void> => {
        expect((await exec("sh", "-c", `echo '${command}' > /say${told++}`)).code).toBe(0);
        await eventually(`"${last}" is in the log`, () => existsSync(logPath) && readFileSync(logPath, "utf8").includes(` F ${last}\n`));
      };
      await say("echo before", "before");
      renameSync(logPath, `${logPath}.1`);
      await cri.reopenContainerLog(id);
      await say("echo after", "after");
      await say(`printf %0${LONG_LINE_BYTES}d 7; echo; echo last words`, "last words");
      await cri.stopContainer(id, 0);
      const { code, stdout } = await following;
      expect(code).toBe(0);
      const long = "7".padStart(LONG_LINE_BYTES, "0"); // compared separately, to keep a failure's output short
      expect(stdout.includes(long)).toBe(true);
      expect(stdout.replace(long, "<long>")).toBe("three\nbefore\nafter\n<long>\nlast words\n");
    });
  });

  function kubectl(...args: readonly string[]): Promise<KubectlResult> {
    return plane.kubectl(args);
  }

  function exec(...command: readonly string[]): Promise<KubectlResult> {
    return kubectl("exec", POD, "-c", "main", "--", ...command);
  }

  /** A running kubectl, with its standard input left open. */
  function kubectlLater(...args: readonly string[]): Later {
    if ("missing" in binaries) throw new Error(binaries.missing);
    const child = spawn(binaries.kubectl, ["--kubeconfig", plane.adminKubeconfig, ...args], { env: { ...process.env, KUBERC: "off" } });
    let output = "";
    const more = (chunk: Buffer): void => void (output += String(chunk));
    child.stdout.on("data", more);
    child.stderr.on("data", more);
    child.stdin.on("error", () => undefined);
    return { child, output: () => output, ended: once(child, "close") };
  }

  async function create(object: object): Promise<unknown> {
    const input = JSON.stringify({ apiVersion: "v1", ...object });
    const { code, stdout, stderr } = await plane.kubectl(["create", "-f", "-", "-o", "json"], { input });
    expect(code, stderr).toBe(0);
    return JSON.parse(stdout);
  }

  /** Starts the containers; `main` has restarted once, and `pulling` has no image. */
  async function startContainers(podLogsDir: string): Promise<PodStatus> {
    const { namespace, name, uid } = pod.metadata;
    const logDirectory = join(podLogsDir, `${namespace}_${name}_${uid}`);
    const sandboxConfig: PodSandboxConfig = {
      metadata: { name, namespace, uid, attempt: 0 },
      hostname: name,
      logDirectory,
      labels: { [LABELS.podName]: name, [LABELS.podNamespace]: namespace, [LABELS.podUid]: uid },
      linux: {
        cgroupParent: `${node.cgroupParent}/${name}`,
        securityContext: { namespaceOptions: { network: "POD", pid: "CONTAINER", ipc: "POD" } },
      },
    };
    const sandbox = await cri.runPodSandbox(sandboxConfig);
    const run = async (attempt: number, script: string, { name: container = "main", stdin = false } = {}): Promise<string> => {
      mkdirSync(join(logDirectory, container), { recursive: true });
      const id = await cri.createContainer(
        sandbox,
        {
          metadata: { name: container, attempt },
          image: { image: IMAGES.busybox },
          command: ["sh", "-c", script],
          labels: { [LABELS.podName]: name, [LABELS.podNamespace]: namespace, [LABELS.podUid]: uid, [LABELS.containerName]: container },
          logPath: `${container}/${attempt}.log`,
          stdin,
        },
        sandboxConfig,
      );
      await cri.startContainer(id);
      return id;
    };
    const first = await run(0, "echo first life");
    await eventually("the first life is over", async () => (await cri.containerStatus(first)).state === "CONTAINER_EXITED");
    const second = await run(1, LISTEN);
    await run(0, 'while read line; do echo "heard $line"; done; echo over', { name: "reader", stdin: true });
    await run(0, ECHO, { name: "echo" });
    const image = { image: IMAGES.busybox, imageID: "" };
    return {
      phase: "Running",
      containerStatuses: [
        {
          ...image,
          name: "main",
          ready: true,
          restartCount: 1,
          containerID: `containerd://${second}`,
          state: { running: {} },
          lastState: { terminated: { exitCode: 0, containerID: `containerd://${first}` } },
        },
        ...["reader", "echo"].map((container) => ({
          ...image,
          name: container,
          ready: true,
          restartCount: 0,
          state: { running: {} },
        })),
        { ...image, name: "pulling", ready: false, restartCount: 0, state: { waiting: { reason: "ImagePullBackOff" } } },
      ],
    };
  }

  function runningId(): string {
    return status.containerStatuses?.[0]?.containerID?.replace("containerd://", "") ?? "";
  }

  async function tokenOf(serviceAccount: string): Promise<string> {
    return (await kubectl("create", "token", serviceAccount)).stdout.trim();
  }

  /** Returns the data of each channel until the server closes the connection; without channels, all data counts as channel 0. */
  async function overWebSocket(path: string, protocol: string, { channels = true } = {}): Promise<ReadonlyMap<number, string>> {
    const { ca, cert, key } = await kubeHttpConfigFrom(plane.adminKubeconfig, { component: "node-api-test" });
    const headers = {
      connection: "Upgrade",
      upgrade: "websocket",
      "sec-websocket-version": "13",
      "sec-websocket-key": randomBytes(16).toString("base64"),
      "sec-websocket-protocol": protocol,
    };
    const bytes = await new Promise<Buffer>((resolve, reject) => {
      const call = httpsRequest(new URL(path, plane.url), { ca: String(ca), cert: String(cert), key: String(key), headers, agent: false });
      call.once("upgrade", (_answer, socket, head) => {
        const chunks: Buffer[] = [head];
        socket.on("data", (chunk: Buffer) => chunks.push(chunk)).once("error", reject);
        socket.once("end", () => resolve(Buffer.concat(chunks))).once("end", () => socket.destroy());
      });
      call.once("response", ({ statusCode }) => reject(new Error(`not upgraded: ${statusCode}`)));
      call.once("error", reject).end();
    });
    const said = new Map<number, string>();
    for (const payload of binaryFrames(bytes)) {
      const channel = channels ? (payload[0] ?? 0) : 0;
      said.set(channel, (said.get(channel) ?? "") + payload.toString("utf8", channels ? 1 : 0));
    }
    return said;
  }

  function ask(path: string, token?: string): Promise<{ readonly code: number; readonly body: string }> {
    const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
    const options = { host: "127.0.0.1", port: api.port, path, headers, rejectUnauthorized: false, agent: false };
    return new Promise((resolve, reject) => {
      const call = httpsRequest(options, (response) => {
        let body = "";
        response.setEncoding("utf8").on("data", (chunk: string) => (body += chunk));
        response.once("end", () => resolve({ code: response.statusCode ?? 0, body }));
      });
      call.once("error", reject).end();
    });
  }
}

interface Later {
  readonly child: ChildProcess;
  /** The output of both streams. */
  output(): string;
  readonly ended: Promise<unknown>;
}

/** Returns the local port on which kubectl listens for the target port. */
async function portOf({ output }: Later, target: number): Promise<number> {
  const port = new RegExp(`127\\.0\\.0\\.1:(\\d+) -> ${target}`, "u");
  try {
    return Number(await eventually("kubectl listens", () => port.exec(output())?.[1]));
  } catch (error) {
    throw new Error(`kubectl said: ${output()}`, { cause: error });
  }
}

async function chunksOf(socket: Socket, bytes: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of socket as AsyncIterable<Buffer>) {
    chunks.push(chunk); // without an encoding a socket yields buffers
    length += chunk.length;
    if (length >= bytes) break;
  }
  return Buffer.concat(chunks);
}

/** Returns the payloads of a server's unmasked, unfragmented binary frames (RFC 6455 §5.2), for the lengths in these tests. */
function binaryFrames(bytes: Buffer): readonly Buffer[] {
  const payloads: Buffer[] = [];
  for (let at = 0; at + 2 <= bytes.length;) {
    const short = bytes.readUInt8(at + 1);
    const [from, length] = short === 126 ? [at + 4, bytes.readUInt16BE(at + 2)] : [at + 2, short];
    if ((bytes.readUInt8(at) & 0x0f) === 2) payloads.push(bytes.subarray(from, from + length));
    at = from + length;
  }
  return payloads;
}
