/** A server of the agent's API on a free port, with a scripted API server and runtime, and a client for it. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import type { IncomingMessage } from "node:http";
import { request as httpsRequest } from "node:https";
import type { RequestOptions } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Duplex } from "node:stream";

import { createMemoryCri } from "../../../../shared/node-agent/memory/cri/cri.ts";
import { createSystemClock } from "../../../../shared/base/system/clock.ts";
import { createSystemRandom } from "../../../../shared/base/system/random.ts";
import { parseNodePod } from "../../../../shared/node-agent/kubelet/types/pod.ts";
import type { NodePod } from "../../../../shared/node-agent/kubelet/types/pod.ts";
import { startNodeApi } from "../../../../shared/node-agent/server/server.ts";
import type { NodeApi, NodeApiOptions } from "../../../../shared/node-agent/server/server.ts";
import type { Clock } from "../../../../shared/base/clock.ts";
import { CriError } from "../../../../shared/node-agent/ports/cri-error.ts";
import type {
  AttachRequest,
  Container,
  ContainerState,
  ExecRequest,
  ExecSyncResponse,
  PodSandbox,
} from "../../../../shared/node-agent/ports/cri-types.ts";
import type { KubeWriter } from "../../../../shared/kube/client/kube.ts";
import { createPki } from "../../../envtest/pki.ts";
import type { Certificate, Pki } from "../../../envtest/pki.ts";
import { recordingLog } from "../../recording-log.ts";

/** The token of `alice`, who has all permissions in the scripted API server. */
export const TOKEN = "t0ken-of-alice";
const CONTAINER_ID = "c1";
const T = "2026-03-01T10:00:00.000000000Z";

export type Review = { readonly kind: "TokenReview" | "SubjectAccessReview"; readonly spec: Readonly<Record<string, unknown>> };

/** The responses of the API server and the runtime; a test may change them. */
export interface Script {
  /** Returns the status of a review, immediately or later, or throws. */
  review: (review: Review) => object | Promise<object>;
  /** Milliseconds by which `now()` is ahead of the real time. */
  skewMs: number;
  lastLoopMs: number;
  /** Called at the start of each wait. */
  waiting: (ms: number) => void;
  containerState: ContainerState | "removed" | "unavailable";
  logPath: string;
  /** The URL that the runtime returns for streams. */
  execUrl: string;
  /** The ids of the pod's ready sandboxes, oldest first. */
  sandboxes: readonly string[];
  execSync: (cmd: readonly string[], signal?: AbortSignal) => ExecSyncResponse | Promise<ExecSyncResponse>;
}

export interface Fixture {
  readonly port: number;
  readonly script: Script;
  readonly reviews: readonly Review[];
  readonly execs: readonly ExecRequest[];
  readonly attaches: readonly AttachRequest[];
  /** Sandbox and ports of each port-forward request. */
  readonly forwards: readonly (readonly [string, readonly number[]])[];
  /** The number of container status requests to the runtime. */
  statusCalls(): number;
  readonly log: ReturnType<typeof recordingLog>;
  readonly logPath: string;
  ask(path: string, options?: AskOptions): Promise<{ readonly code: number; readonly body: string }>;
  /** Resolves when the response has started. */
  open(path: string, options?: AskOptions): Promise<IncomingMessage>;
  /** Returns the upgraded connection, or the rejection. */
  upgrade(
    path: string,
    options?: AskOptions,
  ): Promise<{ readonly answer: IncomingMessage; readonly socket?: Duplex; readonly head: Buffer }>;
  /** Replaces the server's certificate. */
  show: NodeApi["show"];
  stop(): Promise<void>;
}

export interface AskOptions {
  readonly method?: string;
  /** The bearer token. Default: TOKEN; `null`: none. */
  readonly token?: string | null;
  readonly certificate?: Certificate;
  readonly headers?: Readonly<Record<string, string | string[]>>;
  readonly signal?: AbortSignal;
}

const POD: NodePod = parseNodePod({
  metadata: { name: "web", namespace: "shop", uid: "u1" },
  spec: { containers: [{ name: "main" }, { name: "shell", tty: true, stdin: true }] },
  status: {
    containerStatuses: [
      {
        name: "main",
        image: "app",
        imageID: "",
        ready: true,
        restartCount: 0,
        containerID: `containerd://${CONTAINER_ID}`,
        state: { running: {} },
      },
    ],
  },
});

/** Creates one CA per test file, because each certificate costs a run of `openssl`. */
export async function createTestPki(): Promise<{ readonly pki: Pki; remove(): void }> {
  const folder = mkdtempSync(join(tmpdir(), "deltaloop-node-api-pki-"));
  return { pki: await createPki(folder), remove: () => rmSync(folder, { recursive: true, force: true }) };
}

/** @param tls the server's key and certificate; by default it generates its own, which takes a moment */
export async function startFixture(options: Partial<Pick<NodeApiOptions, "tls" | "clientCa" | "port">> = {}): Promise<Fixture> {
  const directory = mkdtempSync(join(tmpdir(), "deltaloop-node-api-"));
  const podLogsDir = join(directory, "pods");
  const logPath = join(podLogsDir, "shop_web_u1", "main", "0.log");
  mkdirSync(join(logPath, ".."), { recursive: true });
  writeFileSync(logPath, "");
  const system = createSystemClock();
  const script: Script = {
    review: ({ kind, spec }) =>
      kind === "SubjectAccessReview"
        ? { allowed: true }
        : { authenticated: spec["token"] === TOKEN, user: { username: "alice", uid: "7", groups: ["dev"], extra: { scope: ["x"] } } },
    skewMs: 0,
    lastLoopMs: Date.now(),
    waiting: () => undefined,
    containerState: "CONTAINER_RUNNING",
    logPath,
    execUrl: "http://127.0.0.1:1/none",
    sandboxes: ["s1", "s2"],
    execSync: () => ({ stdout: "", stderr: "", exitCode: 0 }),
  };
  const reviews: Review[] = [];
  const execs: ExecRequest[] = [];
  const attaches: AttachRequest[] = [];
  const forwards: (readonly [string, readonly number[]])[] = [];
  let statusCalls = 0;
  const log = recordingLog();
  const clock: Clock = {
    now: () => system.now() + script.skewMs,
    after: (ms, signal) => {
      script.waiting(ms);
      return system.after(ms, signal);
    },
  };
  const starting = startNodeApi({
    host: "127.0.0.1",
    port: 0,
    ...options,
    nodeName: "n1",
    kube: reviewer((review) => {
      reviews.push(review);
      return script.review(review);
    }),
    backend: {
      pod: (namespace, name, uid = "u1") =>
        namespace === "shop" && name === "web" && uid === "u1" ? { pod: POD, status: undefined } : undefined,
      pods: () => [POD],
      lastLoopMs: () => script.lastLoopMs,
      cri: {
        ...createMemoryCri({ clock, random: createSystemRandom(), images: {} }),
        containerStatus: async (id) => {
          statusCalls++;
          const facts = { exitCode: 0, reason: "", message: "", mounts: [], logPath: script.logPath };
          return await Promise.resolve({ ...container(id, stateOf(script)), ...facts });
        },
        listContainers: ({ state, labelSelector } = {}) =>
          Promise.resolve(
            state === script.containerState && labelSelector?.["io.kubernetes.pod.uid"] === "u1"
              ? [container(CONTAINER_ID, stateOf(script))]
              : [],
          ),
        exec: async (request) => {
          execs.push(request);
          return script.execUrl;
        },
        attach: async (request) => {
          attaches.push(request);
          return script.execUrl;
        },
        listPodSandbox: async ({ state, labelSelector } = {}) =>
          state === "SANDBOX_READY" && labelSelector?.["io.kubernetes.pod.uid"] === "u1" ? script.sandboxes.map(sandbox) : [],
        portForward: async (id, ports) => {
          forwards.push([id, ports]);
          return script.execUrl;
        },
        execSync: async (_id, cmd, _seconds, { signal } = {}) => script.execSync(cmd, signal),
      },
    },
    metrics: { contentType: "text/plain", text: async () => "figures 1\n" },
    configuration: { kind: "KubeletConfiguration", maxPods: 110 },
    summary: async (asked) => {
      if (script.containerState === "unavailable") throw new CriError("Unavailable", "nobody answers");
      return { asked };
    },
    nodeUsage: async () => ({ timestampMs: 1_000, cpuSeconds: 2, workingSetBytes: 3 }),
    log,
    clock,
    podLogsDir,
  });
  const removeFiles = (): void => rmSync(directory, { recursive: true, force: true });
  starting.catch(removeFiles);
  const api = await starting;

  const call = (
    path: string,
    { method = "GET", token = TOKEN, certificate, headers = {}, signal }: AskOptions,
  ): ReturnType<typeof httpsRequest> => {
    const authorization = token === null ? {} : { authorization: `Bearer ${token}` };
    const identity = certificate === undefined ? {} : { cert: certificate.certificate, key: certificate.key };
    const target: RequestOptions = { host: "127.0.0.1", port: api.port, path, method, rejectUnauthorized: false, agent: false, signal };
    return httpsRequest({ ...target, ...identity, headers: { ...authorization, ...headers } });
  };
  const open: Fixture["open"] = (path, asked = {}) =>
    new Promise((resolve, reject) => {
      call(path, asked).once("response", resolve).once("error", reject).end();
    });
  return {
    port: api.port,
    show: (certificate) => api.show(certificate),
    script,
    reviews,
    execs,
    attaches,
    forwards,
    statusCalls: () => statusCalls,
    log,
    logPath,
    open,
    async ask(path, asked) {
      const response = await open(path, asked);
      return { code: response.statusCode ?? 0, body: await bodyOf(response) };
    },
    upgrade: (path, asked = {}) =>
      new Promise((resolve, reject) => {
        const headers = { connection: "Upgrade", upgrade: "SPDY/3.1", ...asked.headers };
        call(path, { method: "POST", ...asked, headers })
          .once("upgrade", (answer, socket, head) => resolve({ answer, socket, head }))
          .once("response", (answer) => resolve({ answer, head: Buffer.alloc(0) }))
          .once("error", reject)
          .end();
      }),
    async stop() {
      await api.stop();
      removeFiles();
    },
  };
}

/** Resolves at the end of the body; rejects if the connection is closed before. */
export async function bodyOf(response: IncomingMessage): Promise<string> {
  let body = "";
  for await (const chunk of response.setEncoding("utf8")) body += String(chunk);
  return body;
}

/** Returns a log line as a runtime writes it, for example `line("hello")`. */
export function line(text: string): string {
  return `${T} stdout F ${text}\n`;
}

function reviewer(answer: Script["review"]): KubeWriter {
  const never = (): Promise<never> => Promise.reject(new Error("the server only creates reviews"));
  return {
    create: async ({ body }) => {
      const review = body as Review; // the server sends Reviews
      return { metadata: { name: "", uid: "", resourceVersion: "" }, ...{ status: await answer(review) } };
    },
    patch: never,
    delete: never,
    replace: never,
  };
}

function stateOf({ containerState }: Script): ContainerState {
  if (containerState === "removed") throw new CriError("NotFound", "no such container");
  if (containerState === "unavailable") throw new CriError("Unavailable", "nobody answers");
  return containerState;
}

function container(id: string, state: ContainerState): Container {
  const metadata = { name: "main", attempt: 0 };
  return { id, podSandboxId: "s1", metadata, image: "app", imageRef: "", state, createdAtMs: 1, labels: {}, annotations: {} };
}

function sandbox(id: string, index: number): PodSandbox {
  const metadata = { name: "web", namespace: "shop", uid: "u1", attempt: index };
  return { id, metadata, state: "SANDBOX_READY", createdAtMs: index, labels: {}, annotations: {} };
}
