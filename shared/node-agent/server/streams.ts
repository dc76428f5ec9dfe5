/**
 * Serves `/exec`, `/attach`, `/portForward` and `/run` (node-agent §15). The runtime returns a streaming URL, and the agent proxies the
 * connection to it.
 *
 * Source: pkg/kubelet/server/server.go getExec, getAttach, getPortForward, getRun; pkg/kubelet/kubelet_pods.go GetExec, GetAttach,
 * GetPortForward; cri-streaming remotecommand NewOptions, portforward NewV4Options.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { LABELS } from "../kubelet/types/labels.ts";
import { containerNamed } from "../kubelet/types/pod.ts";
import type { NodePod } from "../kubelet/types/pod.ts";
import { CriError } from "../ports/cri-error.ts";
import type { Cri } from "../ports/cri.ts";
import { answer } from "./answer.ts";
import type { NodeApiOptions } from "./options.ts";
import type { ContainerPath, PodPath } from "./routes.ts";
import { proxyUpgrade, streamingAddress } from "./upgrade-proxy.ts";
import type { Upgrade } from "./upgrade-proxy.ts";
import { messageOf } from "@deltaloop/kube/objects";

/** Source: cri-streaming pkg/streaming/errors.go WriteError. */
const CODES: Readonly<Record<string, number>> = { NotFound: 404, ResourceExhausted: 429 };
/** Deadline of a `/run` command; equals the idle timeout of streams (IDLE_MS in upgrade-proxy.ts). */
const RUN_SECONDS_MAX = 4 * 60 * 60;
const PORT_MAX = 65_535;

interface RequestContext {
  readonly query: URLSearchParams;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly upgrade: Upgrade | undefined;
}

export async function exec(options: NodeApiOptions, asked: ContainerPath & RequestContext): Promise<void> {
  const { namespace, pod, uid, container, query, response } = asked;
  const streams = streamsOf(query, query.get("tty") === "1");
  if (streams === undefined) return answer(response, 400, NO_STREAM);
  const found = await options.backend.pod(namespace, pod, uid);
  if (found === undefined) return answer(response, 404, "pod does not exist");
  await carry(options, "exec", asked, async (cri) => {
    const containerId = await runningContainer(cri, found.pod, container);
    if (containerId === undefined) throw new Error(`container not found ("${container}")\n`);
    return await cri.exec({ containerId, cmd: query.getAll("command"), ...streams });
  });
}

/** Uses the container's `tty` setting, which cannot change while the container runs. */
export async function attach(options: NodeApiOptions, asked: ContainerPath & RequestContext): Promise<void> {
  const { namespace, pod, uid, container, query, response } = asked;
  if (streamsOf(query, query.get("tty") === "1") === undefined) return answer(response, 400, NO_STREAM);
  const found = await options.backend.pod(namespace, pod, uid);
  if (found === undefined) return answer(response, 404, "pod does not exist");
  const spec = containerNamed(found.pod, container);
  const streams = streamsOf(query, spec?.tty === true);
  await carry(options, "attach", asked, async (cri) => {
    const containerId = await runningContainer(cri, found.pod, container);
    if (spec === undefined || containerId === undefined || streams === undefined)
      throw new Error(`container ${container} not found in pod ${pod}_${namespace}`);
    return await cri.attach({ containerId, ...streams });
  });
}

export async function portForward(options: NodeApiOptions, asked: PodPath & RequestContext): Promise<void> {
  const { namespace, pod, uid, query, request, response } = asked;
  const { backend } = options;
  const ports = portsOf(query, request);
  if (typeof ports === "string") return answer(response, 400, ports);
  const found = await backend.pod(namespace, pod);
  if (found === undefined) return answer(response, 404, "pod does not exist");
  if (uid !== undefined && (await backend.pod(namespace, pod, uid)) === undefined) return answer(response, 404, "pod not found");
  await carry(options, "port-forward", asked, async (cri) => {
    const labelSelector = { [LABELS.podUid]: found.pod.metadata.uid };
    const sandbox = newest(await cri.listPodSandbox({ state: "SANDBOX_READY", labelSelector }));
    if (sandbox === undefined) throw new Error(`pod not found ("${pod}_${namespace}")`);
    return await cri.portForward(sandbox, ports);
  });
}

/** `POST /run/…?cmd=`: splits the command at each space, and returns its output. The command ends when the client disconnects. */
export async function run(
  { backend }: NodeApiOptions,
  asked: ContainerPath & Pick<RequestContext, "query" | "response"> & { readonly signal: AbortSignal },
): Promise<void> {
  const { namespace, pod, uid, container, query, response, signal } = asked;
  const found = await backend.pod(namespace, pod, uid);
  if (found === undefined) return answer(response, 404, "pod does not exist");
  try {
    const containerId = await runningContainer(backend.cri, found.pod, container);
    if (containerId === undefined) return answer(response, 500, `container not found ("${container}")`);
    const cmd = (query.get("cmd") ?? "").split(" ");
    const { exitCode, stdout, stderr } = await backend.cri.execSync(containerId, cmd, RUN_SECONDS_MAX, { signal });
    if (exitCode === 0) return answer(response, 200, `${stdout}${stderr}`, "application/json"); // upstream has this content type
    answer(response, 500, `command '${cmd.join(" ")}' exited with ${exitCode}: ${stderr}`);
  } catch (error) {
    answer(response, 500, messageOf(error));
  }
}

/** Gets a streaming URL from the runtime and proxies the client's connection to it. */
async function carry(
  { backend, log }: NodeApiOptions,
  what: "exec" | "attach" | "port-forward",
  { namespace, pod, request, response, upgrade }: PodPath & RequestContext,
  addressOf: (cri: Cri) => Promise<string>,
): Promise<void> {
  if (upgrade === undefined) return answer(response, 500, "Upgrade request required\n");
  try {
    await proxyUpgrade({ request, response, upgrade, target: streamingAddress(await addressOf(backend.cri)) });
  } catch (error) {
    log.warn("stream failed", { what, namespace, pod, error: messageOf(error).trim() });
    if (!response.headersSent) answer(response, codeOf(error), messageOf(error));
  }
}

const NO_STREAM = "you must specify at least 1 of stdin, stdout, stderr";

interface Streams {
  readonly stdin: boolean;
  readonly stdout: boolean;
  readonly stderr: boolean;
  readonly tty: boolean;
}

/** Returns `undefined` if the client requests no stream. With a terminal, stderr is merged into stdout. */
function streamsOf(query: URLSearchParams, tty: boolean): Streams | undefined {
  const isOn = (name: string): boolean => query.get(name) === "1";
  const [stdin, stdout, stderr] = [isOn("input"), isOn("output"), isOn("error")];
  return stdin || stdout || (stderr && !tty) ? { stdin, stdout, stderr: stderr && !tty, tty } : undefined;
}

/** WebSocket clients pass ports in the query; SPDY clients pass one per stream. @returns an error text for invalid ports */
function portsOf(query: URLSearchParams, { headers }: IncomingMessage): readonly number[] | string {
  if (headers.upgrade?.toLowerCase() !== "websocket") return [];
  const asked = query.getAll("port");
  if (asked.length === 0) return `query parameter "port" is required`;
  const ports: number[] = [];
  for (const text of asked) {
    if (text === "") return `query parameter "port" cannot be empty`;
    for (const one of text.split(",")) {
      if (!/^\d+$/u.test(one) || Number(one) > PORT_MAX) return `unable to parse "${text}" as a port`;
      if (Number(one) === 0) return `port "${text}" must be > 0`;
      ports.push(Number(one));
    }
  }
  return ports;
}

/** Returns the id of the newest running instance. */
async function runningContainer(cri: Cri, { metadata }: NodePod, container: string): Promise<string | undefined> {
  const labelSelector = { [LABELS.podUid]: metadata.uid, [LABELS.containerName]: container };
  return newest(await cri.listContainers({ state: "CONTAINER_RUNNING", labelSelector }));
}

function newest(all: readonly { readonly id: string; readonly createdAtMs: number }[]): string | undefined {
  return all.toSorted((a, b) => b.createdAtMs - a.createdAtMs)[0]?.id;
}

function codeOf(error: unknown): number {
  return (error instanceof CriError ? CODES[error.code] : undefined) ?? 500;
}
